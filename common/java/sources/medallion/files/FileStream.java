package medallion.files;

import medallion.files.records.Cuts;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The stream of the records of all files of a folder, each file in the order in which it was found.
 */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class FileStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private static final int MOST_FILES = 1000;

    private final FileOptions options;
    private final Configuration conf;
    private final TreeMap<String, FileStatus> waiting = new TreeMap<String, FileStatus>();
    private final ArrayList<ListedFile> changed = new ArrayList<ListedFile>();
    private FileList list;
    private long lookedAt = Long.MIN_VALUE;
    private boolean isBounded;

    FileStream(FileOptions options, Configuration conf) {
        this.options = options;
        this.conf = conf;
    }

    private FileList list() throws IOException {
        if (list == null) {
            list = new FileList(options.list, conf);
        }
        return list;
    }

    @Override
    public Offset initialOffset() {
        return new FileOffset(options.topic, 0L);
    }

    @Override
    public Offset deserializeOffset(String json) {
        return FileOffset.parse(options.topic, json);
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException(
                "latestOffset(Offset, ReadLimit) is called instead");
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        long from = start == null ? 0L : ((FileOffset) start).rows;
        try {
            if (from > list().end()) {
                throw new FileSourceException(
                        "the list of files in "
                                + options.list
                                + " ends at offset "
                                + list().end()
                                + ", and the checkpoint has read up to "
                                + from
                                + "; restore the folder from a copy, or have it written again by"
                                + " the rows of the table: medallion recover");
            }
            long most = list().afterSkipped(from) + options.maxRows;
            look();
            while (list().end() < most && !(waiting.isEmpty() && changed.isEmpty())) {
                listSome(most - list().end());
            }
            return new FileOffset(options.topic, Math.min(most, list().end()));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        try {
            list();
            long until = System.currentTimeMillis() + FileLook.SETTLED_MS + 1000L;
            while (FileLook.anyIsBeingWritten(FileLook.at(options.path, options.only, conf), list())
                    && System.currentTimeMillis() < until) {
                Thread.sleep(200L);
            }
            look();
            isBounded = true;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    /** Find the files that are new, and those that are not what they were. */
    private void look() throws IOException {
        long now = System.nanoTime() / 1000000L;
        boolean isEarly = lookedAt != Long.MIN_VALUE && now - lookedAt < options.lookMs;
        if (isBounded || isEarly || !waiting.isEmpty() || !changed.isEmpty()) {
            return;
        }
        lookedAt = now;
        for (Map.Entry<String, FileStatus> entry :
                FileLook.at(options.path, options.only, conf).entrySet()) {
            String path = (String) entry.getKey();
            FileStatus status = (FileStatus) entry.getValue();
            if (list().has(path, status) || FileLook.isBeingWritten(status)) {
                continue;
            }
            if (list().hasRecordsOf(path)) {
                changed.add(
                        new ListedFile(
                                path,
                                status.getLen(),
                                status.getModificationTime(),
                                0L,
                                0L,
                                new long[0],
                                ""));
            } else {
                waiting.put(path, status);
            }
        }
    }

    /** Count the next files, up to so many records, and write them into the list. */
    private void listSome(long rows) throws IOException {
        ArrayList<ListedFile> more = new ArrayList<ListedFile>();
        long end = list().end();
        long until = end + rows;
        while (end < until && more.size() < MOST_FILES && !waiting.isEmpty()) {
            Map.Entry<String, FileStatus> entry = waiting.pollFirstEntry();
            ListedFile one = listed((String) entry.getKey(), (FileStatus) entry.getValue(), end);
            if (one != null) {
                more.add(one);
                end = one.end();
            }
        }
        list().add(more, changed);
        changed.clear();
    }

    /** Count the records of a file; null if it is not what it was: a later look finds it again. */
    private ListedFile listed(String path, FileStatus status, long offset) throws IOException {
        Path file = FileLook.below(options.path, path);
        if (!FileLook.isStill(file, status.getLen(), status.getModificationTime(), conf)) {
            return null;
        }
        ListedFile one = counted(path, file, status, offset);
        boolean isStill =
                FileLook.isStill(file, status.getLen(), status.getModificationTime(), conf);
        return isStill ? one : null;
    }

    private ListedFile counted(String path, Path file, FileStatus status, long offset)
            throws IOException {
        Cuts cuts = new Cuts();
        long rows = 0L;
        String fault = "";
        try {
            rows = options.files.count(file, conf, cuts);
        } catch (IOException error) {
            if (!options.files.isOfContent(error, file, conf)) {
                throw new IOException(FileLook.shown(path) + ": " + error.getMessage(), error);
            }
            fault = String.valueOf(error.getMessage());
        } catch (UncheckedIOException error) {
            throw error.getCause();
        } catch (RuntimeException error) {
            fault = String.valueOf(error.getMessage());
        } catch (StackOverflowError error) {
            fault = "its schema is nested too deeply";
        }
        if (!fault.isEmpty()) {
            // One row says in silver's quarantine that the file could not be read.
            rows = 1L;
        }
        return new ListedFile(
                path,
                status.getLen(),
                status.getModificationTime(),
                offset,
                rows,
                fault.isEmpty() ? cuts.places() : new long[0],
                fault);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        long from = ((FileOffset) start).rows;
        long until = ((FileOffset) end).rows;
        ArrayList<FilePart> parts = new ArrayList<FilePart>();
        FilePart part = new FilePart();
        try {
            List<ListedFile> files = list().between(from, until);
            for (Object each : files) {
                ListedFile file = (ListedFile) each;
                long row = Math.max(0L, from - file.offset);
                long stop = Math.min(file.readable, until - file.offset);
                while (row < stop) {
                    long rows = Math.min(stop - row, Cuts.EVERY - part.rows);
                    part.add(new FilePart.Slice(file, row, rows));
                    row += rows;
                    if (part.rows == Cuts.EVERY) {
                        parts.add(part);
                        part = new FilePart();
                    }
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (part.rows > 0L) {
            parts.add(part);
        }
        InputPartition[] found = new InputPartition[parts.size()];
        for (int at = 0; at < found.length; at++) {
            found[at] = (InputPartition) parts.get(at);
        }
        return found;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new FileSource.Factory(options, conf);
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
}
