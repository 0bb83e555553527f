package medallion.files.records;

import java.io.Closeable;
import java.io.IOException;

/** The records of one file, in order. */
public interface Records extends Closeable {
    /** Go on to the next record; false at the end of the file. */
    boolean next() throws IOException;

    /**
     * The bytes of the record. A record that cannot be read is a {@code Fault}, and {@code why}
     * says more; the next record can be asked for all the same.
     */
    byte[] value() throws IOException;

    /** What is wrong with the record whose value was a fault, in words; may be empty. */
    String why();

    /** The line that names the columns of the file; null if it has none. */
    byte[] firstLine();

    /** The byte from which the next record can be read; -1 where that is not possible. */
    long place() throws IOException;
}
