package medallion;

import java.util.HashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads a message's value: any bytes come out as exactly one row, and never as an exception.
 *
 * Spark calls {@code read} by an expression of its own, without conversion of rows. Readers are kept per
 * thread, for they hold what they are reading; declarations are read once per JVM.
 */
public final class ValueReader {
    private static final ConcurrentHashMap SPECS = new ConcurrentHashMap();
    private static final ThreadLocal OWN = new ThreadLocal();

    private static final int LARGE = 1048576;

    private final HashMap readers = new HashMap();
    private UTF8String lastText;
    private Spec lastSpec;
    private Reader lastReader;

    private ValueReader() {
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
        ValueReader own = (ValueReader) OWN.get();
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
        Spec spec = (Spec) SPECS.get(text);
        if (spec == null) {
            UTF8String kept = text.copy();
            spec = new Spec(text.toString());
            SPECS.put(kept, spec);
        }
        Reader reader = (Reader) readers.get(spec);
        if (reader == null) {
            reader = spec.reader();
            readers.put(spec, reader);
        }
        lastText = text;
        lastSpec = spec;
        lastReader = reader;
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
            // A defect of the reader's must not stop a stream: the row is set aside, and can be replayed.
            forget();
            return Rows.fault(Reasons.READER_FAILED, null);
        } finally {
            if (value.length > LARGE) {
                forget();
            }
        }
    }
}
