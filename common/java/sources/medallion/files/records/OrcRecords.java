package medallion.files.records;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcConf;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.StripeInformation;
import org.apache.orc.TypeDescription;

import java.io.EOFException;
import java.io.IOException;
import java.util.List;
import java.util.zip.DataFormatException;

/** The records of an ORC file, as JSON text. */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class OrcRecords extends ColumnRecords {
    private final Reader file;
    private final TypeDescription schema;
    private final List<StripeInformation> stripes;
    private final VectorizedRowBatch batch;
    private final OrcJson json = new OrcJson();
    private RecordReader rows;

    /** The stripe that is read next, and the number of its first record. */
    private int next;

    private long first;

    /** Records of the stripe, and of the batch, that are still to come. */
    private long left;

    private int at = -1;

    OrcRecords(Path path, Configuration conf) throws IOException {
        file = opened(path, conf);
        boolean isOpen = false;
        try {
            schema = file.getSchema();
            if (schema.getCategory() != TypeDescription.Category.STRUCT) {
                throw new ContentException("its records have no columns");
            }
            String twice = OrcJson.nameTwice(schema);
            if (twice != null) {
                throw new ContentException("two of its columns have the name " + twice);
            }
            stripes = file.getStripes();
            batch = schema.createRowBatch();
            isOpen = true;
        } finally {
            if (!isOpen) {
                file.close();
            }
        }
    }

    /**
     * Open a file. One that does not say which calendar its days before 1582 are of is of the
     * Julian one if the Java library wrote it; other writers count days of today's calendar alone.
     */
    private static Reader opened(Path path, Configuration conf) throws IOException {
        Reader found = OrcFile.createReader(path, options(conf));
        OrcFile.WriterImplementation writer = found.getWriterVersion().getWriterImplementation();
        if (writer == OrcFile.WriterImplementation.ORC_JAVA) {
            return found;
        }
        found.close();
        Configuration plain = new Configuration(conf);
        OrcConf.PROLEPTIC_GREGORIAN_DEFAULT.setBoolean(plain, true);
        return OrcFile.createReader(path, options(plain));
    }

    private static OrcFile.ReaderOptions options(Configuration conf) {
        return OrcFile.readerOptions(conf).useUTCTimestamp(true).convertToProlepticGregorian(true);
    }

    @Override
    long count() {
        return file.getNumberOfRows();
    }

    /** Go behind so many records; whole stripes are not read. */
    @Override
    void skip(long records) throws IOException {
        long skipped = 0L;
        while (next < stripes.size() && skipped + rowsOf(next) <= records) {
            skipped += rowsOf(next);
            first += rowsOf(next);
            next++;
        }
        while (skipped < records && next()) {
            skipped++;
        }
    }

    private long rowsOf(int stripe) {
        return ((StripeInformation) stripes.get(stripe)).getNumberOfRows();
    }

    @Override
    public boolean next() throws IOException {
        while (left == 0L) {
            if (next == stripes.size()) {
                return false;
            }
            left = rowsOf(next++);
            at = -1;
            batch.size = 0;
            why = "";
            go();
            first += left;
        }
        left--;
        at++;
        if (why.isEmpty() && at >= batch.size) {
            read();
        }
        return true;
    }

    /** Go to the begin of a stripe, whatever the one before was. */
    private void go() throws IOException {
        try {
            if (rows == null) {
                rows = file.rows();
            }
            rows.seekToRow(first);
        } catch (IOException error) {
            damaged(error);
        } catch (RuntimeException error) {
            damaged(error);
        }
    }

    private void read() throws IOException {
        try {
            at = 0;
            if (!rows.nextBatch(batch) || batch.size == 0) {
                why = "its stripe has fewer records than the end of the file says";
            }
        } catch (IOException error) {
            damaged(error);
        } catch (RuntimeException error) {
            damaged(error);
        }
    }

    /**
     * Of a stripe that does not decode no further record can be read; the next one may be whole.
     */
    private void damaged(Exception error) throws IOException {
        if (error instanceof IOException && !isOfContent(error)) {
            throw (IOException) error;
        }
        why = "its stripe cannot be read: " + rootOf(error);
        if (rows != null) {
            rows.close();
            rows = null;
        }
    }

    /**
     * Whether an error says that bytes of a file are not what an ORC file has there: one that ORC's
     * own classes have thrown, and not the file system.
     */
    static boolean isOfContent(Throwable error) {
        for (Throwable at = error; at != null; at = at.getCause()) {
            StackTraceElement[] frames = at.getStackTrace();
            if (at instanceof DataFormatException
                    || at instanceof EOFException
                    || frames.length > 0
                            && frames[0].getClassName().startsWith("org.apache.orc.")) {
                return true;
            }
        }
        return false;
    }

    @Override
    protected byte[] text() throws IOException {
        return json.of(schema, batch, at);
    }

    @Override
    protected String failedAt() {
        return json.place();
    }

    @Override
    public void close() throws IOException {
        if (rows != null) {
            rows.close();
        }
        file.close();
    }
}
