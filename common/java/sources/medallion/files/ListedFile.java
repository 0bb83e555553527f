package medallion.files;

/** A file in the list: which offsets its records have, and from where they can be read. */
final class ListedFile {
    /** Path below the source's folder. */
    final String path;

    final long size;

    /** Milliseconds since the epoch. */
    final long modified;

    /** Offset of the first record. */
    final long offset;

    final long rows;

    /** Pairs: the number of a record, and the byte from which it can be read. */
    final long[] cuts;

    /** Why the file cannot be read; empty if it can. */
    final String fault;

    /** Records that are read: all, or those before the place from which the file is skipped. */
    final long readable;

    ListedFile(
            String path,
            long size,
            long modified,
            long offset,
            long rows,
            long[] cuts,
            String fault) {
        this(path, size, modified, offset, rows, cuts, fault, rows);
    }

    private ListedFile(
            String path,
            long size,
            long modified,
            long offset,
            long rows,
            long[] cuts,
            String fault,
            long readable) {
        this.path = path;
        this.size = size;
        this.modified = modified;
        this.offset = offset;
        this.rows = rows;
        this.cuts = cuts;
        this.fault = fault;
        this.readable = readable;
    }

    /** The file, of which no record from an offset on is read. */
    ListedFile skippedFrom(long from) {
        long kept = Math.max(0L, Math.min(readable, from - offset));
        return new ListedFile(path, size, modified, offset, rows, cuts, fault, kept);
    }

    long end() {
        return offset + rows;
    }

    /** The index of the last cut that is not after a record; -2 if there is none. */
    int cutBefore(long row) {
        int found = -2;
        for (int at = 0; at < cuts.length && cuts[at] <= row; at += 2) {
            found = at;
        }
        return found;
    }
}
