package medallion.files;

import org.apache.spark.sql.connector.read.InputPartition;

import java.io.Serializable;
import java.util.ArrayList;

/** What one task reads: some records of some files. */
final class FilePart implements InputPartition {
    private static final long serialVersionUID = 1L;

    final ArrayList<Slice> slices = new ArrayList<Slice>();
    long rows;

    /** Some records of a file. */
    static final class Slice implements Serializable {
        private static final long serialVersionUID = 1L;

        final String path;
        final long size;
        final long modified;
        final long row;
        final long rows;
        final long offset;
        final long cutRow;
        final long cut;

        /** Why the file cannot be read; empty if it can. */
        final String fault;

        Slice(ListedFile file, long row, long rows) {
            this.path = file.path;
            this.size = file.size;
            this.modified = file.modified;
            this.row = row;
            this.rows = rows;
            this.offset = file.offset + row;
            this.fault = file.fault;
            int at = file.cutBefore(row);
            this.cutRow = at < 0 ? 0L : file.cuts[at];
            this.cut = at < 0 ? 0L : file.cuts[at + 1];
        }
    }

    void add(Slice slice) {
        slices.add(slice);
        rows += slice.rows;
    }
}
