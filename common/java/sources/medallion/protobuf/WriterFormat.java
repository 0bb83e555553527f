package medallion.protobuf;

import medallion.faults.Fault;
import medallion.registry.SchemaFormat;

import java.util.ArrayList;
import java.util.Base64;
import java.util.Map;

/** Schemas of Protobuf: descriptors of files, in base64 from a registry, as a set from a file. */
final class WriterFormat implements SchemaFormat {
    public String kind() {
        return "PROTOBUF";
    }

    public String ending() {
        return ".desc";
    }

    public String query() {
        return "?format=serialized";
    }

    public Object ofFile(byte[] content) {
        try {
            return WriterSchema.of(Descriptor.of(content).all(1));
        } catch (Fault error) {
            return null;
        }
    }

    public Object ofTexts(Map<String, String> texts) {
        ArrayList<Descriptor> files = new ArrayList<Descriptor>();
        try {
            for (String name : texts.keySet()) {
                Object text = texts.get(name);
                files.add(Descriptor.of(Base64.getDecoder().decode((String) text)));
            }
            return WriterSchema.of(files);
        } catch (IllegalArgumentException error) {
            return null;
        } catch (Fault error) {
            return null;
        }
    }
}
