package medallion.avro;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.Declarations;
import medallion.readers.FieldPath;
import medallion.readers.Member;
import medallion.readers.Rows;
import medallion.registry.SchemaRegistry;

import org.apache.avro.AvroRuntimeException;
import org.apache.avro.AvroTypeException;
import org.apache.avro.Schema;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.ResolvingDecoder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.IOException;
import java.util.HashMap;

/**
 * Reads Avro values: any bytes give exactly one row. The only exception is {@code
 * RegistryUnavailable}: while the schema registry does not answer, a row can neither be read nor
 * quarantined.
 *
 * <p>Avro's own decoder resolves the writer's schema to the declared one. Readers are kept per
 * thread.
 */
public final class AvroReader {
    private static final int FRAME = 5;
    private static final int MAX_WRITERS = 1000;
    private static final ThreadLocal<ThreadReaders> PER_THREAD = new ThreadLocal<ThreadReaders>();

    private final Schema schema;
    private final AvroValue root;
    private final SchemaRegistry registry;
    private final int maxBytes;

    private final AvroBytes bytes = new AvroBytes();
    private final FieldPath path = new FieldPath();

    /** By the id of the writer's schema: its decoder, or the name of the fault of its values. */
    private final HashMap<Integer, Object> decoders = new HashMap<Integer, Object>();

    private AvroReader(String text) {
        JsonNode spec;
        try {
            spec = new ObjectMapper().readTree(text);
        } catch (IOException error) {
            throw new IllegalArgumentException(
                    "the declaration is not JSON: " + error.getMessage());
        }
        schema = new Schema.Parser().parse(spec.get("schema").asText());
        root = AvroValue.of(schema);
        maxBytes = spec.get("max_bytes").asInt();
        boolean isFramed = "registry".equals(spec.get("framing").asText());
        String place = Member.of(spec, "registry").asText("");
        registry =
                isFramed
                        ? SchemaRegistry.at(
                                place, Member.of(spec, "auth").asText(""), new AvroSchemas())
                        : null;
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
        int from = 0;
        Integer id = null;
        if (registry != null) {
            if (value.length < FRAME || value[0] != 0) {
                return Rows.fault(Reasons.UNKNOWN_FRAMING, null);
            }
            id =
                    Integer.valueOf(
                            (value[1] & 0xFF) << 24
                                    | (value[2] & 0xFF) << 16
                                    | (value[3] & 0xFF) << 8
                                    | (value[4] & 0xFF));
            from = FRAME;
        } else if (value.length == 0) {
            return Rows.fault(Reasons.EMPTY_VALUE, null);
        }
        Object found = decoder(id);
        return found instanceof String
                ? Rows.fault((String) found, null)
                : decoded((ResolvingDecoder) found, value, from);
    }

    private InternalRow decoded(ResolvingDecoder decoder, byte[] value, int from) {
        bytes.set(value, from);
        path.clear();
        String reason;
        try {
            decoder.configure(bytes);
            InternalRow row = (InternalRow) root.read(decoder, bytes, path);
            decoder.drain();
            if (bytes.isAtEnd()) {
                return Rows.value(row, null);
            }
            path.clear();
            reason = Reasons.MALFORMED_AVRO;
        } catch (Fault fault) {
            reason = fault.reason;
        } catch (AvroTypeException error) {
            reason = Reasons.UNRESOLVABLE_SCHEMA;
        } catch (RuntimeException error) {
            reason = Reasons.MALFORMED_AVRO;
        } catch (IOException error) {
            reason = Reasons.MALFORMED_AVRO;
        } catch (StackOverflowError error) {
            reason = Reasons.TOO_DEEP;
        }
        return Rows.fault(reason, path.text());
    }

    /**
     * The decoder of values with this schema id, or the name of the fault that all such values
     * have.
     */
    private Object decoder(Integer id) {
        Object known = decoders.get(id);
        if (known != null) {
            return known;
        }
        Schema writer = schema;
        if (id != null) {
            Object found = registry.schema(id.intValue());
            // Neither is kept: the registry may have a usable schema later.
            if (found == SchemaRegistry.UNKNOWN) {
                return Reasons.UNKNOWN_SCHEMA_ID;
            }
            if (found == SchemaRegistry.UNUSABLE) {
                return Reasons.UNRESOLVABLE_SCHEMA;
            }
            writer = (Schema) found;
        }
        Object decoder = resolvingDecoder(writer);
        if (decoders.size() >= MAX_WRITERS) {
            decoders.clear();
        }
        decoders.put(id, decoder);
        return decoder;
    }

    private Object resolvingDecoder(Schema writer) {
        try {
            Schema named = Schema.applyAliases(writer, schema);
            if (AvroRules.isForbidden(named, schema)) {
                return Reasons.UNRESOLVABLE_SCHEMA;
            }
            return DecoderFactory.get().resolvingDecoder(named, schema, null);
        } catch (AvroRuntimeException error) {
            return Reasons.UNRESOLVABLE_SCHEMA;
        } catch (IOException error) {
            return Reasons.UNRESOLVABLE_SCHEMA;
        } catch (StackOverflowError error) {
            return Reasons.UNRESOLVABLE_SCHEMA;
        }
    }

    /**
     * One thread's readers by declaration. The reader used last is found by the identity of its
     * declaration, without a look-up.
     */
    private static final class ThreadReaders {
        private final HashMap<UTF8String, AvroReader> readers =
                new HashMap<UTF8String, AvroReader>();
        UTF8String lastSpec;
        AvroReader lastReader;

        void select(UTF8String spec) {
            Object known = readers.get(spec);
            lastReader = (AvroReader) known;
            if (lastReader == null) {
                lastReader = new AvroReader(spec.toString());
                Declarations.makeRoom(readers);
                readers.put(spec.copy(), lastReader);
            }
            lastSpec = spec;
        }
    }
}
