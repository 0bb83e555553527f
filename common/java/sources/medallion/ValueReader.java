package medallion;

import medallion.faults.Reasons;
import medallion.json.DebeziumReader;
import medallion.json.JsonReader;
import medallion.readers.Declarations;
import medallion.readers.Reader;
import medallion.readers.Rows;
import medallion.readers.Spec;
import medallion.text.CsvReader;
import medallion.text.TextReader;
import medallion.values.Utf8;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

import java.util.HashMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads a message's value: any bytes give exactly one row, and never an exception.
 *
 * <p>Spark calls {@code read} by a {@code StaticInvoke} expression, which takes Spark's internal
 * rows without conversion. Readers are kept per thread, because a reader holds the value that it
 * reads; declarations are parsed once per JVM.
 */
public final class ValueReader {
    private static final ConcurrentHashMap<UTF8String, Spec> SPECS =
            new ConcurrentHashMap<UTF8String, Spec>();
    private static final ThreadLocal<ValueReader> PER_THREAD = new ThreadLocal<ValueReader>();

    private static final int LARGE = 1048576;

    /**
     * The header of a record with the first line of its file ({@code medallion.files.FileRows}).
     */
    private static final UTF8String FIRST_LINE = UTF8String.fromString("header");

    private final HashMap<Spec, Reader> readers = new HashMap<Spec, Reader>();
    private UTF8String lastText;
    private Spec lastSpec;
    private Reader lastReader;

    private ValueReader() {}

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
        return of(spec).judged(value, null);
    }

    /**
     * Reads a line of CSV. If one of the record's headers has the first line of its file, the
     * fields are found by their names in it, else by their positions.
     *
     * @param headers the record's headers; empty for a record that is of no file
     */
    public static InternalRow readLine(byte[] value, ArrayData headers, UTF8String spec) {
        if (value == null) {
            return null;
        }
        return of(spec).judged(value, firstLine(headers));
    }

    private static byte[] firstLine(ArrayData headers) {
        for (int i = 0; headers != null && i < headers.numElements(); i++) {
            InternalRow header = headers.isNullAt(i) ? null : headers.getStruct(i, 2);
            if (header != null && FIRST_LINE.equals(header.getUTF8String(0))) {
                if (header.isNullAt(1)) {
                    return null;
                }
                return header.getBinary(1);
            }
        }
        return null;
    }

    /** The reader of this thread, with a declaration. */
    private static ValueReader of(UTF8String spec) {
        Object kept = PER_THREAD.get();
        ValueReader current = (ValueReader) kept;
        if (current == null) {
            current = new ValueReader();
            PER_THREAD.set(current);
        }
        if (current.lastText != spec) {
            current.select(spec);
        }
        return current;
    }

    /** The bytes as a string, without validation. */
    public static UTF8String text(byte[] value) {
        return UTF8String.fromBytes(value);
    }

    private void select(UTF8String text) {
        Object declared = SPECS.get(text);
        Spec spec = (Spec) declared;
        if (spec == null) {
            UTF8String kept = text.copy();
            spec = new Spec(text.toString());
            Declarations.makeRoom(SPECS);
            SPECS.put(kept, spec);
        }
        Object known = readers.get(spec);
        Reader reader = (Reader) known;
        if (reader == null) {
            reader = reader(spec);
            Declarations.makeRoom(readers);
            readers.put(spec, reader);
        }
        lastText = text;
        lastSpec = spec;
        lastReader = reader;
    }

    private static Reader reader(Spec spec) {
        if ("json".equals(spec.format)) {
            return new JsonReader(spec);
        }
        if ("debezium".equals(spec.format)) {
            return new DebeziumReader(spec);
        }
        if ("csv".equals(spec.format)) {
            return new CsvReader(spec);
        }
        if ("text".equals(spec.format)) {
            return new TextReader();
        }
        throw new IllegalArgumentException("format " + spec.format + " is not supported");
    }

    /** Drops this thread's readers, and with them the values that they still hold. */
    private void dropReaders() {
        lastText = null;
        readers.clear();
    }

    /**
     * @param firstLine the first line of a file of CSV; null: there is none
     */
    private InternalRow judged(byte[] value, byte[] firstLine) {
        if (value.length > lastSpec.maxBytes) {
            return Rows.fault(Reasons.TOO_LARGE, null);
        }
        if (!Utf8.isValid(value)) {
            return Rows.fault(Reasons.NOT_UTF8, null);
        }
        try {
            if (firstLine == null) {
                return lastReader.read(value);
            }
            return ((CsvReader) lastReader).read(value, firstLine);
        } catch (RuntimeException defect) {
            // A defect of a reader must not stop the stream: the row is quarantined and can be
            // replayed.
            dropReaders();
            return Rows.fault(Reasons.READER_FAILED, null);
        } finally {
            if (value.length > LARGE) {
                dropReaders();
            }
        }
    }
}
