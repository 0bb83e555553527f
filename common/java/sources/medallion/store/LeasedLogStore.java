package medallion.store;

import io.delta.storage.S3SingleDriverLogStore;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;

/**
 * A Delta log on an S3 store. If two processes write the same version, one of them fails with
 * {@code FileAlreadyExistsException}: the store itself refuses the second put. Of a table with a
 * lease, only the lease's owner commits.
 *
 * <p>A new owner of a lease that was not released commits before it reads the table. So a process
 * that lost its lease after the look at the lease finds its version taken, and looks again.
 */
public class LeasedLogStore extends S3SingleDriverLogStore {
    private static final String OWNER = "medallion.lease.owner";
    private static final int ATTEMPTS = 10;
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

    public LeasedLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(
            Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        FileSystem store = path.getFileSystem(configuration);
        requireLease(store, path, configuration.get(OWNER, ""));
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            Object next = actions.next();
            String action = (String) next;
            content.write(action.getBytes(StandardCharsets.UTF_8));
            content.write('\n');
        }
        byte[] bytes = content.toByteArray();
        try {
            put(store, path, bytes);
        } catch (IOException refused) {
            byte[] found = read(store, path);
            if (found == null) {
                throw refused;
            }
            // The answer to a put that succeeded may be lost: the client puts again and is refused.
            if (!Arrays.equals(found, bytes)) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }
    }

    /** Writes a file whole, unless one of its name exists when the content has arrived. */
    private static void put(FileSystem store, Path path, byte[] bytes) throws IOException {
        FSDataOutputStreamBuilder<?, ?> builder = store.createFile(path);
        builder.recursive();
        builder.overwrite(true);
        builder.must(CONDITIONAL, true);
        // janino, which compiles this at set-up, knows no bound of a type variable.
        Object built = builder.build();
        FSDataOutputStream out = (FSDataOutputStream) built;
        try {
            out.write(bytes);
        } finally {
            out.close();
        }
    }

    /** Refuses to commit to a table whose lease is another process's. */
    private static void requireLease(FileSystem store, Path commit, String owner)
            throws IOException {
        Path table = commit.getParent().getParent();
        Path root = table.getParent().getParent();
        if (root == null) {
            return;
        }
        String name = table.getParent().getName() + "." + table.getName();
        byte[] lease = readUnchanged(store, new Path(root, "_leases/" + name + ".json"));
        if (lease == null) {
            return;
        }
        String text = new String(lease, StandardCharsets.UTF_8);
        if (text.indexOf("\"owner\": \"" + owner + "\"") < 0) {
            throw new IllegalStateException("MEDALLION_LEASE_LOST " + name + " " + text);
        }
    }

    /**
     * The content of a file that another process may put again at any time; null where there is
     * none. S3A refuses to read on where the file has changed since its opening.
     */
    private static byte[] readUnchanged(FileSystem store, Path path) throws IOException {
        for (int attempt = 1; ; attempt++) {
            try {
                return read(store, path);
            } catch (IOException changed) {
                if (attempt == ATTEMPTS) {
                    throw changed;
                }
            }
        }
    }

    /** The content of a file; null where there is none. */
    private static byte[] read(FileSystem store, Path path) throws IOException {
        FSDataInputStream in;
        try {
            in = store.open(path);
        } catch (FileNotFoundException missing) {
            return null;
        }
        try {
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            byte[] part = new byte[8192];
            int size = in.read(part);
            while (size >= 0) {
                content.write(part, 0, size);
                size = in.read(part);
            }
            return content.toByteArray();
        } finally {
            in.close();
        }
    }
}
