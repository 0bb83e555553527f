package medallion.avro;

import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;

import java.util.HashSet;

/**
 * Forbids schemas that Avro's resolution accepts although it would not give the value that was
 * written.
 */
public final class AvroRules {
    private AvroRules() {}

    /**
     * Whether values of the writer's schema must not be read with the reader's: a logical type is
     * on one side only, a unit or a scale differs, or an array's items may have no bytes.
     */
    static boolean isForbidden(Schema writer, Schema reader) {
        return hasEmptyItems(writer, new HashSet<String>())
                || isDifferent(writer, reader, new HashSet<String>());
    }

    /**
     * Whether values may have no bytes, or arrays items of none: a few bytes could declare 2^63.
     */
    public static boolean mayBeEmpty(Schema schema) {
        return isEmpty(schema, new HashSet<String>())
                || hasEmptyItems(schema, new HashSet<String>());
    }

    /**
     * Whether the logical types differ. Avro does not convert between them: milliseconds would be
     * read as microseconds, and the digits of a text as the bytes of a decimal.
     */
    private static boolean isDifferent(Schema writer, Schema reader, HashSet<String> seen) {
        if (writer.getType() == Schema.Type.UNION) {
            for (Schema branch : writer.getTypes()) {
                if (isDifferent(branch, reader, seen)) {
                    return true;
                }
            }
            return false;
        }
        if (reader.getType() == Schema.Type.UNION) {
            for (Schema branch : reader.getTypes()) {
                if (isDifferent(writer, branch, seen)) {
                    return true;
                }
            }
            return false;
        }
        if (isOtherLogicalType(writer, reader)) {
            return true;
        }
        if (writer.getType() != reader.getType()) {
            return false;
        }
        if (writer.getType() == Schema.Type.ARRAY) {
            return isDifferent(writer.getElementType(), reader.getElementType(), seen);
        }
        if (writer.getType() == Schema.Type.MAP) {
            return isDifferent(writer.getValueType(), reader.getValueType(), seen);
        }
        if (writer.getType() != Schema.Type.RECORD
                || !seen.add(writer.getFullName() + " " + reader.getFullName())) {
            return false;
        }
        for (Schema.Field field : reader.getFields()) {
            Schema.Field written = writer.getField(field.name());
            if (written != null && isDifferent(written.schema(), field.schema(), seen)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isOtherLogicalType(Schema writer, Schema reader) {
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

    /** Whether an array's items may have no bytes: then ten bytes could declare 2^63 items. */
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
