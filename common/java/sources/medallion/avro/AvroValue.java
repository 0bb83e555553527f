package medallion.avro;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.FieldPath;
import medallion.values.Utf8;

import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.io.ResolvingDecoder;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;

/**
 * Reads values of one type of the declared schema from a decoder, as Spark's internal values. Not
 * thread-safe.
 */
final class AvroValue {
    private static final long FIRST_DAY = -719162L;
    private static final long LAST_DAY = 2932896L;
    private static final long DAY = 86400000000L;

    private final Schema schema;
    private final Schema.Type type;
    private final String logical;
    private AvroValue[] inner = new AvroValue[0];
    private String[] names = new String[0];
    private UTF8String[] symbols;

    /** Whether this is a union of several types besides null: its numbers are long or double. */
    private boolean isWide;

    private AvroValue(Schema schema) {
        this.schema = schema;
        type = schema.getType();
        LogicalType found = schema.getLogicalType();
        logical = found == null ? "" : found.getName();
    }

    static AvroValue of(Schema schema) {
        AvroValue value = new AvroValue(schema);
        if (value.type == Schema.Type.RECORD) {
            List<Schema.Field> fields = schema.getFields();
            value.inner = new AvroValue[fields.size()];
            value.names = new String[fields.size()];
            for (int i = 0; i < value.inner.length; i++) {
                Object each = fields.get(i);
                Schema.Field field = (Schema.Field) each;
                value.inner[i] = of(field.schema());
                value.names[i] = field.name();
            }
        } else if (value.type == Schema.Type.UNION) {
            List<Schema> branches = schema.getTypes();
            value.inner = new AvroValue[branches.size()];
            int plain = 0;
            for (int i = 0; i < value.inner.length; i++) {
                Object branch = branches.get(i);
                value.inner[i] = of((Schema) branch);
                plain += value.inner[i].type == Schema.Type.NULL ? 0 : 1;
            }
            value.isWide = plain > 1;
        } else if (value.type == Schema.Type.ARRAY) {
            value.inner = new AvroValue[] {of(schema.getElementType())};
        } else if (value.type == Schema.Type.MAP) {
            value.inner = new AvroValue[] {of(schema.getValueType())};
        } else if (value.type == Schema.Type.ENUM) {
            List<String> texts = schema.getEnumSymbols();
            value.symbols = new UTF8String[texts.size()];
            for (int i = 0; i < value.symbols.length; i++) {
                Object symbol = texts.get(i);
                value.symbols[i] = UTF8String.fromString((String) symbol);
            }
        }
        return value;
    }

    Object read(ResolvingDecoder in, AvroBytes bytes, FieldPath path) throws IOException {
        if (type == Schema.Type.RECORD) {
            return record(in, bytes, path);
        }
        if (type == Schema.Type.UNION) {
            Object found = inner[in.readIndex()].read(in, bytes, path);
            if (isWide && found instanceof Integer) {
                return Long.valueOf(((Integer) found).longValue());
            }
            return isWide && found instanceof Float
                    ? (Object) Double.valueOf(((Float) found).doubleValue())
                    : found;
        }
        if (type == Schema.Type.ARRAY) {
            return array(in, bytes, path);
        }
        if (type == Schema.Type.MAP) {
            return map(in, bytes, path);
        }
        return plain(in, bytes);
    }

    private Object record(ResolvingDecoder in, AvroBytes bytes, FieldPath path) throws IOException {
        Object[] row = new Object[inner.length];
        Schema.Field[] order = in.readFieldOrder();
        for (int i = 0; i < order.length; i++) {
            int place = order[i].pos();
            path.enter(names[place]);
            row[place] = inner[place].read(in, bytes, path);
            path.leave();
        }
        return new GenericInternalRow(row);
    }

    private Object array(ResolvingDecoder in, AvroBytes bytes, FieldPath path) throws IOException {
        ArrayList<Object> items = new ArrayList<Object>();
        for (long block = in.readArrayStart(); block != 0L; block = in.arrayNext()) {
            for (long i = 0L; i < block; i++) {
                items.add(inner[0].read(in, bytes, path));
            }
        }
        return new GenericArrayData(items.toArray());
    }

    private Object map(ResolvingDecoder in, AvroBytes bytes, FieldPath path) throws IOException {
        ArrayList<Object> keys = new ArrayList<Object>();
        ArrayList<Object> values = new ArrayList<Object>();
        HashSet<UTF8String> seen = new HashSet<UTF8String>();
        for (long block = in.readMapStart(); block != 0L; block = in.mapNext()) {
            for (long i = 0L; i < block; i++) {
                UTF8String key = text(in);
                if (!seen.add(key)) {
                    throw new Fault(Reasons.DUPLICATE_KEY);
                }
                keys.add(key);
                values.add(inner[0].read(in, bytes, path));
            }
        }
        return new ArrayBasedMapData(
                new GenericArrayData(keys.toArray()), new GenericArrayData(values.toArray()));
    }

    private Object plain(ResolvingDecoder in, AvroBytes bytes) throws IOException {
        if (type == Schema.Type.NULL) {
            in.readNull();
            return null;
        }
        if (type == Schema.Type.STRING) {
            return text(in);
        }
        if (type == Schema.Type.LONG) {
            return longOrMicros(in.readLong());
        }
        if (type == Schema.Type.INT) {
            int found = in.readInt();
            if ("date".equals(logical) && (found < FIRST_DAY || found > LAST_DAY)) {
                throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
            }
            return Integer.valueOf(found);
        }
        if (type == Schema.Type.BOOLEAN) {
            return Boolean.valueOf(in.readBoolean());
        }
        if (type == Schema.Type.DOUBLE) {
            bytes.hasWhole = false;
            double found = in.readDouble();
            refuseRounded(found, bytes.hasWhole && found == (double) bytes.whole, bytes.whole);
            return Double.valueOf(found);
        }
        if (type == Schema.Type.FLOAT) {
            bytes.hasWhole = false;
            float found = in.readFloat();
            refuseRounded(
                    (double) found, bytes.hasWhole && found == (float) bytes.whole, bytes.whole);
            return Float.valueOf(found);
        }
        if (type == Schema.Type.ENUM) {
            return symbols[in.readEnum()];
        }
        if (type == Schema.Type.BYTES) {
            ByteBuffer found = in.readBytes(null);
            byte[] content = new byte[found.remaining()];
            found.get(content);
            return "decimal".equals(logical) ? (Object) decimal(content) : content;
        }
        byte[] content = new byte[schema.getFixedSize()];
        in.readFixed(content, 0, content.length);
        if ("decimal".equals(logical)) {
            return decimal(content);
        }
        return "uuid".equals(logical) ? (Object) uuid(content) : content;
    }

    private static UTF8String text(ResolvingDecoder in) throws IOException {
        org.apache.avro.util.Utf8 found = in.readString(null);
        byte[] content = found.getBytes();
        if (content.length != found.getByteLength()) {
            byte[] whole = new byte[found.getByteLength()];
            System.arraycopy(content, 0, whole, 0, whole.length);
            content = whole;
        }
        if (!Utf8.isValid(content)) {
            throw new Fault(Reasons.NOT_UTF8);
        }
        return UTF8String.fromBytes(content);
    }

    /** A long; a timestamp in microseconds. */
    private Long longOrMicros(long found) {
        long micros = found;
        if (logical.endsWith("timestamp-millis")) {
            if (found > Long.MAX_VALUE / 1000L || found < Long.MIN_VALUE / 1000L) {
                throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
            }
            micros = found * 1000L;
        } else if (logical.endsWith("timestamp-nanos")) {
            if (found % 1000L != 0L) {
                throw new Fault(Reasons.NUMBER_ROUNDED);
            }
            micros = found / 1000L;
        } else if (!logical.endsWith("timestamp-micros")) {
            return Long.valueOf(found);
        }
        if (micros < FIRST_DAY * DAY || micros >= (LAST_DAY + 1L) * DAY) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
        return Long.valueOf(micros);
    }

    private Decimal decimal(byte[] content) {
        if (content.length == 0) {
            throw new Fault(Reasons.MALFORMED_AVRO);
        }
        LogicalTypes.Decimal kind = (LogicalTypes.Decimal) schema.getLogicalType();
        BigInteger digits = new BigInteger(content);
        // Checked before precision(), which is slow for a number of megabytes.
        if (digits.bitLength() > 128) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
        BigDecimal found = new BigDecimal(digits, kind.getScale());
        if (found.precision() > kind.getPrecision()) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
        return Decimal.apply(found, kind.getPrecision(), kind.getScale());
    }

    private static UTF8String uuid(byte[] content) {
        ByteBuffer parts = ByteBuffer.wrap(content);
        return UTF8String.fromString(new UUID(parts.getLong(), parts.getLong()).toString());
    }

    /**
     * Throws a fault if the writer wrote an integer that the declared floating-point type rounds.
     *
     * @param isWhole whether the integer read last was made this number. One that was not belongs
     *     to a field that the reader drops: the decoder skips it before it takes a default
     */
    private static void refuseRounded(double found, boolean isWhole, long whole) {
        if (isWhole && ((long) found != whole || found >= 9.223372036854775807E18)) {
            throw new Fault(Reasons.NUMBER_ROUNDED);
        }
    }
}
