package medallion.values;

import com.fasterxml.jackson.databind.JsonNode;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A Spark type, prepared for reading: a struct finds its fields by the bytes of their names. */
public final class Type {
    public static final int STRUCT = 0;
    public static final int ARRAY = 1;
    public static final int MAP = 2;
    public static final int STRING = 3;
    public static final int BOOLEAN = 4;
    public static final int BYTE = 5;
    public static final int SHORT = 6;
    public static final int INT = 7;
    public static final int LONG = 8;
    public static final int FLOAT = 9;
    public static final int DOUBLE = 10;
    public static final int DECIMAL = 11;
    public static final int DATE = 12;
    public static final int TIMESTAMP = 13;
    public static final int TIMESTAMP_NTZ = 14;
    public static final int BINARY = 15;

    /** An array each of whose elements becomes a row of its own. */
    public static final int EACH = 16;

    /** Bytes that valid UTF-8 never contains. */
    private static final byte[] NEVER = new byte[] {(byte) 0xFF};

    public final int kind;

    /** Digits of a decimal; maximum length of a char or varchar; else 0. */
    public int precision;

    public int scale;

    /** Type of an array's elements or of a map's values. */
    public Type element;

    public String[] labels;
    public byte[][] names;

    /** Each name as JSON writes it, with quotes; {@code NEVER} for a name that JSON must escape. */
    public byte[][] quoted;

    public Type[] fields;
    public boolean[] notNull;

    /** Of {@code EACH}: whether its elements are the rows, not arrays of them further down. */
    public boolean isInnermost;

    private int[] slots;
    private int mask;

    private Type(int kind) {
        this.kind = kind;
    }

    /** The type that Spark's JSON form of a schema describes. */
    public static Type of(JsonNode node) {
        if (node.isTextual()) {
            return plain(node.asText());
        }
        String name = node.get("type").asText();
        if ("struct".equals(name)) {
            return struct(node.get("fields"));
        }
        if ("array".equals(name)) {
            Type array = new Type(ARRAY);
            array.element = of(node.get("elementType"));
            return array;
        }
        if ("map".equals(name)) {
            Type map = new Type(MAP);
            map.element = of(node.get("valueType"));
            return map;
        }
        throw new IllegalArgumentException("type " + name + " is not supported");
    }

    /** This array as one each of whose elements becomes a row. */
    public Type each(boolean innermost) {
        if (kind != ARRAY) {
            throw new IllegalArgumentException("only the elements of an array can be rows");
        }
        Type each = new Type(EACH);
        each.element = element;
        each.isInnermost = innermost;
        return each;
    }

    private static Type struct(JsonNode members) {
        Type struct = new Type(STRUCT);
        int count = members.size();
        struct.labels = new String[count];
        struct.names = new byte[count][];
        struct.quoted = new byte[count][];
        struct.fields = new Type[count];
        struct.notNull = new boolean[count];
        int i = 0;
        for (JsonNode member : members) {
            struct.labels[i] = member.get("name").asText();
            struct.names[i] = struct.labels[i].getBytes(StandardCharsets.UTF_8);
            struct.quoted[i] = quoted(struct.labels[i]);
            struct.fields[i] = of(member.get("type"));
            struct.notNull[i] = member.has("nullable") && !member.get("nullable").asBoolean();
            i++;
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
            int slot = hash(names[i], 0, names[i].length) & mask;
            while (slots[slot] != 0) {
                slot = (slot + 1) & mask;
            }
            slots[slot] = i + 1;
        }
    }

    /** Index of the field of this name; -1 if there is none. */
    public int find(byte[] source, int from, int to) {
        int slot = hash(source, from, to) & mask;
        while (slots[slot] != 0) {
            int i = slots[slot] - 1;
            if (Arrays.equals(names[i], 0, names[i].length, source, from, to)) {
                return i;
            }
            slot = (slot + 1) & mask;
        }
        return -1;
    }

    /** A hash of a name's bytes. */
    public static int hash(byte[] source, int from, int to) {
        int hash = 0;
        for (int i = from; i < to; i++) {
            hash = hash * 31 + source[i];
        }
        return hash;
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
        String[] kinds =
                new String[] {
                    "boolean",
                    "byte",
                    "short",
                    "integer",
                    "long",
                    "float",
                    "double",
                    "decimal",
                    "date",
                    "timestamp",
                    "timestamp_ntz",
                    "binary"
                };
        for (int i = 0; i < kinds.length; i++) {
            if (kinds[i].equals(name)) {
                return BOOLEAN + i;
            }
        }
        throw new IllegalArgumentException("type " + name + " is not supported");
    }
}
