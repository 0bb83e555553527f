package medallion.disk;

import io.delta.storage.HadoopFileSystemLogStore;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
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
