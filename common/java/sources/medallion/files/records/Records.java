package medallion.files.records;

import java.io.Closeable;
import java.io.IOException;

/** The records of one file, in order. */
public interface Records extends Closeable {
    /** Go on to the next record; false at the end of the file. */
    boolean next() throws IOException;

    /** The bytes of the record. */
    byte[] value() throws IOException;

    /** The byte from which the next record can be read; -1 where that is not possible. */
    long place() throws IOException;
}
