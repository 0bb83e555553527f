package medallion.files.records;

import medallion.faults.Fault;
import medallion.faults.Reasons;

import org.apache.parquet.example.data.Group;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.util.HashSet;

/** Records of Parquet files as JSON text. */
final class ParquetJson {
    private static final int JULIAN_EPOCH = 2440588;
    private static final int HALF_BYTES = 2;

    private final JsonText json = new JsonText();

    /** Throws a fault for a record without an exact form; {@code place} then names the field. */
    byte[] of(Group record) throws IOException {
        json.open();
        group(record);
        return json.closed();
    }

    String place() {
        return json.path();
    }

    /** The name that two fields of one group have; null if there is none. */
    static String nameTwice(GroupType type) {
        HashSet<String> seen = new HashSet<String>();
        for (int at = 0; at < type.getFieldCount(); at++) {
            Type field = type.getType(at);
            if (!seen.add(field.getName())) {
                return field.getName();
            }
            String inner = field.isPrimitive() ? null : nameTwice(field.asGroupType());
            if (inner != null) {
                return inner;
            }
        }
        return null;
    }

    private void group(Group value) throws IOException {
        GroupType type = value.getType();
        json.startObject();
        for (int field = 0; field < type.getFieldCount(); field++) {
            json.name(type.getFieldName(field));
            field(value, field, type.getType(field));
        }
        json.endObject();
    }

    private void field(Group value, int field, Type type) throws IOException {
        int count = value.getFieldRepetitionCount(field);
        if (type.isRepetition(Type.Repetition.REPEATED)) {
            json.startArray();
            for (int at = 0; at < count; at++) {
                single(value, field, at, type);
            }
            json.endArray();
        } else if (count == 0) {
            json.nothing();
        } else {
            single(value, field, 0, type);
        }
    }

    private void single(Group value, int field, int at, Type type) throws IOException {
        if (type.isPrimitive()) {
            json.scalar(scalar(value, field, at, type.asPrimitiveType()));
            return;
        }
        LogicalTypeAnnotation meaning = type.getLogicalTypeAnnotation();
        Group inner = groupIn(value, field, at);
        if (meaning instanceof LogicalTypeAnnotation.ListLogicalTypeAnnotation) {
            list(inner);
        } else if (meaning instanceof LogicalTypeAnnotation.MapLogicalTypeAnnotation
                || meaning instanceof LogicalTypeAnnotation.MapKeyValueTypeAnnotation) {
            map(inner);
        } else if (meaning == null) {
            group(inner);
        } else {
            throw new Fault(Reasons.NO_JSON_FORM);
        }
    }

    /**
     * A group with one repeated field: its elements, without the wrapping of the usual three
     * levels.
     */
    private void list(Group value) throws IOException {
        Type repeated = value.getType().getType(0);
        boolean isWrapped =
                !repeated.isPrimitive()
                        && repeated.asGroupType().getFieldCount() == 1
                        && !repeated.getName().equals("array")
                        && !repeated.getName().endsWith("_tuple");
        json.startArray();
        for (int at = 0; at < value.getFieldRepetitionCount(0); at++) {
            if (isWrapped) {
                Group wrapped = groupIn(value, 0, at);
                field(wrapped, 0, wrapped.getType().getType(0));
            } else {
                single(value, 0, at, repeated);
            }
        }
        json.endArray();
    }

    private static Group groupIn(Group value, int field, int at) {
        Object found = value.getGroup(field, at);
        return (Group) found;
    }

    private void map(Group value) throws IOException {
        HashSet<String> seen = new HashSet<String>();
        json.startObject();
        for (int at = 0; at < value.getFieldRepetitionCount(0); at++) {
            Group entry = groupIn(value, 0, at);
            Type type = entry.getType().getType(0);
            if (!type.isPrimitive() || entry.getFieldRepetitionCount(0) != 1) {
                throw new Fault(Reasons.NO_JSON_FORM);
            }
            String key = JsonText.key(scalar(entry, 0, 0, type.asPrimitiveType()));
            if (!seen.add(key)) {
                throw new Fault(Reasons.DUPLICATE_KEY);
            }
            json.name(key);
            if (entry.getType().getFieldCount() > 1) {
                field(entry, 1, entry.getType().getType(1));
            } else {
                json.nothing();
            }
        }
        json.endObject();
    }

    private static Object scalar(Group value, int field, int at, PrimitiveType type) {
        LogicalTypeAnnotation meaning = type.getLogicalTypeAnnotation();
        switch (type.getPrimitiveTypeName()) {
            case BOOLEAN:
                return Boolean.valueOf(value.getBoolean(field, at));
            case DOUBLE:
                return Double.valueOf(value.getDouble(field, at));
            case FLOAT:
                return Float.valueOf(value.getFloat(field, at));
            case INT32:
                return whole(value.getInteger(field, at), meaning);
            case INT64:
                return whole(value.getLong(field, at), meaning);
            case INT96:
                return int96(value.getInt96(field, at));
            default:
                return binary(value.getBinary(field, at).getBytes(), meaning);
        }
    }

    private static Object whole(long number, LogicalTypeAnnotation meaning) {
        if (meaning == null) {
            return Long.valueOf(number);
        }
        if (meaning instanceof LogicalTypeAnnotation.IntLogicalTypeAnnotation) {
            LogicalTypeAnnotation.IntLogicalTypeAnnotation kind =
                    (LogicalTypeAnnotation.IntLogicalTypeAnnotation) meaning;
            if (kind.isSigned()) {
                return Long.valueOf(number);
            }
            return kind.getBitWidth() <= 32
                    ? (Object) Long.valueOf(number & 0xFFFFFFFFL)
                    : new BigInteger(Long.toUnsignedString(number));
        }
        if (meaning instanceof LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) {
            int scale = ((LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) meaning).getScale();
            return BigDecimal.valueOf(number, scale);
        }
        if (meaning instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation) {
            return JsonText.day(number);
        }
        if (meaning instanceof LogicalTypeAnnotation.TimestampLogicalTypeAnnotation) {
            LogicalTypeAnnotation.TimestampLogicalTypeAnnotation time =
                    (LogicalTypeAnnotation.TimestampLogicalTypeAnnotation) meaning;
            long unit = perSecond(time.getUnit());
            return time.isAdjustedToUTC()
                    ? JsonText.instant(number, unit)
                    : JsonText.local(number, unit);
        }
        if (meaning instanceof LogicalTypeAnnotation.TimeLogicalTypeAnnotation) {
            LogicalTypeAnnotation.TimeLogicalTypeAnnotation time =
                    (LogicalTypeAnnotation.TimeLogicalTypeAnnotation) meaning;
            return JsonText.time(number, perSecond(time.getUnit()));
        }
        throw new Fault(Reasons.NO_JSON_FORM);
    }

    private static Object binary(byte[] raw, LogicalTypeAnnotation meaning) {
        if (meaning == null || meaning instanceof LogicalTypeAnnotation.BsonLogicalTypeAnnotation) {
            return raw;
        }
        if (meaning instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation
                || meaning instanceof LogicalTypeAnnotation.EnumLogicalTypeAnnotation
                || meaning instanceof LogicalTypeAnnotation.JsonLogicalTypeAnnotation) {
            return JsonText.text(raw);
        }
        if (meaning instanceof LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) {
            int scale = ((LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) meaning).getScale();
            return JsonText.decimal(raw, scale);
        }
        if (meaning instanceof LogicalTypeAnnotation.UUIDLogicalTypeAnnotation) {
            return JsonText.uuid(raw);
        }
        if (meaning instanceof LogicalTypeAnnotation.Float16LogicalTypeAnnotation
                && raw.length == HALF_BYTES) {
            return Float.valueOf(half((raw[1] & 0xFF) << 8 | raw[0] & 0xFF));
        }
        throw new Fault(Reasons.NO_JSON_FORM);
    }

    /** A float of 16 bits; every one is a float of 32 bits too. */
    private static float half(int bits) {
        int exponent = bits >> 10 & 0x1F;
        int fraction = bits & 0x3FF;
        float size;
        if (exponent == 0x1F) {
            size = fraction == 0 ? Float.POSITIVE_INFINITY : Float.NaN;
        } else if (exponent == 0) {
            size = fraction * (float) Math.pow(2.0, -24.0);
        } else {
            size = (1024 + fraction) * (float) Math.pow(2.0, (double) (exponent - 25));
        }
        return (bits & 0x8000) == 0 ? size : -size;
    }

    private static long perSecond(LogicalTypeAnnotation.TimeUnit unit) {
        if (unit == LogicalTypeAnnotation.TimeUnit.MILLIS) {
            return 1000L;
        }
        return unit == LogicalTypeAnnotation.TimeUnit.MICROS ? 1000000L : 1000000000L;
    }

    private static String int96(Binary value) {
        ByteBuffer raw = ByteBuffer.wrap(value.getBytes());
        raw.order(ByteOrder.LITTLE_ENDIAN);
        long nanos = raw.getLong();
        long days = raw.getInt() - JULIAN_EPOCH;
        return Instant.ofEpochSecond(days * 86400L, nanos).toString();
    }
}
