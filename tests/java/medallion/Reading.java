package medallion;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;

/** Values read as Spark has them read, and shown as one text each. */
final class Reading {
    private static final Map<String, UTF8String> SPECS = new HashMap<>();

    private Reading() {}

    /**
     * A declaration.
     *
     * @param more further members, as JSON with double quotes written as single ones
     */
    static String spec(String format, String ddl, String more) {
        return "{\"format\":\""
                + format
                + "\",\"schema\":"
                + StructType.fromDDL(ddl).json()
                + (more.isEmpty() ? "" : "," + more.replace('\'', '"'))
                + "}";
    }

    /** {@code fault} or {@code fault at field}; else the fields, as {@code (1, text, null)}. */
    static String read(String spec, byte[] value) {
        InternalRow row = row(spec, value);
        if (row.isNullAt(0)) {
            return shown(((GenericInternalRow) row).values()[3]);
        }
        return row.getUTF8String(0) + (row.isNullAt(1) ? "" : " at " + row.getUTF8String(1));
    }

    static String read(String spec, String value) {
        return read(spec, value.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * A line of a file, as {@code read}; with what is rescued behind it.
     *
     * @param first the file's first line; null: the record has no such header
     */
    static String readLine(String spec, String first, String value) {
        byte[] names = first == null ? null : first.getBytes(StandardCharsets.UTF_8);
        Object header =
                new GenericInternalRow(new Object[] {UTF8String.fromString("header"), names});
        Object path = new GenericInternalRow(new Object[] {UTF8String.fromString("path"), null});
        InternalRow row =
                ValueReader.readLine(
                        value.getBytes(StandardCharsets.UTF_8),
                        new GenericArrayData(new Object[] {path, null, header}),
                        SPECS.computeIfAbsent(spec, UTF8String::fromString));
        if (row.isNullAt(0)) {
            String rescued = row.isNullAt(2) ? "" : " and " + row.getUTF8String(2);
            return shown(((GenericInternalRow) row).values()[3]) + rescued;
        }
        return row.getUTF8String(0) + (row.isNullAt(1) ? "" : " at " + row.getUTF8String(1));
    }

    /** The fields that no type names, as JSON; {@code null} where there are none. */
    static String rescued(String spec, String value) {
        InternalRow row = row(spec, value.getBytes(StandardCharsets.UTF_8));
        return row.isNullAt(2) ? null : row.getUTF8String(2).toString();
    }

    /**
     * Per element {@code fault at field}, or the value of the path's first field; its bytes after
     * an arrow.
     */
    static String elements(String spec, String value) {
        InternalRow row = row(spec, value.getBytes(StandardCharsets.UTF_8));
        if (!row.isNullAt(0)) {
            return row.getUTF8String(0) + (row.isNullAt(1) ? "" : " at " + row.getUTF8String(1));
        }
        StringJoiner joiner = new StringJoiner("; ");
        for (Object each : ((ArrayData) ((GenericInternalRow) row).values()[4]).array()) {
            Object[] element = ((GenericInternalRow) each).values();
            String shown =
                    element[1] == null ? shown(element[3]) : element[1] + " at " + element[2];
            joiner.add(shown + " <- " + new String((byte[]) element[0], StandardCharsets.UTF_8));
        }
        return joiner.toString();
    }

    private static InternalRow row(String spec, byte[] value) {
        return ValueReader.read(value, SPECS.computeIfAbsent(spec, UTF8String::fromString));
    }

    private static String shown(Object value) {
        if (value instanceof GenericInternalRow) {
            return joined("(", ")", ((GenericInternalRow) value).values());
        }
        if (value instanceof ArrayData) {
            return joined("[", "]", ((ArrayData) value).array());
        }
        if (value instanceof MapData) {
            MapData map = (MapData) value;
            return shown(map.keyArray()) + ":" + shown(map.valueArray());
        }
        return String.valueOf(value);
    }

    private static String joined(String open, String close, Object[] values) {
        StringJoiner joiner = new StringJoiner(", ", open, close);
        for (Object each : values) {
            joiner.add(shown(each));
        }
        return joiner.toString();
    }
}
