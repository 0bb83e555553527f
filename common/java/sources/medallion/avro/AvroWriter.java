package medallion.avro;

import medallion.readers.Declarations;
import medallion.readers.FieldPath;

import org.apache.avro.Schema;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.HashMap;

/** Writes rows as Avro values of a declared schema. Writers are kept per thread. */
public final class AvroWriter {
    private static final ThreadLocal<ThreadWriters> PER_THREAD = new ThreadLocal<ThreadWriters>();

    private final AvroOutput root;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final FieldPath path = new FieldPath();
    private BinaryEncoder encoder;

    private AvroWriter(String schema) {
        root = AvroOutput.of(new Schema.Parser().parse(schema));
    }

    /**
     * Writes a row as a datum.
     *
     * @param row the values of the schema's fields, in their order and of their types; null gives
     *     null
     * @param schema the schema's JSON text
     * @throws medallion.faults.UnwritableException the schema does not take a value
     */
    public static byte[] write(InternalRow row, UTF8String schema) {
        if (row == null) {
            return null;
        }
        Object kept = PER_THREAD.get();
        ThreadWriters current = (ThreadWriters) kept;
        if (current == null) {
            current = new ThreadWriters();
            PER_THREAD.set(current);
        }
        if (current.lastSchema != schema) {
            current.select(schema);
        }
        return current.lastWriter.datum(row);
    }

    private byte[] datum(InternalRow row) {
        bytes.reset();
        path.clear();
        encoder = EncoderFactory.get().binaryEncoder(bytes, encoder);
        try {
            root.fields(row, encoder, path);
            encoder.flush();
        } catch (IOException impossible) {
            throw new IllegalStateException("memory cannot be written: " + impossible.getMessage());
        }
        return bytes.toByteArray();
    }

    /** One thread's writers by schema; the one used last is found by the identity of its schema. */
    private static final class ThreadWriters {
        private final HashMap<UTF8String, AvroWriter> writers =
                new HashMap<UTF8String, AvroWriter>();
        UTF8String lastSchema;
        AvroWriter lastWriter;

        void select(UTF8String schema) {
            Object known = writers.get(schema);
            lastWriter = (AvroWriter) known;
            if (lastWriter == null) {
                lastWriter = new AvroWriter(schema.toString());
                Declarations.makeRoom(writers);
                writers.put(schema.copy(), lastWriter);
            }
            lastSchema = schema;
        }
    }
}
