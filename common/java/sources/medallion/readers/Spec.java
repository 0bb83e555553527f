package medallion.readers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import medallion.values.Type;

import org.apache.spark.sql.catalyst.InternalRow;

import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** The declaration of a format, parsed from JSON text once per JVM and used by all threads. */
public final class Spec {
    public final String format;
    public final Type root;
    public final boolean isUtc;
    public final boolean isRescuing;
    public final int maxDepth;
    public final int maxBytes;
    public final byte[] separator;
    public final byte[][] nullTexts;

    /** How decimals are written beside numbers: "text", "base64", or not at all. */
    public final String decimals;

    /** By the place of a field: whether the columns of a file may lack it. */
    public final boolean[] optional;

    /**
     * The places of the fields on the way to an array whose elements are rows; empty without one.
     */
    public final int[] each;

    private final String[] required;
    private final int[][] requiredPlaces;

    public Spec(String text) {
        JsonNode node;
        try {
            node = new ObjectMapper().readTree(text);
        } catch (IOException error) {
            throw new IllegalArgumentException(
                    "the declaration is not JSON: " + error.getMessage());
        }
        format = node.get("format").asText();
        root = Type.of(node.get("schema"));
        isUtc = "utc".equals(Member.of(node, "timestamps").asText());
        isRescuing = Member.of(node, "rescue").asBoolean();
        decimals = Member.of(node, "decimals").asText("number");
        maxDepth = Member.of(node, "max_depth").asInt(64);
        maxBytes = Member.of(node, "max_bytes").asInt(Integer.MAX_VALUE);
        separator = Member.of(node, "separator").asText(",").getBytes(StandardCharsets.UTF_8);
        nullTexts = texts(Member.of(node, "null_text"));
        optional = optional(Member.of(node, "optional"));
        each = each(Member.of(node, "each"));
        JsonNode paths = Member.of(node, "required");
        required = new String[paths.size()];
        requiredPlaces = new int[paths.size()][];
        int i = 0;
        for (JsonNode path : paths) {
            required[i] = path.asText();
            requiredPlaces[i] = places(required[i]);
            i++;
        }
    }

    private boolean[] optional(JsonNode names) {
        boolean[] found = new boolean[root.fields == null ? 0 : root.fields.length];
        for (JsonNode each : names) {
            byte[] name = each.asText().getBytes(StandardCharsets.UTF_8);
            found[root.find(name, 0, name.length)] = true;
        }
        return found;
    }

    /** Has the elements of the array that a path leads to become rows; the places of its fields. */
    private int[] each(JsonNode path) {
        int[] found = new int[path.size()];
        Type type = root;
        int i = 0;
        for (JsonNode part : path) {
            byte[] name = part.asText().getBytes(StandardCharsets.UTF_8);
            int place = type.kind == Type.STRUCT ? type.find(name, 0, name.length) : -1;
            if (place < 0) {
                throw new IllegalArgumentException("each names a field that is not in the schema");
            }
            found[i++] = place;
            Type inner = type.fields[place];
            boolean isLast = i == found.length;
            if (isLast || inner.kind == Type.ARRAY) {
                type.fields[place] = inner.each(isLast);
                inner = inner.element;
            }
            type = inner;
        }
        return found;
    }

    /** One text, or an array of them; the empty text where there is none. */
    private static byte[][] texts(JsonNode node) {
        if (!node.isArray()) {
            return new byte[][] {node.asText("").getBytes(StandardCharsets.UTF_8)};
        }
        byte[][] texts = new byte[node.size()][];
        int i = 0;
        for (JsonNode text : node) {
            texts[i++] = text.asText().getBytes(StandardCharsets.UTF_8);
        }
        return texts;
    }

    /** The first required field that is null in the row; null if there is none. */
    public String absent(InternalRow row) {
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
                throw new IllegalArgumentException(
                        "required field " + path + " is not in the schema");
            }
            type = type.fields[places[i]];
        }
        return places;
    }
}
