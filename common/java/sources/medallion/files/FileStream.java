package medallion.files;

import medallion.streaming.LimitedStream;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;

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
final class FileStream extends LimitedStream {
    private static final int MOST_FILES = 1000;
    private static final int DIGITS = 20;

    private final FileOptions options;
    private final Configuration conf;

    /** New files in the order in which they are read, by their paths or first by their times. */
    private final TreeMap<String, FileStatus> waiting = new TreeMap<String, FileStatus>();

    private final ArrayList<ListedFile> changed = new ArrayList<ListedFile>();
    private final ArrayList<ListedFile> leftOut = new ArrayList<ListedFile>();

    /** What the last look has found. */
    private Map<String, FileStatus> present = new TreeMap<String, FileStatus>();

    private long cleanedUntil = -1L;
    private FileList list;
    private long lookedAt = Long.MIN_VALUE;

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
            clean(from);
            look();
            while (list().end() < most
                    && !(waiting.isEmpty() && changed.isEmpty() && leftOut.isEmpty())) {
                listSome(most - list().end());
            }
            return new FileOffset(options.topic, Math.min(most, list().end()));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    protected void awaitAll() throws InterruptedException {
        try {
            list();
            long until = System.currentTimeMillis() + FileLook.SETTLED_MS + 1000L;
            while (FileLook.anyIsBeingWritten(FileLook.at(options.path, options.only, conf), list())
                    && System.currentTimeMillis() < until) {
                Thread.sleep(200L);
            }
            look();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Find the files that are new, and those that are not what they were. */
    private void look() throws IOException {
        long now = System.nanoTime() / 1000000L;
        boolean isEarly = lookedAt != Long.MIN_VALUE && now - lookedAt < options.lookMs;
        // Newer files come before those that wait already.
        boolean isBusy = !waiting.isEmpty() && !options.latestFirst || !changed.isEmpty();
        if (isBounded || isEarly || isBusy) {
            return;
        }
        lookedAt = now;
        waiting.clear();
        leftOut.clear();
        present = FileLook.at(options.path, options.only, conf);
        cleanedUntil = -1L;
        long oldest = oldest();
        for (Map.Entry<String, FileStatus> entry : present.entrySet()) {
            String path = (String) entry.getKey();
            FileStatus status = (FileStatus) entry.getValue();
            if (list().has(path, status) || FileLook.isBeingWritten(status)) {
                continue;
            }
            if (list().hasRecordsOf(path)) {
                changed.add(found(path, status, ""));
            } else if (status.getModificationTime() < oldest) {
                leaveOut(
                        path,
                        status,
                        "it was written more than " + options.maxAge + " before the newest file");
            } else {
                waiting.put(order(path, status), status);
            }
        }
        if (options.nameOnly) {
            leaveOutEqualNames();
        }
    }

    /** The time before which a file is too old: so much before that of the newest one. */
    private long oldest() throws IOException {
        if (options.maxAgeMs == 0L) {
            return Long.MIN_VALUE;
        }
        long newest = list().newestMs();
        for (Object status : present.values()) {
            newest = Math.max(newest, ((FileStatus) status).getModificationTime());
        }
        return newest == Long.MIN_VALUE ? newest : newest - options.maxAgeMs;
    }

    /** What files are sorted by: their paths, or the newest first. */
    private String order(String path, FileStatus status) {
        if (!options.latestFirst) {
            return path;
        }
        StringBuilder digits =
                new StringBuilder(Long.toString(Long.MAX_VALUE - status.getModificationTime()));
        while (digits.length() < DIGITS) {
            digits.insert(0, '0');
        }
        return digits + path;
    }

    private String pathOf(String order) {
        return options.latestFirst ? order.substring(DIGITS) : order;
    }

    /** Of files of one name, in whatever folders, the one that was found first is read. */
    private void leaveOutEqualNames() throws IOException {
        TreeMap<String, String> names = new TreeMap<String, String>();
        for (Object key : new ArrayList<String>(waiting.keySet())) {
            String path = pathOf((String) key);
            FileStatus status = (FileStatus) waiting.get(key);
            String name = FileLook.nameOf(path);
            String first = list().pathOfName(name);
            boolean isMoved = first != null && list().has(first, status);
            if (first == null) {
                first = (String) names.get(name);
            }
            if (first == null || first.equals(path)) {
                names.put(name, path);
                continue;
            }
            waiting.remove(key);
            if (!isMoved || present.containsKey(first)) {
                leaveOut(path, status, "its name is that of " + first + ", which was found first");
            }
        }
    }

    private void leaveOut(String path, FileStatus status, String why) throws IOException {
        if (!list().isLeftOut(path, status)) {
            leftOut.add(found(path, status, why));
        }
    }

    private static ListedFile found(String path, FileStatus status, String why) {
        return new ListedFile(
                path, status.getLen(), status.getModificationTime(), 0L, 0L, new long[0], why);
    }

    /** Archive or delete the files whose records all lie before an offset that is committed. */
    private void clean(long until) throws IOException {
        if (options.clean.isEmpty() || until <= cleanedUntil) {
            return;
        }
        cleanedUntil = until;
        ArrayList<ListedFile> done = new ArrayList<ListedFile>();
        ArrayList<String> to = new ArrayList<String>();
        for (Map.Entry<String, FileStatus> entry : present.entrySet()) {
            String path = (String) entry.getKey();
            ListedFile one = list().readBefore(path, (FileStatus) entry.getValue(), until);
            Path file = FileLook.below(options.path, path);
            if (one != null && FileLook.isStill(file, one.size, one.modified, conf)) {
                done.add(one);
                to.add(options.clean.equals("delete") ? "" : archived(one));
            }
        }
        if (done.isEmpty()) {
            return;
        }
        // Written before, so that a file that is gone is never one that is not known.
        list().addCleaned(done, to);
        for (int at = 0; at < done.size(); at++) {
            String path = ((ListedFile) done.get(at)).path;
            FileLook.clean(FileLook.below(options.path, path), (String) to.get(at), conf);
            present.remove(path);
        }
    }

    /** Where a file is moved to: another one of its path may be there, of an earlier time. */
    private String archived(ListedFile file) throws IOException {
        String to = options.archive + "/" + FileLook.shown(file.path);
        Path place = FileLook.below(options.archive, FileLook.shown(file.path));
        return place.getFileSystem(conf).exists(place) ? to + "." + file.offset : to;
    }

    /** Count the next files, up to so many records, and write them into the list. */
    private void listSome(long rows) throws IOException {
        ArrayList<ListedFile> more = new ArrayList<ListedFile>();
        long end = list().end();
        long until = end + rows;
        while (end < until && more.size() < MOST_FILES && !waiting.isEmpty()) {
            Map.Entry<String, FileStatus> entry = waiting.pollFirstEntry();
            String path = pathOf((String) entry.getKey());
            ListedFile one = listed(path, (FileStatus) entry.getValue(), end);
            if (one != null) {
                more.add(one);
                end = one.end();
            }
        }
        list().add(more, changed, leftOut);
        changed.clear();
        leftOut.clear();
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
