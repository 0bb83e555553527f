package medallion.files.records;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;

import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.Collection;
import java.util.Map;

/**
 * Records of Parquet and Avro files as JSON text, in the form that the strict JSON reader reads:
 * times as ISO 8601, decimals as numbers with all digits, bytes in base64, null as null.
 *
 * <p>Not a number and the infinities are text, which the reader refuses for a number: such a record
 * is quarantined with its reason.
 */
final class JsonText {
    private static final int JULIAN_EPOCH = 2440588;
    private static final long NANOS_PER_SECOND = 1000000000L;
    private static final JsonFactory FACTORY = new JsonFactory();

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1024);
    private JsonGenerator json;

    private void open() throws IOException {
        bytes.reset();
        json = FACTORY.createGenerator(bytes);
        json.enable(JsonGenerator.Feature.WRITE_BIGDECIMAL_AS_PLAIN);
    }

    private byte[] closed() throws IOException {
        json.close();
        return bytes.toByteArray();
    }

    byte[] ofAvro(Object record, Schema schema) throws IOException {
        open();
        avro(record, schema);
        return closed();
    }

    byte[] ofParquet(Group record) throws IOException {
        open();
        group(record);
        return closed();
    }

    private void avro(Object value, Schema schema) throws IOException {
        if (schema.getType() == Schema.Type.UNION) {
            Object branch = schema.getTypes().get(GenericData.get().resolveUnion(schema, value));
            avro(value, (Schema) branch);
            return;
        }
        if (value == null) {
            json.writeNull();
        } else if (value instanceof IndexedRecord) {
            json.writeStartObject();
            for (Schema.Field field : schema.getFields()) {
                json.writeFieldName(field.name());
                avro(((IndexedRecord) value).get(field.pos()), field.schema());
            }
            json.writeEndObject();
        } else if (value instanceof Collection) {
            json.writeStartArray();
            for (Object one : (Collection<?>) value) {
                avro(one, schema.getElementType());
            }
            json.writeEndArray();
        } else if (value instanceof Map) {
            json.writeStartObject();
            for (Object each : ((Map<?, ?>) value).entrySet()) {
                Map.Entry<?, ?> entry = (Map.Entry<?, ?>) each;
                json.writeFieldName(String.valueOf(entry.getKey()));
                avro(entry.getValue(), schema.getValueType());
            }
            json.writeEndObject();
        } else {
            avroScalar(value, schema);
        }
    }

    private void avroScalar(Object value, Schema schema) throws IOException {
        LogicalType meaning = schema.getLogicalType();
        String name = meaning == null ? "" : meaning.getName();
        if (value instanceof ByteBuffer || value instanceof GenericFixed) {
            byte[] raw = bytesOf(value);
            if (meaning instanceof LogicalTypes.Decimal) {
                int scale = ((LogicalTypes.Decimal) meaning).getScale();
                json.writeNumber(new BigDecimal(new BigInteger(raw), scale));
            } else {
                json.writeBinary(raw);
            }
        } else if (value instanceof Integer) {
            int number = ((Integer) value).intValue();
            if (name.equals("date")) {
                json.writeString(LocalDate.ofEpochDay(number).toString());
            } else if (name.equals("time-millis")) {
                json.writeString(LocalTime.ofNanoOfDay(number * 1000000L).toString());
            } else {
                json.writeNumber(number);
            }
        } else if (value instanceof Long) {
            avroLong(((Long) value).longValue(), name);
        } else if (value instanceof Double) {
            number(((Double) value).doubleValue());
        } else if (value instanceof Float) {
            number(((Float) value).floatValue());
        } else if (value instanceof Boolean) {
            json.writeBoolean(((Boolean) value).booleanValue());
        } else {
            json.writeString(value.toString());
        }
    }

    private void avroLong(long number, String name) throws IOException {
        if (name.equals("timestamp-millis")) {
            json.writeString(instant(number, 1000L).toString());
        } else if (name.equals("timestamp-micros")) {
            json.writeString(instant(number, 1000000L).toString());
        } else if (name.equals("timestamp-nanos")) {
            json.writeString(instant(number, NANOS_PER_SECOND).toString());
        } else if (name.equals("local-timestamp-millis")) {
            json.writeString(local(number, 1000L));
        } else if (name.equals("local-timestamp-micros")) {
            json.writeString(local(number, 1000000L));
        } else if (name.equals("local-timestamp-nanos")) {
            json.writeString(local(number, NANOS_PER_SECOND));
        } else if (name.equals("time-micros")) {
            json.writeString(LocalTime.ofNanoOfDay(number * 1000L).toString());
        } else {
            json.writeNumber(number);
        }
    }

    private static byte[] bytesOf(Object value) {
        if (value instanceof GenericFixed) {
            return ((GenericFixed) value).bytes();
        }
        ByteBuffer whole = (ByteBuffer) value;
        ByteBuffer copy =
                ByteBuffer.wrap(
                        whole.array(), whole.arrayOffset() + whole.position(), whole.remaining());
        byte[] raw = new byte[copy.remaining()];
        copy.get(raw);
        return raw;
    }

    private void group(Group value) throws IOException {
        GroupType type = value.getType();
        json.writeStartObject();
        for (int field = 0; field < type.getFieldCount(); field++) {
            json.writeFieldName(type.getFieldName(field));
            field(value, field, type.getType(field));
        }
        json.writeEndObject();
    }

    private void field(Group value, int field, Type type) throws IOException {
        int count = value.getFieldRepetitionCount(field);
        if (type.isRepetition(Type.Repetition.REPEATED)) {
            json.writeStartArray();
            for (int at = 0; at < count; at++) {
                single(value, field, at, type);
            }
            json.writeEndArray();
        } else if (count == 0) {
            json.writeNull();
        } else {
            single(value, field, 0, type);
        }
    }

    private void single(Group value, int field, int at, Type type) throws IOException {
        if (type.isPrimitive()) {
            primitive(value, field, at, type.asPrimitiveType());
            return;
        }
        LogicalTypeAnnotation meaning = type.getLogicalTypeAnnotation();
        Group inner = groupIn(value, field, at);
        if (meaning instanceof LogicalTypeAnnotation.ListLogicalTypeAnnotation) {
            list(inner);
        } else if (meaning instanceof LogicalTypeAnnotation.MapLogicalTypeAnnotation) {
            map(inner);
        } else {
            group(inner);
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
                        && !repeated.getName().equals("array");
        json.writeStartArray();
        for (int at = 0; at < value.getFieldRepetitionCount(0); at++) {
            if (isWrapped) {
                Group wrapped = groupIn(value, 0, at);
                field(wrapped, 0, wrapped.getType().getType(0));
            } else {
                single(value, 0, at, repeated);
            }
        }
        json.writeEndArray();
    }

    private static Group groupIn(Group value, int field, int at) {
        Object found = value.getGroup(field, at);
        return (Group) found;
    }

    private void map(Group value) throws IOException {
        json.writeStartObject();
        for (int at = 0; at < value.getFieldRepetitionCount(0); at++) {
            Group entry = groupIn(value, 0, at);
            json.writeFieldName(entry.getValueToString(0, 0));
            if (entry.getType().getFieldCount() > 1) {
                field(entry, 1, entry.getType().getType(1));
            } else {
                json.writeNull();
            }
        }
        json.writeEndObject();
    }

    private void primitive(Group value, int field, int at, PrimitiveType type) throws IOException {
        LogicalTypeAnnotation meaning = type.getLogicalTypeAnnotation();
        PrimitiveType.PrimitiveTypeName name = type.getPrimitiveTypeName();
        if (name == PrimitiveType.PrimitiveTypeName.BOOLEAN) {
            json.writeBoolean(value.getBoolean(field, at));
        } else if (name == PrimitiveType.PrimitiveTypeName.DOUBLE) {
            number(value.getDouble(field, at));
        } else if (name == PrimitiveType.PrimitiveTypeName.FLOAT) {
            number(value.getFloat(field, at));
        } else if (name == PrimitiveType.PrimitiveTypeName.INT32) {
            whole(value.getInteger(field, at), meaning);
        } else if (name == PrimitiveType.PrimitiveTypeName.INT64) {
            whole(value.getLong(field, at), meaning);
        } else if (name == PrimitiveType.PrimitiveTypeName.INT96) {
            json.writeString(int96(value.getInt96(field, at)).toString());
        } else {
            binary(value.getBinary(field, at), meaning);
        }
    }

    private void whole(long number, LogicalTypeAnnotation meaning) throws IOException {
        if (meaning instanceof LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) {
            int scale = ((LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) meaning).getScale();
            json.writeNumber(BigDecimal.valueOf(number, scale));
        } else if (meaning instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation) {
            json.writeString(LocalDate.ofEpochDay(number).toString());
        } else if (meaning instanceof LogicalTypeAnnotation.TimestampLogicalTypeAnnotation) {
            LogicalTypeAnnotation.TimestampLogicalTypeAnnotation time =
                    (LogicalTypeAnnotation.TimestampLogicalTypeAnnotation) meaning;
            long unit = perSecond(time.getUnit());
            json.writeString(
                    time.isAdjustedToUTC()
                            ? instant(number, unit).toString()
                            : local(number, unit));
        } else if (meaning instanceof LogicalTypeAnnotation.TimeLogicalTypeAnnotation) {
            long unit =
                    perSecond(
                            ((LogicalTypeAnnotation.TimeLogicalTypeAnnotation) meaning).getUnit());
            json.writeString(LocalTime.ofNanoOfDay(number * (NANOS_PER_SECOND / unit)).toString());
        } else if (meaning instanceof LogicalTypeAnnotation.IntLogicalTypeAnnotation
                && !((LogicalTypeAnnotation.IntLogicalTypeAnnotation) meaning).isSigned()) {
            boolean isInt =
                    ((LogicalTypeAnnotation.IntLogicalTypeAnnotation) meaning).getBitWidth() <= 32;
            json.writeNumber(
                    isInt ? Long.toString(number & 0xFFFFFFFFL) : Long.toUnsignedString(number));
        } else {
            json.writeNumber(number);
        }
    }

    private void binary(Binary value, LogicalTypeAnnotation meaning) throws IOException {
        if (meaning instanceof LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) {
            int scale = ((LogicalTypeAnnotation.DecimalLogicalTypeAnnotation) meaning).getScale();
            json.writeNumber(new BigDecimal(new BigInteger(value.getBytes()), scale));
        } else if (meaning instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation
                || meaning instanceof LogicalTypeAnnotation.EnumLogicalTypeAnnotation
                || meaning instanceof LogicalTypeAnnotation.JsonLogicalTypeAnnotation) {
            json.writeString(value.toStringUsingUTF8());
        } else {
            json.writeBinary(value.getBytes());
        }
    }

    private void number(double number) throws IOException {
        if (Double.isNaN(number) || Double.isInfinite(number)) {
            json.writeString(Double.toString(number));
        } else {
            json.writeNumber(number);
        }
    }

    private void number(float number) throws IOException {
        if (Float.isNaN(number) || Float.isInfinite(number)) {
            json.writeString(Float.toString(number));
        } else {
            json.writeNumber(number);
        }
    }

    private static long perSecond(LogicalTypeAnnotation.TimeUnit unit) {
        if (unit == LogicalTypeAnnotation.TimeUnit.MILLIS) {
            return 1000L;
        }
        return unit == LogicalTypeAnnotation.TimeUnit.MICROS ? 1000000L : NANOS_PER_SECOND;
    }

    private static Instant instant(long number, long perSecond) {
        long nanos = Math.floorMod(number, perSecond) * (NANOS_PER_SECOND / perSecond);
        return Instant.ofEpochSecond(Math.floorDiv(number, perSecond), nanos);
    }

    private static String local(long number, long perSecond) {
        return LocalDateTime.ofInstant(instant(number, perSecond), ZoneOffset.UTC).toString();
    }

    private static Instant int96(Binary value) {
        ByteBuffer raw = ByteBuffer.wrap(value.getBytes());
        raw.order(ByteOrder.LITTLE_ENDIAN);
        long nanos = raw.getLong();
        long days = raw.getInt() - JULIAN_EPOCH;
        return Instant.ofEpochSecond(days * 86400L, nanos);
    }
}
