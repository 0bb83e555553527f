package medallion;

import medallion.faults.Reasons;
import medallion.json.DebeziumReader;
import medallion.json.JsonReader;
import medallion.readers.Reader;
import medallion.readers.Rows;
import medallion.readers.Spec;
import medallion.text.CsvReader;
import medallion.text.TextReader;
import medallion.values.Utf8;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

import java.util.HashMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads a message's value: any bytes come out as exactly one row, and never as an exception.
 *
 * <p>Spark calls {@code read} by an expression of its own, without conversion of rows. Readers are
 * kept per thread, for they hold what they are reading; declarations are read once per JVM.
 */
public final class ValueReader {
    private static final ConcurrentHashMap<UTF8String, Spec> SPECS =
            new ConcurrentHashMap<UTF8String, Spec>();
    private static final ThreadLocal<ValueReader> OWN = new ThreadLocal<ValueReader>();

    private static final int LARGE = 1048576;

    private final HashMap<Spec, Reader> readers = new HashMap<Spec, Reader>();
    private UTF8String lastText;
    private Spec lastSpec;
    private Reader lastReader;

    private ValueReader() {}

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
        ValueReader own = (ValueReader) kept;
        if (own == null) {
            own = new ValueReader();
            OWN.set(own);
        }
        if (own.lastText != spec) {
            own.turnTo(spec);
        }
        return own.read(value);
    }

    /** The bytes as a text, whatever they are. */
    public static UTF8String text(byte[] value) {
        return UTF8String.fromBytes(value);
    }

    private void turnTo(UTF8String text) {
        Object declared = SPECS.get(text);
        Spec spec = (Spec) declared;
        if (spec == null) {
            UTF8String kept = text.copy();
            spec = new Spec(text.toString());
            SPECS.put(kept, spec);
        }
        Object known = readers.get(spec);
        Reader reader = (Reader) known;
        if (reader == null) {
            reader = reader(spec);
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
        throw new IllegalArgumentException("format " + spec.format + " is not read");
    }

    /** Lets go of the readers, and of the values that they still hold. */
    private void forget() {
        lastText = null;
        readers.clear();
    }

    private InternalRow read(byte[] value) {
        if (value.length > lastSpec.maxBytes) {
            return Rows.fault(Reasons.TOO_LARGE, null);
        }
        if (!Utf8.isValid(value)) {
            return Rows.fault(Reasons.NOT_UTF8, null);
        }
        try {
            return lastReader.read(value);
        } catch (RuntimeException defect) {
            // A defect of the reader's must not stop a stream: the row is set aside, and can be
            // replayed.
            forget();
            return Rows.fault(Reasons.READER_FAILED, null);
        } finally {
            if (value.length > LARGE) {
                forget();
            }
        }
    }
}
