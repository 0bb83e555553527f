package medallion.files.records;

import medallion.avro.AvroBytes;
import medallion.faults.Fault;
import medallion.faults.Reasons;

import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.List;

/** Records of Avro files as JSON text, decoded as strictly as Avro values of a topic. */
final class AvroJson {
    private final JsonText json = new JsonText();
    private final AvroBytes in;

    AvroJson(AvroBytes in) {
        this.in = in;
    }

    /** Throws a fault for a record without an exact form; {@code place} then names the field. */
    byte[] of(Schema schema) throws IOException {
        json.open();
        value(schema);
        return json.closed();
    }

    String place() {
        return json.path();
    }

    private void value(Schema schema) throws IOException {
        switch (schema.getType()) {
            case UNION:
                value((Schema) ofPlace(schema.getTypes(), in.readIndex()));
                return;
            case RECORD:
                record(schema);
                return;
            case ARRAY:
                json.startArray();
                for (long block = in.readArrayStart(); block != 0L; block = in.arrayNext()) {
                    for (long i = 0L; i < block; i++) {
                        value(schema.getElementType());
                    }
                }
                json.endArray();
                return;
            case MAP:
                map(schema.getValueType());
                return;
            case NULL:
                json.nothing();
                return;
            default:
                json.scalar(scalar(schema));
        }
    }

    private void record(Schema schema) throws IOException {
        json.startObject();
        List<Schema.Field> fields = schema.getFields();
        for (Object each : fields) {
            Schema.Field field = (Schema.Field) each;
            json.name(field.name());
            value(field.schema());
        }
        json.endObject();
    }

    private void map(Schema values) throws IOException {
        HashSet<String> seen = new HashSet<String>();
        json.startObject();
        for (long block = in.readMapStart(); block != 0L; block = in.mapNext()) {
            for (long i = 0L; i < block; i++) {
                String key = JsonText.text(bytes());
                if (!seen.add(key)) {
                    throw new Fault(Reasons.DUPLICATE_KEY);
                }
                json.name(key);
                value(values);
            }
        }
        json.endObject();
    }

    private Object scalar(Schema schema) throws IOException {
        LogicalType meaning = schema.getLogicalType();
        String name = meaning == null ? "" : meaning.getName();
        switch (schema.getType()) {
            case STRING:
                return JsonText.text(bytes());
            case BOOLEAN:
                return Boolean.valueOf(in.readBoolean());
            case DOUBLE:
                return Double.valueOf(in.readDouble());
            case FLOAT:
                return Float.valueOf(in.readFloat());
            case INT:
                return ofInt((long) in.readInt(), name);
            case LONG:
                return ofLong(in.readLong(), name);
            case ENUM:
                return ofPlace(schema.getEnumSymbols(), in.readEnum());
            case BYTES:
                return ofBytes(bytes(), meaning);
            default:
                byte[] raw = new byte[schema.getFixedSize()];
                in.readFixed(raw, 0, raw.length);
                return ofBytes(raw, meaning);
        }
    }

    private byte[] bytes() {
        ByteBuffer found = in.readBytes(null);
        return found.array();
    }

    private static Object ofPlace(List<?> list, int place) {
        if (place >= list.size()) {
            throw new Fault(Reasons.MALFORMED_AVRO);
        }
        return list.get(place);
    }

    private static Object ofBytes(byte[] raw, LogicalType meaning) {
        if (meaning == null) {
            return raw;
        }
        if (meaning instanceof LogicalTypes.Decimal) {
            return JsonText.decimal(raw, ((LogicalTypes.Decimal) meaning).getScale());
        }
        if (meaning.getName().equals("uuid") && raw.length == 16) {
            return JsonText.uuid(raw);
        }
        throw new Fault(Reasons.NO_JSON_FORM);
    }

    private static Object ofInt(long number, String name) {
        if (name.equals("date")) {
            return JsonText.day(number);
        }
        return name.equals("time-millis")
                ? (Object) JsonText.time(number, 1000L)
                : Long.valueOf(number);
    }

    private static Object ofLong(long number, String name) {
        if (name.equals("time-micros")) {
            return JsonText.time(number, 1000000L);
        }
        boolean isLocal = name.startsWith("local-timestamp-");
        if (!isLocal && !name.startsWith("timestamp-")) {
            return Long.valueOf(number);
        }
        long perSecond =
                name.endsWith("-millis")
                        ? 1000L
                        : name.endsWith("-micros") ? 1000000L : 1000000000L;
        return isLocal ? JsonText.local(number, perSecond) : JsonText.instant(number, perSecond);
    }
}
