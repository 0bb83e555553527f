package medallion.files.records;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.values.Utf8;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.UUID;

/**
 * Writes a record of a Parquet, ORC or Avro file as JSON text, in the form that the strict JSON
 * reader reads: times as ISO 8601, decimals as numbers with all digits, bytes in base64, null as
 * null.
 *
 * <p>A value without an exact form is a fault. Not a number and the infinities are text, which the
 * reader refuses for a number: such a record is quarantined with its reason.
 *
 * <p>A scalar is a Boolean, Long, BigInteger, BigDecimal, Float, Double, String or byte[].
 */
final class JsonText {
    private static final long NANOS_PER_SECOND = 1000000000L;
    private static final int MOST_LEVELS = 900;
    private static final int MOST_LETTERS = 200;
    private static final JsonFactory FACTORY = new JsonFactory();

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1024);
    private JsonGenerator json;
    private int levels;

    void open() throws IOException {
        bytes.reset();
        levels = 0;
        json = FACTORY.createGenerator(bytes);
        json.enable(JsonGenerator.Feature.WRITE_BIGDECIMAL_AS_PLAIN);
    }

    byte[] closed() throws IOException {
        json.close();
        return bytes.toByteArray();
    }

    /** The path of what is being written, as {@code a.b.0}; empty outside of every field. */
    String path() {
        String pointer = json.getOutputContext().pathAsPointer().toString();
        int end = Math.min(pointer.length(), MOST_LETTERS);
        return pointer.isEmpty() ? "" : pointer.substring(1, end).replace('/', '.');
    }

    void startObject() throws IOException {
        enter();
        json.writeStartObject();
    }

    void endObject() throws IOException {
        levels--;
        json.writeEndObject();
    }

    void startArray() throws IOException {
        enter();
        json.writeStartArray();
    }

    void endArray() throws IOException {
        levels--;
        json.writeEndArray();
    }

    private void enter() {
        if (++levels > MOST_LEVELS) {
            throw new Fault(Reasons.TOO_DEEP);
        }
    }

    void name(String name) throws IOException {
        json.writeFieldName(name);
    }

    void nothing() throws IOException {
        json.writeNull();
    }

    void scalar(Object value) throws IOException {
        if (value instanceof String) {
            json.writeString((String) value);
        } else if (value instanceof Long) {
            json.writeNumber(((Long) value).longValue());
        } else if (value instanceof BigInteger) {
            json.writeNumber((BigInteger) value);
        } else if (value instanceof BigDecimal) {
            json.writeNumber((BigDecimal) value);
        } else if (value instanceof Boolean) {
            json.writeBoolean(((Boolean) value).booleanValue());
        } else if (value instanceof Double) {
            number(((Double) value).doubleValue());
        } else if (value instanceof Float) {
            number(((Float) value).floatValue());
        } else {
            json.writeBinary((byte[]) value);
        }
    }

    /** The name that a map's key becomes: the text of its value. */
    static String key(Object value) {
        if (value instanceof BigDecimal) {
            return ((BigDecimal) value).toPlainString();
        }
        if (value == null
                || value instanceof Double
                || value instanceof Float
                || value instanceof byte[]) {
            throw new Fault(Reasons.NO_JSON_FORM);
        }
        return value.toString();
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

    static String text(byte[] raw) {
        if (!Utf8.isValid(raw)) {
            throw new Fault(Reasons.NOT_UTF8);
        }
        return new String(raw, StandardCharsets.UTF_8);
    }

    static BigDecimal decimal(byte[] raw, int scale) {
        if (raw.length == 0) {
            throw new Fault(Reasons.UNREADABLE_RECORD);
        }
        return new BigDecimal(new BigInteger(raw), scale);
    }

    static String uuid(byte[] raw) {
        java.nio.ByteBuffer parts = java.nio.ByteBuffer.wrap(raw);
        return new UUID(parts.getLong(), parts.getLong()).toString();
    }

    static String day(long number) {
        try {
            return LocalDate.ofEpochDay(number).toString();
        } catch (DateTimeException error) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
    }

    /** A time of day; 24:00 is none. */
    static String time(long number, long perSecond) {
        if (number < 0L || number >= 86400L * perSecond) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
        return LocalTime.ofNanoOfDay(number * (NANOS_PER_SECOND / perSecond)).toString();
    }

    static String instant(long number, long perSecond) {
        return at(number, perSecond).toString();
    }

    static String local(long number, long perSecond) {
        return LocalDateTime.ofInstant(at(number, perSecond), ZoneOffset.UTC).toString();
    }

    private static Instant at(long number, long perSecond) {
        long nanos = Math.floorMod(number, perSecond) * (NANOS_PER_SECOND / perSecond);
        try {
            return Instant.ofEpochSecond(Math.floorDiv(number, perSecond), nanos);
        } catch (DateTimeException error) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
    }

    /** The reason of a failure to write a record. */
    static Fault faultOf(Throwable error) {
        if (error instanceof Fault) {
            return (Fault) error;
        }
        boolean isDeep =
                error instanceof StreamConstraintsException || error instanceof StackOverflowError;
        return new Fault(isDeep ? Reasons.TOO_DEEP : Reasons.UNREADABLE_RECORD);
    }
}
