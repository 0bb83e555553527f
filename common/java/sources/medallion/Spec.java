package medallion;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.InternalRow;

/** What is declared about a value, from its JSON text; read once per JVM, used by all threads. */
final class Spec {
    final String format;
    final Type root;
    final boolean isUtc;
    final boolean isRescuing;
    final int maxDepth;
    final int maxBytes;
    final byte[] separator;
    final byte[] nullText;
    private final String[] required;
    private final int[][] requiredPlaces;

    Spec(String text) {
        JsonNode node;
        try {
            node = (JsonNode) new ObjectMapper().readTree(text);
        } catch (IOException error) {
            throw new IllegalArgumentException("no JSON: " + error.getMessage());
        }
        format = ((JsonNode) node.get("format")).asText();
        root = Type.of((JsonNode) node.get("schema"));
        isUtc = "utc".equals(((JsonNode) node.path("timestamps")).asText());
        isRescuing = ((JsonNode) node.path("rescue")).asBoolean();
        maxDepth = ((JsonNode) node.path("max_depth")).asInt(64);
        maxBytes = ((JsonNode) node.path("max_bytes")).asInt(Integer.MAX_VALUE);
        separator = ((JsonNode) node.path("separator")).asText(",").getBytes(StandardCharsets.UTF_8);
        nullText = ((JsonNode) node.path("null_text")).asText("").getBytes(StandardCharsets.UTF_8);
        JsonNode paths = (JsonNode) node.path("required");
        required = new String[paths.size()];
        requiredPlaces = new int[paths.size()][];
        for (int i = 0; i < required.length; i++) {
            required[i] = ((JsonNode) paths.get(i)).asText();
            requiredPlaces[i] = places(required[i]);
        }
    }

    Reader reader() {
        if ("json".equals(format)) {
            return new JsonReader(this);
        }
        if ("debezium".equals(format)) {
            return new DebeziumReader(this);
        }
        if ("csv".equals(format)) {
            return new CsvReader(this);
        }
        if ("text".equals(format)) {
            return new TextReader();
        }
        throw new IllegalArgumentException("format " + format + " is not read");
    }

    /** The first required field that the row lacks; null where it has all. */
    String absent(InternalRow row) {
        for (int i = 0; i < required.length; i++) {
            InternalRow within = row;
            Type type = root;
            int[] places = requiredPlaces[i];
            for (int j = 0; j < places.length; j++) {
                if (within.isNullAt(places[j])) {
                    return required[i];
                }
                type = type.fields[places[j]];
                if (j + 1 < places.length) {
                    within = within.getStruct(places[j], type.fields.length);
                }
            }
        }
        return null;
    }

    private int[] places(String path) {
        String[] parts = path.split("\\.");
        int[] places = new int[parts.length];
        Type type = root;
        for (int i = 0; i < parts.length; i++) {
            byte[] name = parts[i].getBytes(StandardCharsets.UTF_8);
            places[i] = type.kind == Type.STRUCT ? type.find(name, 0, name.length) : -1;
            if (places[i] < 0) {
                throw new IllegalArgumentException("required field " + path + " is not in the schema");
            }
            type = type.fields[places[i]];
        }
        return places;
    }
}
