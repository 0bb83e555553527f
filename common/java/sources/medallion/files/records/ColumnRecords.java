package medallion.files.records;

import java.io.IOException;

/** Records of a file that says at its end how many it has. */
abstract class ColumnRecords extends JsonRecords {
    /** The number of records of the file. */
    abstract long count();

    /** Go behind so many records; whole parts of the file are not read. */
    abstract void skip(long rows) throws IOException;

    /** What an error comes from. */
    protected static Throwable rootOf(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }
}
