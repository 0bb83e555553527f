package medallion.avro;

import medallion.faults.UnwritableException;
import medallion.readers.FieldPath;
import medallion.values.Utf8;

import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.io.Encoder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.UUID;

/**
 * Writes Spark's internal values of one type of the declared schema. No value is changed to fit:
 * what the type does not take is an error. Not thread-safe.
 */
final class AvroOutput {
    private final Schema schema;
    private final Schema.Type type;
    private final String logical;
    private AvroOutput[] inner = new AvroOutput[0];
    private String[] names = new String[0];
    private HashMap<UTF8String, Integer> symbols;

    /** Of a union, the place of null; -1: it has none. */
    private int nullBranch = -1;

    /** Of a union, the place of the type that values are written by. */
    private int branch;

    private AvroOutput(Schema schema) {
        this.schema = schema;
        type = schema.getType();
        LogicalType found = schema.getLogicalType();
        logical = found == null ? "" : found.getName();
    }

    static AvroOutput of(Schema schema) {
        AvroOutput output = new AvroOutput(schema);
        if (output.type == Schema.Type.RECORD) {
            List<Schema.Field> fields = schema.getFields();
            output.inner = new AvroOutput[fields.size()];
            output.names = new String[fields.size()];
            for (int i = 0; i < output.inner.length; i++) {
                Object each = fields.get(i);
                Schema.Field field = (Schema.Field) each;
                output.inner[i] = of(field.schema());
                output.names[i] = field.name();
            }
        } else if (output.type == Schema.Type.UNION) {
            output.setBranches(schema.getTypes());
        } else if (output.type == Schema.Type.ARRAY) {
            output.inner = new AvroOutput[] {of(schema.getElementType())};
        } else if (output.type == Schema.Type.MAP) {
            output.inner = new AvroOutput[] {of(schema.getValueType())};
        } else if (output.type == Schema.Type.ENUM) {
            output.symbols = new HashMap<UTF8String, Integer>();
            List<String> texts = schema.getEnumSymbols();
            for (int i = 0; i < texts.size(); i++) {
                Object symbol = texts.get(i);
                output.symbols.put(UTF8String.fromString((String) symbol), Integer.valueOf(i));
            }
        }
        return output;
    }

    /** Of several types of numbers, the column has the widest. */
    private void setBranches(List<Schema> branches) {
        inner = new AvroOutput[1];
        for (int i = 0; i < branches.size(); i++) {
            Object each = branches.get(i);
            Schema found = (Schema) each;
            if (found.getType() == Schema.Type.NULL) {
                nullBranch = i;
            } else if (inner[0] == null
                    || found.getType() == Schema.Type.LONG
                    || found.getType() == Schema.Type.DOUBLE) {
                inner[0] = of(found);
                branch = i;
            }
        }
    }

    /** Writes the fields of a record. */
    void fields(InternalRow row, Encoder out, FieldPath path) throws IOException {
        for (int i = 0; i < inner.length; i++) {
            path.enter(names[i]);
            inner[i].write(row, i, out, path);
            path.leave();
        }
    }

    private void write(SpecializedGetters from, int place, Encoder out, FieldPath path)
            throws IOException {
        boolean isNull = from.isNullAt(place);
        if (isNull && nullBranch < 0) {
            throw new UnwritableException(path, "is null, and the schema has no null there");
        }
        if (type != Schema.Type.UNION) {
            value(from, place, out, path);
            return;
        }
        out.writeIndex(isNull ? nullBranch : branch);
        if (isNull) {
            out.writeNull();
        } else {
            inner[0].value(from, place, out, path);
        }
    }

    private void value(SpecializedGetters from, int place, Encoder out, FieldPath path)
            throws IOException {
        if (type == Schema.Type.RECORD) {
            fields(from.getStruct(place, inner.length), out, path);
        } else if (type == Schema.Type.ARRAY) {
            items(from.getArray(place), out, path);
        } else if (type == Schema.Type.MAP) {
            map(from.getMap(place), out, path);
        } else if (type == Schema.Type.STRING) {
            text(from.getUTF8String(place), out, path);
        } else if (type == Schema.Type.LONG) {
            out.writeLong(whole(from.getLong(place), path));
        } else if (type == Schema.Type.INT) {
            out.writeInt(from.getInt(place));
        } else if (type == Schema.Type.BOOLEAN) {
            out.writeBoolean(from.getBoolean(place));
        } else if (type == Schema.Type.DOUBLE) {
            out.writeDouble(from.getDouble(place));
        } else if (type == Schema.Type.FLOAT) {
            out.writeFloat(from.getFloat(place));
        } else if (type == Schema.Type.ENUM) {
            Object symbol = symbols.get(from.getUTF8String(place));
            if (symbol == null) {
                throw new UnwritableException(path, "is no symbol of the schema's enum");
            }
            out.writeEnum(((Integer) symbol).intValue());
        } else if (type == Schema.Type.BYTES) {
            byte[] content =
                    "decimal".equals(logical)
                            ? unscaled(from, place).toByteArray()
                            : from.getBinary(place);
            out.writeBytes(content);
        } else {
            out.writeFixed(fixed(from, place, path));
        }
    }

    private void items(ArrayData array, Encoder out, FieldPath path) throws IOException {
        int size = array.numElements();
        out.writeArrayStart();
        out.setItemCount(size);
        for (int i = 0; i < size; i++) {
            out.startItem();
            inner[0].write(array, i, out, path);
        }
        out.writeArrayEnd();
    }

    private void map(MapData map, Encoder out, FieldPath path) throws IOException {
        ArrayData keys = map.keyArray();
        ArrayData values = map.valueArray();
        out.writeMapStart();
        out.setItemCount(map.numElements());
        for (int i = 0; i < map.numElements(); i++) {
            out.startItem();
            text(keys.getUTF8String(i), out, path);
            inner[0].write(values, i, out, path);
        }
        out.writeMapEnd();
    }

    private static void text(UTF8String found, Encoder out, FieldPath path) throws IOException {
        byte[] content = found.getBytes();
        if (!Utf8.isValid(content)) {
            throw new UnwritableException(path, "is no text in UTF-8");
        }
        out.writeBytes(content); // a string and bytes are encoded alike
    }

    /** A long; of microseconds what the schema counts. */
    private long whole(long found, FieldPath path) {
        if (logical.endsWith("timestamp-millis")) {
            if (found % 1000L != 0L) {
                throw new UnwritableException(
                        path,
                        "has microseconds, and the schema has milliseconds: "
                                + "date_trunc('millisecond', …) in columns");
            }
            return found / 1000L;
        }
        if (logical.endsWith("timestamp-nanos")) {
            if (found > Long.MAX_VALUE / 1000L || found < Long.MIN_VALUE / 1000L) {
                throw new UnwritableException(
                        path, "is a time that nanoseconds of 64 bits do not reach");
            }
            return found * 1000L;
        }
        return found;
    }

    private BigInteger unscaled(SpecializedGetters from, int place) {
        LogicalTypes.Decimal kind = (LogicalTypes.Decimal) schema.getLogicalType();
        return from.getDecimal(place, kind.getPrecision(), kind.getScale())
                .toJavaBigDecimal()
                .unscaledValue();
    }

    private byte[] fixed(SpecializedGetters from, int place, FieldPath path) {
        int size = schema.getFixedSize();
        if ("decimal".equals(logical)) {
            byte[] digits = unscaled(from, place).toByteArray();
            byte[] content = new byte[size];
            Arrays.fill(content, (byte) (digits[0] < 0 ? -1 : 0));
            System.arraycopy(digits, 0, content, size - digits.length, digits.length);
            return content;
        }
        if ("uuid".equals(logical)) {
            return uuid(from.getUTF8String(place).toString(), path);
        }
        byte[] content = from.getBinary(place);
        if (content.length != size) {
            throw new UnwritableException(path, "has not the " + size + " bytes of the schema");
        }
        return content;
    }

    private static byte[] uuid(String text, FieldPath path) {
        try {
            UUID found = UUID.fromString(text);
            if (found.toString().equalsIgnoreCase(text)) {
                return ByteBuffer.allocate(16)
                        .putLong(found.getMostSignificantBits())
                        .putLong(found.getLeastSignificantBits())
                        .array();
            }
        } catch (IllegalArgumentException error) {
            // told below
        }
        throw new UnwritableException(path, "is no UUID");
    }
}
