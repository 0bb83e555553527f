package medallion.bench;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;

import medallion.ValueReader;
import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.Rows;
import medallion.readers.Spec;
import medallion.values.Numbers;
import medallion.values.Scalars;
import medallion.values.Type;
import medallion.values.Utf8;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashMap;

/**
 * JSON objects of structs and plain values as strictly as the engine reads them, by Jackson's
 * streaming parser.
 *
 * <p>It has no arrays, no maps, no unknown fields and no path of a fault: what it takes is the
 * least that Jackson takes.
 */
public final class JacksonReader {
    private static final ThreadLocal<JacksonReader> OWN = new ThreadLocal<JacksonReader>();

    private final Spec spec;
    private final JsonFactory factory = new JsonFactory();
    private final Numbers numbers = new Numbers();
    private final Scalars scalars;
    private final HashMap<Type, Object> places = new HashMap<Type, Object>();
    private byte[] digits = new byte[64];
    private String fault;

    private JacksonReader(Spec spec) {
        this.spec = spec;
        scalars = new Scalars(spec.isUtc);
        factory.enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION);
        factory.setStreamReadConstraints(
                StreamReadConstraints.builder()
                        .maxNestingDepth(spec.maxDepth)
                        .maxNumberLength(spec.maxBytes)
                        .maxStringLength(spec.maxBytes)
                        .maxNameLength(spec.maxBytes)
                        .build());
    }

    /** The value as struct of fault, fault_field, rescued, value. */
    public static InternalRow read(byte[] value, UTF8String spec) throws IOException {
        Object kept = OWN.get();
        JacksonReader own = (JacksonReader) kept;
        if (own == null) {
            own = new JacksonReader(new Spec(spec.toString()));
            OWN.set(own);
        }
        return own.row(value);
    }

    /**
     * CPU nanoseconds per document on this thread, medians of rounds in which the two take turns.
     *
     * @param documents a file of one document per line, all of them valid
     * @return of the engine's reader, and of this one
     */
    public static long[] compare(String documents, String spec, int rounds) throws IOException {
        UTF8String declared = UTF8String.fromString(spec);
        String[] lines = Files.readString(Paths.get(documents, new String[0])).split("\n");
        byte[][] values = new byte[lines.length][];
        for (int i = 0; i < lines.length; i++) {
            values[i] = lines[i].getBytes(StandardCharsets.UTF_8);
        }
        long[][] costs = new long[2][rounds];
        for (int round = -5; round < rounds; round++) { // the first let the JVM compile
            for (int way = 0; way < 2; way++) {
                long start = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
                for (int i = 0; i < values.length; i++) {
                    InternalRow row =
                            way == 0
                                    ? ValueReader.read(values[i], declared)
                                    : read(values[i], declared);
                    if (!row.isNullAt(0)) {
                        throw new IllegalStateException(row.toString());
                    }
                }
                long end = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
                if (round >= 0) {
                    costs[way][round] = (end - start) / values.length;
                }
            }
        }
        Arrays.sort(costs[0]);
        Arrays.sort(costs[1]);
        return new long[] {costs[0][rounds / 2], costs[1][rounds / 2]};
    }

    private InternalRow row(byte[] value) throws IOException {
        // Jackson takes surrogates that are encoded as UTF-8.
        if (!Utf8.isValid(value)) {
            return Rows.fault(Reasons.NOT_UTF8, null);
        }
        fault = null;
        JsonParser parser = factory.createParser(value);
        try {
            JsonToken first = parser.nextToken();
            if (first == null) {
                return Rows.fault(Reasons.EMPTY_VALUE, null);
            }
            if (first != JsonToken.START_OBJECT) {
                return Rows.fault(Reasons.NOT_AN_OBJECT, null);
            }
            InternalRow row = struct(spec.root, parser);
            if (parser.nextToken() != null) {
                return Rows.fault(Reasons.TRAILING_DATA, null);
            }
            if (fault != null) {
                return Rows.fault(fault, null);
            }
            String absent = spec.absent(row);
            return absent == null
                    ? Rows.value(row, null)
                    : Rows.fault(Reasons.MISSING_REQUIRED, absent);
        } catch (Fault found) {
            return Rows.fault(found.reason, null);
        } catch (JsonProcessingException malformed) {
            return Rows.fault(Reasons.MALFORMED_JSON, null);
        } finally {
            parser.close();
        }
    }

    private InternalRow struct(Type type, JsonParser parser) throws IOException {
        HashMap<String, Object> known = places(type);
        Object[] values = new Object[type.fields.length];
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            Object place = known.get(parser.currentName());
            JsonToken token = parser.nextToken();
            if (place == null) {
                parser.skipChildren();
            } else {
                int at = ((Integer) place).intValue();
                values[at] = value(type.fields[at], token, parser);
            }
        }
        return new GenericInternalRow(values);
    }

    private Object value(Type type, JsonToken token, JsonParser parser) throws IOException {
        if (token == JsonToken.VALUE_NULL) {
            return null;
        }
        if (type.kind == Type.STRUCT && token == JsonToken.START_OBJECT) {
            return struct(type, parser);
        }
        if (type.kind == Type.BOOLEAN && token == JsonToken.VALUE_TRUE) {
            return Boolean.TRUE;
        }
        if (type.kind == Type.BOOLEAN && token == JsonToken.VALUE_FALSE) {
            return Boolean.FALSE;
        }
        if (token == JsonToken.VALUE_STRING) {
            byte[] text = whole(parser).getBytes(StandardCharsets.UTF_8);
            return kept(scalars.as(type, text, 0, text.length), scalars.fault);
        }
        if (token == JsonToken.VALUE_NUMBER_INT || token == JsonToken.VALUE_NUMBER_FLOAT) {
            int size = number(parser);
            if (type.kind == Type.STRING) {
                return UTF8String.fromBytes(Arrays.copyOf(digits, size));
            }
            numbers.scan(digits, 0, size);
            return kept(numbers.as(type), numbers.fault);
        }
        parser.skipChildren();
        return kept(null, Reasons.WRONG_TYPE);
    }

    private Object kept(Object found, String reason) {
        if (found == null && fault == null) {
            fault = reason;
        }
        return found;
    }

    /** A text; half a surrogate pair, which Jackson takes, is a fault. */
    private static String whole(JsonParser parser) throws IOException {
        String text = parser.getText();
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i))) {
                boolean isPair =
                        i + 1 < text.length()
                                && Character.isSurrogatePair(text.charAt(i), text.charAt(i + 1));
                if (!isPair) {
                    throw new Fault(Reasons.BAD_UNICODE);
                }
                i++;
            }
        }
        return text;
    }

    /** Puts the number that was sent into {@code digits}; its length. */
    private int number(JsonParser parser) throws IOException {
        char[] sent = parser.getTextCharacters();
        int from = parser.getTextOffset();
        int size = parser.getTextLength();
        if (size > digits.length) {
            digits = new byte[size * 2];
        }
        for (int i = 0; i < size; i++) {
            digits[i] = (byte) sent[from + i];
        }
        return size;
    }

    private HashMap<String, Object> places(Type type) {
        Object known = places.get(type);
        if (known == null) {
            HashMap<String, Object> found = new HashMap<String, Object>();
            for (int i = 0; i < type.labels.length; i++) {
                found.put(type.labels[i], Integer.valueOf(i));
            }
            places.put(type, found);
            return found;
        }
        @SuppressWarnings("unchecked")
        HashMap<String, Object> kept = (HashMap<String, Object>) known;
        return kept;
    }
}
