package medallion.avro;

import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;

import java.util.HashSet;

/** What Avro's resolution would let pass, and would not give the value that was written. */
final class AvroRules {
    private AvroRules() {}

    /**
     * Whether values written so may not be read so: a logical type stands on one side only, a unit
     * or a scale differs, or items have no length.
     */
    static boolean forbid(Schema writer, Schema reader) {
        return hasEmptyItems(writer, new HashSet<String>())
                || differ(writer, reader, new HashSet<String>());
    }

    /**
     * Avro gives the number or the bytes under a logical type as they are: milliseconds would be
     * read as microseconds, and the digits of a text as the bytes of a decimal.
     */
    private static boolean differ(Schema writer, Schema reader, HashSet<String> seen) {
        if (writer.getType() == Schema.Type.UNION) {
            for (Schema branch : writer.getTypes()) {
                if (differ(branch, reader, seen)) {
                    return true;
                }
            }
            return false;
        }
        if (reader.getType() == Schema.Type.UNION) {
            for (Schema branch : reader.getTypes()) {
                if (differ(writer, branch, seen)) {
                    return true;
                }
            }
            return false;
        }
        if (unlike(writer, reader)) {
            return true;
        }
        if (writer.getType() != reader.getType()) {
            return false;
        }
        if (writer.getType() == Schema.Type.ARRAY) {
            return differ(writer.getElementType(), reader.getElementType(), seen);
        }
        if (writer.getType() == Schema.Type.MAP) {
            return differ(writer.getValueType(), reader.getValueType(), seen);
        }
        if (writer.getType() != Schema.Type.RECORD
                || !seen.add(writer.getFullName() + " " + reader.getFullName())) {
            return false;
        }
        for (Schema.Field field : reader.getFields()) {
            Schema.Field written = writer.getField(field.name());
            if (written != null && differ(written.schema(), field.schema(), seen)) {
                return true;
            }
        }
        return false;
    }

    private static boolean unlike(Schema writer, Schema reader) {
        LogicalType written = meaning(writer);
        LogicalType read = meaning(reader);
        if (written == null || read == null) {
            return written != read && isPromoted(writer.getType(), reader.getType());
        }
        if (!written.getName().equals(read.getName())) {
            return true;
        }
        return written instanceof LogicalTypes.Decimal
                && ((LogicalTypes.Decimal) written).getScale()
                        != ((LogicalTypes.Decimal) read).getScale();
    }

    /** The logical type, but for the UUID of a text, which is the text itself. */
    private static LogicalType meaning(Schema schema) {
        return schema.getType() == Schema.Type.STRING ? null : schema.getLogicalType();
    }

    /** Whether Avro reads values of the one type as the other; if not, it refuses them itself. */
    private static boolean isPromoted(Schema.Type writer, Schema.Type reader) {
        if (writer == reader) {
            return true;
        }
        switch (reader) {
            case LONG:
                return writer == Schema.Type.INT;
            case FLOAT:
                return writer == Schema.Type.INT || writer == Schema.Type.LONG;
            case DOUBLE:
                return writer == Schema.Type.INT
                        || writer == Schema.Type.LONG
                        || writer == Schema.Type.FLOAT;
            case BYTES:
                return writer == Schema.Type.STRING;
            case STRING:
                return writer == Schema.Type.BYTES;
            default:
                return false;
        }
    }

    /**
     * Whether an array's items may be of no bytes: ten bytes could then say that there are 2^63.
     */
    private static boolean hasEmptyItems(Schema schema, HashSet<String> seen) {
        Schema.Type type = schema.getType();
        if (type == Schema.Type.ARRAY) {
            Schema items = schema.getElementType();
            return isEmpty(items, new HashSet<String>()) || hasEmptyItems(items, seen);
        }
        if (type == Schema.Type.MAP) {
            return hasEmptyItems(schema.getValueType(), seen);
        }
        if (type == Schema.Type.UNION) {
            for (Schema branch : schema.getTypes()) {
                if (hasEmptyItems(branch, seen)) {
                    return true;
                }
            }
        }
        if (type == Schema.Type.RECORD && seen.add(schema.getFullName())) {
            for (Schema.Field field : schema.getFields()) {
                if (hasEmptyItems(field.schema(), seen)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean isEmpty(Schema schema, HashSet<String> seen) {
        Schema.Type type = schema.getType();
        if (type == Schema.Type.NULL || type == Schema.Type.FIXED && schema.getFixedSize() == 0) {
            return true;
        }
        if (type != Schema.Type.RECORD || !seen.add(schema.getFullName())) {
            return false;
        }
        for (Schema.Field field : schema.getFields()) {
            if (!isEmpty(field.schema(), seen)) {
                return false;
            }
        }
        return true;
    }
}
