package medallion.disk;

import io.delta.storage.HadoopFileSystemLogStore;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.TreeSet;
import java.util.UUID;

/**
 * A Delta log on a local disk. If two processes write the same version, one of them fails with
 * {@code FileAlreadyExistsException}.
 *
 * <p>A commit file gets its name, by a hard link, once the commit file and the data files that the
 * commit adds are on the disk. After a power cut the table is therefore in the state before the
 * commit or in the state after it.
 */
public class LinkLogStore extends HadoopFileSystemLogStore {
    private static final String ADD = "{\"add\":{\"path\":\"";
    private static final LinkOption[] FOLLOW = {};
    private static final String CHANGE = "{\"cdc\":{\"path\":\"";

    public LinkLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(
            Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        java.nio.file.Path target = Paths.get(path.toUri().getPath(), new String[0]);
        java.nio.file.Path log = target.getParent();
        java.nio.file.Path draft =
                log.resolve("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
        TreeSet<java.nio.file.Path> folders = new TreeSet<java.nio.file.Path>();
        OutputStream out =
                Files.newOutputStream(
                        draft,
                        new OpenOption[] {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE});
        try {
            try {
                while (actions.hasNext()) {
                    Object next = actions.next();
                    String action = (String) next;
                    out.write(action.getBytes(StandardCharsets.UTF_8));
                    out.write('\n');
                    flushAdded(action, log.getParent(), folders);
                }
            } finally {
                out.close();
            }
            for (java.nio.file.Path folder : folders) {
                Durable.folder(folder);
            }
            if (overwrite.booleanValue()) {
                Durable.file(draft);
                Files.move(draft, target, new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
                Durable.folder(log);
            } else {
                LocalDisk.link(draft.toFile(), target.toFile());
            }
        } finally {
            Files.deleteIfExists(draft);
        }
    }

    /**
     * The files of a log that are not before a file, in the order of their names.
     *
     * <p>Hadoop looks at every file of the folder, so that each look for new commits costs as much
     * as the log is long. Here only the files that were requested are looked at, and mostly not
     * even the folder is read ({@link TailOfLog}).
     */
    @Override
    public Iterator<FileStatus> listFrom(Path path, Configuration configuration)
            throws IOException {
        FileSystem disk = path.getFileSystem(configuration);
        Path folder = disk.makeQualified(path).getParent();
        java.nio.file.Path log = Paths.get(folder.toUri().getPath(), new String[0]);
        ArrayList<FileStatus> found = new ArrayList<FileStatus>();
        for (Object each : TailOfLog.of(log).namesFrom(path.getName())) {
            String name = (String) each;
            try {
                found.add(status(log.resolve(name), new Path(folder, name), disk));
            } catch (NoSuchFileException deleted) {
                // The log's cleanup deleted the file after its name was read.
                continue;
            }
        }
        return found.iterator();
    }

    /** Size and time of a file, without its owner: the names of users and groups are files, too. */
    private static FileStatus status(java.nio.file.Path file, Path path, FileSystem disk)
            throws IOException {
        Object read = Files.readAttributes(file, BasicFileAttributes.class, FOLLOW);
        BasicFileAttributes attributes = (BasicFileAttributes) read;
        boolean isFolder = attributes.isDirectory();
        return new FileStatus(
                isFolder ? 0L : attributes.size(),
                isFolder,
                1,
                disk.getDefaultBlockSize(path),
                attributes.lastModifiedTime().toMillis(),
                path);
    }

    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.FALSE;
    }

    /**
     * Flushes the data file or the change file that an action adds, and adds its folder to the
     * folders to flush.
     */
    private static void flushAdded(
            String action, java.nio.file.Path table, TreeSet<java.nio.file.Path> folders)
            throws IOException {
        if (!action.startsWith(ADD) && !action.startsWith(CHANGE)) {
            return;
        }
        // ADD and CHANGE have the same length.
        String encoded = action.substring(ADD.length(), action.indexOf('"', ADD.length()));
        URI added = URI.create(encoded);
        if (added.getScheme() != null && !"file".equals(added.getScheme())) {
            return;
        }
        java.nio.file.Path file = table.resolve(added.getPath());
        if (Files.exists(file, new java.nio.file.LinkOption[0])) {
            Durable.file(file);
            folders.add(file.getParent());
        }
    }
}
