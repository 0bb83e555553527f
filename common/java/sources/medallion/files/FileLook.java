package medallion.files;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.PathMatcher;
import java.util.Map;
import java.util.TreeMap;

/** A look at the source's folder: the files that are there, by their paths below it. */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class FileLook {
    /** A file that changed within this time is still being written. */
    static final long SETTLED_MS = 3000L;

    /** What the path of the declared file begins with, where no folder is declared. */
    private static final String ITSELF = "./";

    private FileLook() {}

    /**
     * The files, in the order of their paths. Those with a dot or an underscore at the begin of a
     * name below the folder are left out, and those that do not match the pattern: one without a
     * slash is of names, one with a slash of paths below the folder; empty: every file.
     */
    static TreeMap<String, FileStatus> at(String folder, String only, Configuration conf)
            throws IOException {
        Path root = new Path(folder);
        FileSystem system = root.getFileSystem(conf);
        TreeMap<String, FileStatus> found = new TreeMap<String, FileStatus>();
        FileStatus status;
        try {
            status = system.getFileStatus(root);
        } catch (FileNotFoundException error) {
            throw new FileSourceException(
                    folder + " is not there: no file and no folder. Create it, or correct path");
        }
        if (status.isFile()) {
            found.put(ITSELF + root.getName(), status);
            return found;
        }
        String base = status.getPath().toUri().getPath();
        RemoteIterator<LocatedFileStatus> files = system.listFiles(status.getPath(), true);
        while (files.hasNext()) {
            FileStatus file = (FileStatus) files.next();
            String path = file.getPath().toUri().getPath().substring(base.length());
            path = path.startsWith("/") ? path.substring(1) : path;
            if (!isHidden(path) && matches(only, path)) {
                found.put(path, file);
            }
        }
        return found;
    }

    /** The path of a file that a look has found. */
    static Path below(String folder, String path) {
        Path root = new Path(folder);
        if (path.startsWith(ITSELF)) {
            return root;
        }
        // A name may have a colon, so it is no path of its own.
        String whole = root.toUri().getPath() + "/" + path;
        return new Path(root.toUri().getScheme(), root.toUri().getAuthority(), whole);
    }

    /** Move a file that is read, or delete it where no place is given. */
    static void clean(Path file, String to, Configuration conf) throws IOException {
        FileSystem system = file.getFileSystem(conf);
        boolean isDone;
        if (to.isEmpty()) {
            isDone = system.delete(file, false);
        } else {
            int slash = to.lastIndexOf('/');
            Path place = below(to.substring(0, slash), to.substring(slash + 1));
            system.mkdirs(place.getParent());
            isDone = system.rename(file, place);
        }
        if (!isDone && system.exists(file)) {
            throw new FileSourceException(
                    file
                            + " is read and cannot be "
                            + (to.isEmpty() ? "deleted" : "moved to " + to)
                            + ". Let this user write there, or leave clean_source out");
        }
    }

    /** The name of a file without its folders. */
    static String nameOf(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    /** The path of a file as rows have it. */
    static String shown(String path) {
        return path.startsWith(ITSELF) ? path.substring(ITSELF.length()) : path;
    }

    /** Whether a file is there, with this size and time. */
    static boolean isStill(Path file, long size, long modified, Configuration conf)
            throws IOException {
        try {
            FileStatus now = file.getFileSystem(conf).getFileStatus(file);
            return now.getLen() == size && isSameTime(now.getModificationTime(), modified);
        } catch (FileNotFoundException error) {
            return false;
        }
    }

    /**
     * Whether two times are one. An object store may tell it in whole seconds for one object, and
     * in milliseconds in a list; a file is listed three seconds after it has changed, so that a
     * further change is in another second.
     */
    static boolean isSameTime(long one, long other) {
        boolean isWhole = one % 1000L == 0L || other % 1000L == 0L;
        return one == other || isWhole && one / 1000L == other / 1000L;
    }

    /** Whether a file may still be written. */
    static boolean isBeingWritten(FileStatus status) {
        long age = System.currentTimeMillis() - status.getModificationTime();
        return age > -SETTLED_MS && age < SETTLED_MS;
    }

    static boolean anyIsBeingWritten(Map<String, FileStatus> files, FileList list) {
        for (Map.Entry<String, FileStatus> entry : files.entrySet()) {
            FileStatus status = (FileStatus) entry.getValue();
            if (!list.has((String) entry.getKey(), status) && isBeingWritten(status)) {
                return true;
            }
        }
        return false;
    }

    private static boolean matches(String only, String path) {
        if (only.isEmpty()) {
            return true;
        }
        String seen = only.indexOf('/') < 0 ? nameOf(path) : path;
        PathMatcher matcher = FileSystems.getDefault().getPathMatcher("glob:" + only);
        return matcher.matches(FileSystems.getDefault().getPath(seen));
    }

    private static boolean isHidden(String path) {
        for (String name : path.split("/")) {
            if (name.startsWith(".") || name.startsWith("_")) {
                return true;
            }
        }
        return false;
    }
}
