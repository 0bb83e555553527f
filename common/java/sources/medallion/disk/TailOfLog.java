package medallion.disk;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The names of the files of a Delta log from some version on.
 *
 * <p>A log that is written once a second has 2.6 million commits after a month, and its folder is
 * read in seconds. So the folder is read once; after that, the newest commits are found by asking
 * for one version after the other. The folder is read again where that could miss a file: where a
 * commit is missing that was there before, where much of the log is asked for, and where its
 * checkpoint is made of several files, whose names cannot be guessed.
 */
final class TailOfLog {
    private static final int MOST_VERSIONS = 500;
    private static final int DIGITS = 20;
    private static final String LAST_CHECKPOINT = "_last_checkpoint";
    private static final ConcurrentHashMap<Path, TailOfLog> KNOWN =
            new ConcurrentHashMap<Path, TailOfLog>();

    private final File folder;
    private long newest = -1L;

    private TailOfLog(File folder) {
        this.folder = folder;
    }

    static TailOfLog of(Path log) {
        Object known = KNOWN.get(log);
        if (known != null) {
            return (TailOfLog) known;
        }
        TailOfLog made = new TailOfLog(log.toFile());
        Object first = KNOWN.putIfAbsent(log, made);
        return first == null ? made : (TailOfLog) first;
    }

    /** The names of the log's files that are not before a name, in order. */
    synchronized TreeSet<String> namesFrom(String first) throws IOException {
        long version = versionOf(first);
        // A look for new commits begins with the version after the newest one.
        boolean isAtEnd = newest >= 0L && version <= newest + 1L;
        if (version >= 0L && isAtEnd && newest - version < MOST_VERSIONS) {
            TreeSet<String> asked = asked(first, version);
            if (asked != null) {
                return asked;
            }
        }
        return read(first);
    }

    /** Names by asking for one version after the other; null where the folder has to be read. */
    private TreeSet<String> asked(String first, long version) throws IOException {
        if (hasPartsOfCheckpoint()) {
            return null;
        }
        if (version > newest && !has(prefix(newest) + ".json")) {
            return null;
        }
        TreeSet<String> names = new TreeSet<String>();
        long last = version - 1L;
        for (long next = version; next - version < 2L * MOST_VERSIONS; next++) {
            String prefix = prefix(next);
            if (!has(prefix + ".json")) {
                break;
            }
            last = next;
            addIfThere(names, prefix + ".checkpoint.parquet", first);
            addIfThere(names, prefix + ".crc", first);
            if ((prefix + ".json").compareTo(first) >= 0) {
                names.add(prefix + ".json");
            }
        }
        if (last < newest || last - version >= 2L * MOST_VERSIONS - 1L) {
            return null;
        }
        newest = last;
        return names;
    }

    private TreeSet<String> read(String first) throws IOException {
        String[] all = folder.list();
        if (all == null) {
            throw new FileNotFoundException("No such file or directory: " + folder);
        }
        TreeSet<String> names = new TreeSet<String>();
        newest = -1L;
        for (String name : all) {
            if (name.endsWith(".json")) {
                newest = Math.max(newest, versionOf(name));
            }
            if (name.compareTo(first) >= 0) {
                names.add(name);
            }
        }
        return names;
    }

    private boolean hasPartsOfCheckpoint() throws IOException {
        File hint = new File(folder, LAST_CHECKPOINT);
        if (!hint.exists()) {
            return false;
        }
        String text;
        try {
            text = new String(Files.readAllBytes(hint.toPath()), StandardCharsets.UTF_8);
        } catch (IOException replaced) {
            return true;
        }
        return text.contains("\"parts\":") || text.contains("\"v2Checkpoint\":");
    }

    private void addIfThere(TreeSet<String> names, String name, String first) {
        if (name.compareTo(first) >= 0 && has(name)) {
            names.add(name);
        }
    }

    private boolean has(String name) {
        return new File(folder, name).exists();
    }

    private static String prefix(long version) {
        String digits = Long.toString(version);
        StringBuilder text = new StringBuilder();
        for (int missing = DIGITS - digits.length(); missing > 0; missing--) {
            text.append('0');
        }
        return text.append(digits).toString();
    }

    /** The version with which a name begins; -1 where it begins with none. */
    private static long versionOf(String name) {
        if (name.length() <= DIGITS || name.charAt(DIGITS) != '.') {
            return -1L;
        }
        try {
            return Long.parseLong(name.substring(0, DIGITS));
        } catch (NumberFormatException other) {
            return -1L;
        }
    }
}
