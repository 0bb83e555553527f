package medallion.files;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.TreeSet;

/**
 * Which files were found, in which order, and which offsets their records have.
 *
 * <p>Kept in a folder beside the checkpoint, as parts of JSON lines that are written once and never
 * changed: {@code 00000000000000000000.jsonl} and so on. A part is written before an offset in it
 * becomes known to Spark, so a micro-batch that is read again has the same records. {@code
 * medallion files skip} adds parts too: with {@code skipped} in the place of {@code path}, and the
 * first offset that is not read. With {@code left_out} in that place it is a file that the
 * declaration leaves out, and with {@code cleaned} one that was archived or deleted after it was
 * read.
 */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class FileList {
    private static final String SUFFIX = ".jsonl";
    private static final int DIGITS = 20;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path folder;
    private final CheckpointFileManager files;
    private final ArrayList<ListedFile> listed = new ArrayList<ListedFile>();

    /** By path: size and time as they were seen last, and as they were when it was listed. */
    private final HashMap<String, long[]> known = new HashMap<String, long[]>();

    /** By path: its newest entry. */
    private final HashMap<String, ListedFile> newest = new HashMap<String, ListedFile>();

    /** By name without folders: the path that was listed first. */
    private final HashMap<String, String> named = new HashMap<String, String>();

    /** By path: size and time of a file that the declaration leaves out. */
    private final HashMap<String, long[]> leftOut = new HashMap<String, long[]>();

    private final HashSet<String> without = new HashSet<String>();
    private final HashSet<String> skipped = new HashSet<String>();
    private long parts;
    private long end;
    private long newestMs = Long.MIN_VALUE;

    FileList(String folder, Configuration conf) throws IOException {
        this.folder = new Path(folder);
        this.files = CheckpointFileManager$.MODULE$.create(this.folder, conf);
        files.mkdirs(this.folder);
        TreeSet<String> names = new TreeSet<String>();
        for (FileStatus status : files.list(this.folder)) {
            if (status.getPath().getName().matches("\\d+\\.jsonl")) {
                names.add(status.getPath().getName());
            }
        }
        for (Object name : names) {
            if (!name.equals(nameOf(parts))) {
                throw new FileSourceException(
                        folder
                                + " lacks "
                                + nameOf(parts)
                                + "; restore the folder from a copy, or have it written again by the"
                                + " rows of the table: medallion recover");
            }
            read((String) name);
            parts++;
        }
    }

    /** The offset after the last record of the last file. */
    long end() {
        return end;
    }

    /**
     * Whether a file of this path, size and time is in the list, or one of this path is skipped.
     */
    boolean has(String path, FileStatus status) {
        if (skipped.contains(path)) {
            return true;
        }
        long[] one = (long[]) known.get(path);
        return one != null && one[0] == status.getLen() && one[1] == status.getModificationTime();
    }

    /** Whether records of a file of this path are in the list, of whatever size and time. */
    boolean hasRecordsOf(String path) {
        return known.containsKey(path) && !without.contains(path);
    }

    /** When the newest listed file was written. */
    long newestMs() {
        return newestMs;
    }

    /** The path under which a file of this name was listed; null if none was. */
    String pathOfName(String name) {
        return (String) named.get(name);
    }

    /** Whether the list says already that a file of this path, size and time is left out. */
    boolean isLeftOut(String path, FileStatus status) {
        long[] one = (long[]) leftOut.get(path);
        return one != null && one[0] == status.getLen() && one[1] == status.getModificationTime();
    }

    /**
     * The entry of a file whose records all lie before an offset; null if it has others, is another
     * file now, cannot be read or is skipped.
     */
    ListedFile readBefore(String path, FileStatus status, long offset) {
        ListedFile one = (ListedFile) newest.get(path);
        boolean isRead =
                one != null
                        && one.end() <= offset
                        && one.fault.isEmpty()
                        && !skipped.contains(path)
                        && one.size == status.getLen()
                        && one.modified == status.getModificationTime();
        return isRead ? one : null;
    }

    /** The files with records from an offset on and before another one, in order. */
    List<ListedFile> between(long from, long until) {
        ArrayList<ListedFile> found = new ArrayList<ListedFile>();
        for (int at = firstEndingAfter(from); at < listed.size(); at++) {
            ListedFile one = (ListedFile) listed.get(at);
            if (one.offset >= until) {
                break;
            }
            if (one.rows > 0L) {
                found.add(one);
            }
        }
        return found;
    }

    /** The first offset from another one on that is no skipped record's. */
    long afterSkipped(long offset) {
        long found = offset;
        for (int at = firstEndingAfter(offset); at < listed.size(); at++) {
            ListedFile one = (ListedFile) listed.get(at);
            if (one.offset + one.readable > found) {
                break;
            }
            found = one.end();
        }
        return found;
    }

    /** The place in the list of the file whose records have this offset, or of the next one. */
    private int firstEndingAfter(long offset) {
        int low = 0;
        int high = listed.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (((ListedFile) listed.get(middle)).end() <= offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /**
     * Write a part with new files, with files that are not what they were when they were read, and
     * with files that are left out, for which {@code fault} is the reason.
     */
    void add(List<ListedFile> more, List<ListedFile> changed, List<ListedFile> out)
            throws IOException {
        StringBuilder text = new StringBuilder();
        for (ListedFile one : more) {
            ObjectNode node = JSON.createObjectNode();
            node.put("path", one.path).put("size", one.size).put("modified_ms", one.modified);
            node.put("offset", one.offset).put("rows", one.rows);
            if (one.cuts.length > 0) {
                ArrayNode cuts = node.putArray("cuts");
                for (int at = 0; at < one.cuts.length; at++) {
                    cuts.add(one.cuts[at]);
                }
            }
            if (!one.fault.isEmpty()) {
                node.put("fault", one.fault);
            }
            text.append(JSON.writeValueAsString(node)).append('\n');
        }
        for (ListedFile one : changed) {
            ObjectNode node = JSON.createObjectNode();
            node.put("changed", one.path).put("size", one.size).put("modified_ms", one.modified);
            long[] before = (long[]) known.get(one.path);
            if (before[2] == one.size && before[3] == one.modified) {
                node.put("as_listed", true);
            }
            text.append(JSON.writeValueAsString(node)).append('\n');
        }
        for (ListedFile one : out) {
            ObjectNode node = JSON.createObjectNode();
            node.put("left_out", one.path).put("size", one.size).put("modified_ms", one.modified);
            text.append(JSON.writeValueAsString(node.put("why", one.fault))).append('\n');
        }
        write(text);
        for (ListedFile one : more) {
            keep(one);
        }
        for (ListedFile one : changed) {
            change(one.path, one.size, one.modified);
        }
        for (ListedFile one : out) {
            leftOut.put(one.path, new long[] {one.size, one.modified});
        }
    }

    /**
     * Write a part with files that are archived or deleted after they were read.
     *
     * @param to where each one goes; empty: it is deleted
     */
    void addCleaned(List<ListedFile> cleaned, List<String> to) throws IOException {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < cleaned.size(); at++) {
            String path = ((ListedFile) cleaned.get(at)).path;
            ObjectNode node = JSON.createObjectNode().put("cleaned", path);
            text.append(JSON.writeValueAsString(node.put("to", (String) to.get(at)))).append('\n');
        }
        write(text);
        for (ListedFile one : cleaned) {
            without.add(one.path);
        }
    }

    private void write(StringBuilder text) throws IOException {
        OutputStream out = files.createAtomic(new Path(folder, nameOf(parts)), false);
        out.write(text.toString().getBytes(StandardCharsets.UTF_8));
        out.close();
        parts++;
    }

    private void read(String name) throws IOException {
        BufferedReader lines =
                new BufferedReader(
                        new InputStreamReader(
                                files.open(new Path(folder, name)), StandardCharsets.UTF_8));
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode node = JSON.readTree(line);
                long size = numberOf(node, "size");
                long modified = numberOf(node, "modified_ms");
                if (node.has("skipped")) {
                    skip(textOf(node, "skipped"), numberOf(node, "offset"), numberOf(node, "rows"));
                } else if (node.has("left_out")) {
                    leftOut.put(textOf(node, "left_out"), new long[] {size, modified});
                } else if (node.has("cleaned")) {
                    without.add(textOf(node, "cleaned"));
                } else if (node.has("changed")) {
                    change(textOf(node, "changed"), size, modified);
                } else {
                    JsonNode cuts = (JsonNode) node.path("cuts");
                    long[] places = new long[cuts.size()];
                    for (int at = 0; at < places.length; at++) {
                        places[at] = ((JsonNode) cuts.get(at)).asLong();
                    }
                    keep(
                            new ListedFile(
                                    textOf(node, "path"),
                                    size,
                                    modified,
                                    numberOf(node, "offset"),
                                    numberOf(node, "rows"),
                                    places,
                                    textOf(node, "fault")));
                }
            }
        } finally {
            lines.close();
        }
    }

    private static String textOf(JsonNode node, String name) {
        return ((JsonNode) node.path(name)).asText("");
    }

    private static long numberOf(JsonNode node, String name) {
        return ((JsonNode) node.path(name)).asLong();
    }

    /** Read no record of a file from an offset on, and the file never again. */
    private void skip(String path, long offset, long rows) {
        skipped.add(path);
        if (rows > 0L) {
            int at = firstEndingAfter(offset);
            listed.set(at, ((ListedFile) listed.get(at)).skippedFrom(offset));
        }
    }

    private void change(String path, long size, long modified) {
        long[] before = (long[]) known.get(path);
        known.put(path, new long[] {size, modified, before[2], before[3]});
    }

    private void keep(ListedFile one) {
        listed.add(one);
        if (one.rows == 0L || !one.fault.isEmpty()) {
            without.add(one.path);
        } else {
            without.remove(one.path);
        }
        known.put(one.path, new long[] {one.size, one.modified, one.size, one.modified});
        newest.put(one.path, one);
        leftOut.remove(one.path);
        String name = FileLook.nameOf(one.path);
        if (!named.containsKey(name)) {
            named.put(name, one.path);
        }
        newestMs = Math.max(newestMs, one.modified);
        end = one.end();
    }

    private static String nameOf(long part) {
        StringBuilder digits = new StringBuilder(Long.toString(part));
        while (digits.length() < DIGITS) {
            digits.insert(0, '0');
        }
        return digits + SUFFIX;
    }
}
