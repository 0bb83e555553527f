package medallion.avro;

import medallion.registry.SchemaFormat;

import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;

import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Schemas of Avro: their JSON text. */
final class AvroSchemas implements SchemaFormat {
    public String kind() {
        return "AVRO";
    }

    public String ending() {
        return ".avsc";
    }

    public String query() {
        return "";
    }

    public Object ofFile(byte[] content) {
        try {
            return new Schema.Parser().parse(new String(content, StandardCharsets.UTF_8));
        } catch (AvroRuntimeException error) {
            return null;
        }
    }

    public Object ofTexts(Map<String, String> texts) {
        Schema.Parser parser = new Schema.Parser();
        Schema schema = null;
        try {
            for (String name : texts.keySet()) {
                if (!parser.getTypes().containsKey(name)) {
                    Object text = texts.get(name);
                    schema = parser.parse((String) text);
                }
            }
        } catch (AvroRuntimeException error) {
            return null;
        }
        return schema;
    }
}
