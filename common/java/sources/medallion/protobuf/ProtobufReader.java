package medallion.protobuf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.Declarations;
import medallion.readers.Member;
import medallion.readers.Rows;
import medallion.registry.SchemaRegistry;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.IOException;
import java.util.HashMap;

/**
 * Reads Protobuf values: any bytes give exactly one row. The only exception is {@code
 * RegistryUnavailable}: while the schema registry does not answer, a row can neither be read nor
 * quarantined.
 *
 * <p>A value is read by the declared message. Where a registry knows the writer's, both are
 * compared first. Readers are kept per thread.
 */
public final class ProtobufReader {
    private static final int FRAME = 5;
    private static final int MAX_WRITERS = 1000;
    private static final int MOST_LEVELS = 100;
    private static final ThreadLocal<ThreadReaders> PER_THREAD = new ThreadLocal<ThreadReaders>();

    private final Message declared;
    private final SchemaRegistry registry;
    private final int maxBytes;
    private final boolean keepsUnknown;

    private final WireBytes bytes = new WireBytes();

    /**
     * By the frame of a value, without its zero byte: the message to read the value by, or the name
     * of the fault of all such values.
     */
    private final HashMap<String, Object> known = new HashMap<String, Object>();

    private ProtobufReader(String text) {
        JsonNode spec;
        try {
            spec = new ObjectMapper().readTree(text);
        } catch (IOException error) {
            throw new IllegalArgumentException(
                    "the declaration is not JSON: " + error.getMessage());
        }
        declared = Message.of(spec.get("message"));
        maxBytes = spec.get("max_bytes").asInt();
        keepsUnknown = Member.of(spec, "rescue").asBoolean();
        boolean isFramed = "registry".equals(spec.get("framing").asText());
        String place = Member.of(spec, "registry").asText("");
        String login = Member.of(spec, "auth").asText("");
        registry = isFramed ? SchemaRegistry.at(place, login, new WriterFormat()) : null;
    }

    /**
     * Reads a value as a struct of fault, fault_field, rescued, value.
     *
     * @param value the message's bytes; null gives null
     * @param spec the declaration, as JSON text
     */
    public static InternalRow read(byte[] value, UTF8String spec) {
        if (value == null) {
            return null;
        }
        Object kept = PER_THREAD.get();
        ThreadReaders current = (ThreadReaders) kept;
        if (current == null) {
            current = new ThreadReaders();
            PER_THREAD.set(current);
        }
        if (current.lastSpec != spec) {
            current.select(spec);
        }
        return current.lastReader.row(value);
    }

    private InternalRow row(byte[] value) {
        if (value.length > maxBytes) {
            return Rows.fault(Reasons.TOO_LARGE, null);
        }
        bytes.set(value, 0);
        Object by = declared;
        if (registry != null) {
            if (value.length <= FRAME || value[0] != 0) {
                return Rows.fault(Reasons.UNKNOWN_FRAMING, null);
            }
            bytes.at = FRAME;
            try {
                by = messageOfFrame(value);
            } catch (Fault fault) {
                return Rows.fault(Reasons.UNKNOWN_FRAMING, null);
            }
        }
        return by instanceof String ? Rows.fault((String) by, null) : decoded((Message) by);
    }

    private InternalRow decoded(Message message) {
        Reading reading = new Reading(keepsUnknown);
        String reason;
        try {
            Object[] slots = message.slots();
            message.read(bytes, bytes.bytes.length, slots, reading);
            InternalRow row = (InternalRow) message.finished(slots, reading.path);
            return Rows.value(row, keepsUnknown ? UnknownFields.text(message, slots) : null);
        } catch (Fault fault) {
            reason = fault.reason;
        } catch (RuntimeException defect) {
            reason = Reasons.READER_FAILED;
        }
        return Rows.fault(reason, reading.path.text());
    }

    /**
     * Reads the rest of a frame: how many message indexes, and each of them; a single zero stands
     * for the first message of the schema.
     */
    private Object messageOfFrame(byte[] value) {
        long count = zigzag(value.length);
        if (count < 0L || count > MOST_LEVELS) {
            throw WireBytes.malformed();
        }
        int[] indexes = new int[count == 0L ? 1 : (int) count];
        StringBuilder frame = new StringBuilder();
        int id =
                (value[1] & 0xFF) << 24
                        | (value[2] & 0xFF) << 16
                        | (value[3] & 0xFF) << 8
                        | (value[4] & 0xFF);
        frame.append(id);
        for (int i = 0; i < indexes.length; i++) {
            long index = count == 0L ? 0L : zigzag(value.length);
            if (index < 0L || index > Integer.MAX_VALUE) {
                throw WireBytes.malformed();
            }
            indexes[i] = (int) index;
            frame.append(' ').append(indexes[i]);
        }
        String key = frame.toString();
        Object found = known.get(key);
        return found != null ? found : resolved(key, id, indexes);
    }

    private Object resolved(String key, int id, int[] indexes) {
        Object found = registry.schema(id);
        // Neither is kept: the registry may have a usable schema later.
        if (found == SchemaRegistry.UNKNOWN) {
            return Reasons.UNKNOWN_SCHEMA_ID;
        }
        if (found == SchemaRegistry.UNUSABLE) {
            return Reasons.UNRESOLVABLE_SCHEMA;
        }
        WriterSchema schema = (WriterSchema) found;
        WriterMessage writer = schema.at(indexes, declared.name);
        Message message = writer == null ? null : Resolution.of(declared, writer);
        Object result = message == null ? (Object) Reasons.UNRESOLVABLE_SCHEMA : message;
        if (known.size() >= MAX_WRITERS) {
            known.clear();
        }
        known.put(key, result);
        return result;
    }

    private long zigzag(int end) {
        long found = bytes.varint(end);
        return (found >>> 1) ^ -(found & 1L);
    }

    /**
     * One thread's readers by declaration. The reader used last is found by the identity of its
     * declaration, without a look-up.
     */
    private static final class ThreadReaders {
        private final HashMap<UTF8String, ProtobufReader> readers =
                new HashMap<UTF8String, ProtobufReader>();
        UTF8String lastSpec;
        ProtobufReader lastReader;

        void select(UTF8String spec) {
            Object kept = readers.get(spec);
            lastReader = (ProtobufReader) kept;
            if (lastReader == null) {
                lastReader = new ProtobufReader(spec.toString());
                Declarations.makeRoom(readers);
                readers.put(spec.copy(), lastReader);
            }
            lastSpec = spec;
        }
    }
}
