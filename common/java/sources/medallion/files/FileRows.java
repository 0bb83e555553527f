package medallion.files;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.files.records.ContentException;
import medallion.files.records.Records;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/** The rows of one task, with the columns of Kafka's source. */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class FileRows implements PartitionReader<InternalRow> {
    private static final int LOG_APPEND = 1;
    private static final UTF8String PATH = UTF8String.fromString("path");
    private static final UTF8String ROW = UTF8String.fromString("row");
    private static final UTF8String HEADER = UTF8String.fromString("header");

    private final FilePart part;
    private final FileOptions options;
    private final Configuration conf;
    private final UTF8String topic;
    private int at = -1;
    private long done;
    private Records records;

    /**
     * What all records of the slice's file have: its path, what its folders say, and its line of
     * names; null before it is known.
     */
    private Object[] ofFile;

    FileRows(FilePart part, FileOptions options, Configuration conf) {
        this.part = part;
        this.options = options;
        this.conf = conf;
        this.topic = UTF8String.fromString(options.topic);
    }

    private FilePart.Slice slice() {
        return (FilePart.Slice) part.slices.get(at);
    }

    @Override
    public boolean next() throws IOException {
        while (at < 0 || done == slice().rows) {
            close();
            if (at + 1 == part.slices.size()) {
                return false;
            }
            at++;
            done = 0L;
            ofFile = null;
        }
        if (slice().fault.isEmpty()) {
            boolean isThere = go();
            // The bytes of the slice's last record have been read.
            if (!isThere || done + 1L == slice().rows) {
                refuseIfChanged();
            }
            if (!isThere) {
                throw stopped("has no record after " + (slice().row + done) + " of its records");
            }
        }
        done++;
        return true;
    }

    /** Go on to the next record of the file; false if there is none. */
    private boolean go() throws IOException {
        FilePart.Slice slice = slice();
        try {
            if (records == null) {
                refuseIfChanged();
                Path path = FileLook.below(options.path, slice.path);
                records = options.files.at(path, conf, slice.row, slice.cutRow, slice.cut);
            }
            return records.next();
        } catch (FileSourceException error) {
            throw error;
        } catch (ContentException error) {
            refuseIfChanged();
            throw stopped("cannot be read: " + error.getMessage());
        } catch (IOException error) {
            refuseIfChanged();
            String file = FileLook.shown(slice.path);
            throw new IOException(
                    file + ": " + error.getMessage() + ". If it stays so: " + skip(), error);
        } catch (RuntimeException error) {
            refuseIfChanged();
            throw stopped("cannot be read: " + error.getMessage());
        }
    }

    /**
     * Throw an error if the file is not what it was when it was listed: its records would be those
     * of two states of the file.
     */
    private void refuseIfChanged() throws IOException {
        FilePart.Slice slice = slice();
        Path path = FileLook.below(options.path, slice.path);
        FileStatus now;
        try {
            now = path.getFileSystem(conf).getFileStatus(path);
        } catch (FileNotFoundException error) {
            throw stopped("is not there any more");
        }
        if (now.getLen() != slice.size) {
            throw stopped("has " + now.getLen() + " bytes now, and had " + slice.size);
        }
        if (!FileLook.isSameTime(now.getModificationTime(), slice.modified)) {
            throw stopped(
                    "was modified at "
                            + Instant.ofEpochMilli(now.getModificationTime())
                            + ", after it was listed with the time "
                            + Instant.ofEpochMilli(slice.modified));
        }
    }

    private FileSourceException stopped(String what) {
        String file = FileLook.shown(slice().path);
        return new FileSourceException(
                options.path
                        + ": "
                        + file
                        + " "
                        + what
                        + ", and not all of its records are read. Put the file back as it was, with"
                        + " its time of modification, or give it up: "
                        + skip());
    }

    /** The command that accounts for the records as lost. */
    private String skip() {
        return "medallion files skip " + forShell(FileLook.shown(slice().path)) + " --why REASON";
    }

    /** A path as it is typed; without quotes, between which a value may stand and is not told. */
    private static String forShell(String path) {
        return path.replaceAll("([^\\p{L}\\p{N}_./=+,@:%-])", "\\\\$1");
    }

    @Override
    public InternalRow get() {
        FilePart.Slice slice = slice();
        long row = slice.row + done - 1L;
        byte[] value = value(slice, row);
        if (ofFile == null) {
            ofFile = headersOfFile(FileLook.shown(slice.path));
        }
        Object[] headers = (Object[]) ofFile.clone();
        headers[1] = header(ROW, Long.toString(row));
        return new GenericInternalRow(
                new Object[] {
                    null,
                    value,
                    topic,
                    Integer.valueOf(0),
                    Long.valueOf(slice.offset + done - 1L),
                    Long.valueOf(slice.modified * 1000L),
                    Integer.valueOf(LOG_APPEND),
                    new GenericArrayData(headers)
                });
    }

    /** The headers of all records of a file, with a place for the second one, {@code row}. */
    private Object[] headersOfFile(String path) {
        String[] folders = FolderColumns.of(path);
        byte[] names = records == null ? null : records.firstLine();
        Object[] found = new Object[folders.length / 2 + (names == null ? 2 : 3)];
        found[0] = header(PATH, path);
        for (int each = 0; each < folders.length; each += 2) {
            found[each / 2 + 2] = header(UTF8String.fromString(folders[each]), folders[each + 1]);
        }
        if (names != null) {
            found[found.length - 1] = new GenericInternalRow(new Object[] {HEADER, names});
        }
        return found;
    }

    private byte[] value(FilePart.Slice slice, long row) {
        String file = FileLook.shown(slice.path);
        if (!slice.fault.isEmpty()) {
            return Unreadable.value(Reasons.UNREADABLE_FILE, file, slice.fault);
        }
        try {
            return records.value();
        } catch (Fault fault) {
            return Unreadable.value(fault.reason, file + ", record " + row, records.why());
        } catch (IOException error) {
            throw new IllegalStateException(slice.path, error);
        }
    }

    private static InternalRow header(UTF8String name, String text) {
        byte[] value = text == null ? null : text.getBytes(StandardCharsets.UTF_8);
        return new GenericInternalRow(new Object[] {name, value});
    }

    @Override
    public void close() throws IOException {
        if (records != null) {
            records.close();
            records = null;
        }
    }
}
