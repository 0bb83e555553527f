package medallion.files.records;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/**
 * Records that are lines. Empty lines are records of plain text alone. In CSV a line break between
 * quotes belongs to the record; a quote opens a field only at its begin, after a comma, semicolon,
 * tab or bar.
 */
final class Lines implements Records {
    private static final int BUFFER = 1 << 17;
    private static final int MOST_BYTES = 1 << 28;

    /** Each record of a file carries its line of names. */
    private static final int MOST_BYTES_OF_NAMES = 1 << 16;

    private final InputStream in;
    private final boolean quotes;
    private final boolean keepsEmpty;
    private final boolean canSeek;
    private final byte[] buffer = new byte[BUFFER];
    private int at;
    private int filled;
    private long begin;
    private byte[] line = new byte[1024];
    private int length;
    private byte[] firstLine;

    /**
     * @param in the file, from its beginning or from the begin of a record
     * @param begin the byte at which {@code in} begins
     * @param format {@code jsonl}, {@code csv} or {@code text}
     * @param canSeek whether a byte of {@code in} is a byte of the file
     */
    Lines(InputStream in, long begin, String format, boolean canSeek) throws IOException {
        this.in = in;
        this.begin = begin;
        this.quotes = format.equals("csv");
        this.keepsEmpty = format.equals("text");
        this.canSeek = canSeek;
        if (begin == 0L) {
            skipByteOrderMark();
            refuseUtf16();
        }
    }

    /** A file of UTF-16 would be lines with a NUL in each character. */
    private void refuseUtf16() throws IOException {
        int first = filled < 2 ? -1 : buffer[0] & 0xFF;
        int second = filled < 2 ? -1 : buffer[1] & 0xFF;
        boolean isMarked = first == 0xFF && second == 0xFE || first == 0xFE && second == 0xFF;
        if (isMarked || first == 0 || second == 0) {
            throw new ContentException("it is UTF-16, or no text: write it as UTF-8");
        }
    }

    private void skipByteOrderMark() throws IOException {
        while (filled < 3) {
            int read = in.read(buffer, filled, BUFFER - filled);
            if (read < 0) {
                break;
            }
            filled += read;
        }
        boolean isMark =
                filled >= 3
                        && buffer[0] == (byte) 0xEF
                        && buffer[1] == (byte) 0xBB
                        && buffer[2] == (byte) 0xBF;
        at = isMark ? 3 : 0;
    }

    @Override
    public boolean next() throws IOException {
        while (readLine()) {
            if (length > 0 || keepsEmpty) {
                return true;
            }
        }
        return false;
    }

    /** Read a line without its end; false at the end of the file. */
    private boolean readLine() throws IOException {
        length = 0;
        boolean inQuotes = false;
        boolean mayOpen = true;
        boolean wasClosed;
        boolean wasQuote = false;
        boolean any = false;
        while (true) {
            if (at == filled && !fill()) {
                return any;
            }
            any = true;
            int from = at;
            boolean isEnd = false;
            while (at < filled && !isEnd) {
                byte one = buffer[at++];
                if (one == '"' && quotes) {
                    // A pair of quotes in a quoted field closes it and opens it again.
                    wasClosed = inQuotes;
                    inQuotes = !inQuotes && (mayOpen || wasQuote);
                    wasQuote = wasClosed;
                } else {
                    wasQuote = false;
                }
                mayOpen = one == ',' || one == ';' || one == '\t' || one == '|';
                isEnd = one == '\n' && !inQuotes;
            }
            append(from, isEnd ? at - 1 : at);
            if (isEnd) {
                if (length > 0 && line[length - 1] == '\r') {
                    length--;
                }
                return true;
            }
        }
    }

    private boolean fill() throws IOException {
        begin += filled;
        at = 0;
        filled = 0;
        int read = in.read(buffer, 0, BUFFER);
        if (read < 0) {
            return false;
        }
        filled = read;
        return read > 0 || fill();
    }

    private void append(int from, int until) {
        int more = until - from;
        if (length > MOST_BYTES - more) {
            throw new IllegalStateException(
                    "a record is longer than " + MOST_BYTES / 1048576 + " MiB");
        }
        if (length + more > line.length) {
            line = Arrays.copyOf(line, Math.max(line.length * 2, length + more));
        }
        System.arraycopy(buffer, from, line, length, more);
        length += more;
    }

    @Override
    public byte[] value() {
        return Arrays.copyOf(line, length);
    }

    /**
     * Go behind the first line, which is no record.
     *
     * @param hasNames whether it names the columns
     */
    void skipFirst(boolean hasNames) throws IOException {
        byte[] found = next() ? value() : null;
        if (hasNames) {
            if (found != null && found.length > MOST_BYTES_OF_NAMES) {
                throw new ContentException(
                        "its first line has "
                                + found.length
                                + " bytes; a line of names has at most "
                                + MOST_BYTES_OF_NAMES);
            }
            firstLine = found;
        }
    }

    /** Of a file that is read from a place behind its first line: what that line is. */
    void named(byte[] line) {
        firstLine = line;
    }

    @Override
    public byte[] firstLine() {
        return firstLine;
    }

    @Override
    public String why() {
        return "";
    }

    @Override
    public long place() {
        return canSeek ? begin + at : -1L;
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
