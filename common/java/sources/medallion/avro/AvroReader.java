package medallion.avro;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.Member;
import medallion.readers.Rows;

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
 * Reads Avro values: any bytes come out as exactly one row. The one exception it throws is of the
 * schema registry, when that does not answer: then nothing can be said about a row.
 *
 * <p>The writer's schema is resolved to the declared one by Avro's own decoder. Readers are kept
 * per thread.
 */
public final class AvroReader {
    private static final int FRAME = 5;
    private static final int MOST_WRITERS = 1000;
    private static final ThreadLocal<Own> OWN = new ThreadLocal<Own>();

    private final Schema schema;
    private final AvroValue root;
    private final SchemaRegistry registry;
    private final int maxBytes;

    private final AvroBytes bytes = new AvroBytes();
    private final AvroPath path = new AvroPath();

    /** Decoders by the writer's id, each with the schema it was made for. */
    private final HashMap<Integer, Object> decoders = new HashMap<Integer, Object>();

    private AvroReader(String text) {
        JsonNode spec;
        try {
            spec = new ObjectMapper().readTree(text);
        } catch (IOException error) {
            throw new IllegalArgumentException("no JSON: " + error.getMessage());
        }
        schema = new Schema.Parser().parse(spec.get("schema").asText());
        root = AvroValue.of(schema);
        maxBytes = spec.get("max_bytes").asInt();
        boolean isFramed = "registry".equals(spec.get("framing").asText());
        String place = Member.of(spec, "registry").asText("");
        registry = isFramed ? SchemaRegistry.at(place, Member.of(spec, "auth").asText("")) : null;
    }

    /**
     * The value as struct of fault, fault_field, rescued, value.
     *
     * @param value the message's bytes; null gives null
     * @param spec what is declared, as JSON text
     */
    public static InternalRow read(byte[] value, UTF8String spec) {
        if (value == null) {
            return null;
        }
        Object kept = OWN.get();
        Own own = (Own) kept;
        if (own == null) {
            own = new Own();
            OWN.set(own);
        }
        if (own.lastSpec != spec) {
            own.turnTo(spec);
        }
        return own.lastReader.row(value);
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

    /** How a writer's values are decoded, or the name of the fault that keeps them from it. */
    private Object decoder(Integer id) {
        Object known = decoders.get(id);
        if (known != null) {
            return known;
        }
        Schema writer = schema;
        if (id != null) {
            writer = registry.schema(id.intValue());
            if (writer == SchemaRegistry.UNKNOWN) {
                return Reasons.UNKNOWN_SCHEMA_ID;
            }
        }
        Object made =
                writer == SchemaRegistry.UNUSABLE ? Reasons.UNRESOLVABLE_SCHEMA : resolving(writer);
        if (decoders.size() >= MOST_WRITERS) {
            decoders.clear();
        }
        decoders.put(id, made);
        return made;
    }

    private Object resolving(Schema writer) {
        try {
            Schema named = Schema.applyAliases(writer, schema);
            if (AvroRules.forbid(named, schema)) {
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
     * A thread's readers by what is declared, and the last one by the very object that declared it.
     */
    private static final class Own {
        private final HashMap<UTF8String, AvroReader> readers =
                new HashMap<UTF8String, AvroReader>();
        UTF8String lastSpec;
        AvroReader lastReader;

        void turnTo(UTF8String spec) {
            Object known = readers.get(spec);
            lastReader = (AvroReader) known;
            if (lastReader == null) {
                lastReader = new AvroReader(spec.toString());
                readers.put(spec.copy(), lastReader);
            }
            lastSpec = spec;
        }
    }
}
