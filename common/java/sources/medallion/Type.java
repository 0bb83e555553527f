package medallion;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A Spark type, made ready for reading: a struct finds its fields by the bytes of their names. */
final class Type {
    static final int STRUCT = 0;
    static final int ARRAY = 1;
    static final int MAP = 2;
    static final int STRING = 3;
    static final int BOOLEAN = 4;
    static final int BYTE = 5;
    static final int SHORT = 6;
    static final int INT = 7;
    static final int LONG = 8;
    static final int FLOAT = 9;
    static final int DOUBLE = 10;
    static final int DECIMAL = 11;
    static final int DATE = 12;
    static final int TIMESTAMP = 13;
    static final int TIMESTAMP_NTZ = 14;
    static final int BINARY = 15;

    /** What no valid UTF-8 holds. */
    private static final byte[] NEVER = new byte[] {(byte) 0xFF};

    final int kind;
    /** Digits of a decimal; the longest text of a char or varchar, else 0. */
    int precision;
    int scale;
    /** An array's elements, a map's values. */
    Type element;

    String[] labels;
    byte[][] names;
    /** Each name as it stands in JSON, with its quotes; what is never there for one that must be escaped. */
    byte[][] quoted;
    Type[] fields;
    boolean[] notNull;
    private int[] slots;
    private int mask;

    private Type(int kind) {
        this.kind = kind;
    }

    /** The type that Spark's JSON describes. */
    static Type of(JsonNode node) {
        if (node.isTextual()) {
            return plain(node.asText());
        }
        String name = ((JsonNode) node.get("type")).asText();
        if ("struct".equals(name)) {
            return struct((JsonNode) node.get("fields"));
        }
        if ("array".equals(name)) {
            Type array = new Type(ARRAY);
            array.element = of((JsonNode) node.get("elementType"));
            return array;
        }
        if ("map".equals(name)) {
            Type map = new Type(MAP);
            map.element = of((JsonNode) node.get("valueType"));
            return map;
        }
        throw new IllegalArgumentException("type " + name + " is not read");
    }

    private static Type struct(JsonNode members) {
        Type struct = new Type(STRUCT);
        int count = members.size();
        struct.labels = new String[count];
        struct.names = new byte[count][];
        struct.quoted = new byte[count][];
        struct.fields = new Type[count];
        struct.notNull = new boolean[count];
        for (int i = 0; i < count; i++) {
            JsonNode member = (JsonNode) members.get(i);
            struct.labels[i] = ((JsonNode) member.get("name")).asText();
            struct.names[i] = struct.labels[i].getBytes(StandardCharsets.UTF_8);
            struct.quoted[i] = quoted(struct.labels[i]);
            struct.fields[i] = of((JsonNode) member.get("type"));
            struct.notNull[i] = member.has("nullable") && !((JsonNode) member.get("nullable")).asBoolean();
        }
        struct.index();
        return struct;
    }

    private static byte[] quoted(String label) {
        for (int i = 0; i < label.length(); i++) {
            char each = label.charAt(i);
            if (each < ' ' || each == '"' || each == '\\') {
                return NEVER;
            }
        }
        return ("\"" + label + "\"").getBytes(StandardCharsets.UTF_8);
    }

    private void index() {
        int size = 4;
        while (size < names.length * 2) {
            size *= 2;
        }
        mask = size - 1;
        slots = new int[size];
        for (int i = 0; i < names.length; i++) {
            int slot = Names.hash(names[i], 0, names[i].length) & mask;
            while (slots[slot] != 0) {
                slot = (slot + 1) & mask;
            }
            slots[slot] = i + 1;
        }
    }

    /** Place of the field of this name; -1 where there is none. */
    int find(byte[] source, int from, int to) {
        int slot = Names.hash(source, from, to) & mask;
        while (slots[slot] != 0) {
            int i = slots[slot] - 1;
            if (Arrays.equals(names[i], 0, names[i].length, source, from, to)) {
                return i;
            }
            slot = (slot + 1) & mask;
        }
        return -1;
    }

    private static Type plain(String text) {
        int bracket = text.indexOf('(');
        String name = bracket < 0 ? text : text.substring(0, bracket);
        Type type = new Type(kind(name));
        if (bracket >= 0) {
            String[] numbers = text.substring(bracket + 1, text.indexOf(')')).split(",");
            type.precision = Integer.parseInt(numbers[0].trim());
            type.scale = numbers.length > 1 ? Integer.parseInt(numbers[1].trim()) : 0;
        } else if (type.kind == DECIMAL) {
            type.precision = 10;
        }
        return type;
    }

    private static int kind(String name) {
        if (name.equals("char") || name.equals("varchar") || name.startsWith("string")) {
            return STRING;
        }
        String[] kinds = new String[] {
            "boolean", "byte", "short", "integer", "long", "float", "double", "decimal",
            "date", "timestamp", "timestamp_ntz", "binary"
        };
        for (int i = 0; i < kinds.length; i++) {
            if (kinds[i].equals(name)) {
                return BOOLEAN + i;
            }
        }
        throw new IllegalArgumentException("type " + name + " is not read");
    }
}
