package medallion.disk;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.CopyOption;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;

/**
 * The local disk, by system calls. Hadoop's own file system starts chmod, ls and readlink as
 * processes, several per file.
 *
 * <p>A file is renamed by a hard link: if two processes rename a file to the same name, one of them
 * fails and the file of the other is not replaced.
 */
public class LocalDisk extends RawLocalFileSystem {
    private static final LinkOption[] FOLLOW = {};
    private static final LinkOption[] THE_LINK_ITSELF = {LinkOption.NOFOLLOW_LINKS};

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        Set<PosixFilePermission> granted = EnumSet.noneOf(PosixFilePermission.class);
        grant(
                granted,
                permission.getUserAction(),
                PosixFilePermission.OWNER_READ,
                PosixFilePermission.OWNER_WRITE,
                PosixFilePermission.OWNER_EXECUTE);
        grant(
                granted,
                permission.getGroupAction(),
                PosixFilePermission.GROUP_READ,
                PosixFilePermission.GROUP_WRITE,
                PosixFilePermission.GROUP_EXECUTE);
        grant(
                granted,
                permission.getOtherAction(),
                PosixFilePermission.OTHERS_READ,
                PosixFilePermission.OTHERS_WRITE,
                PosixFilePermission.OTHERS_EXECUTE);
        Files.setPosixFilePermissions(pathToFile(path).toPath(), granted);
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        return status(path, FOLLOW);
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
        return status(path, THE_LINK_ITSELF);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        File source = pathToFile(from);
        File target = pathToFile(to);
        if (!source.isFile() || target.isDirectory()) {
            return super.rename(from, to);
        }
        try {
            link(source, target);
            return true;
        } catch (FileAlreadyExistsException taken) {
            return false;
        }
    }

    /** Renames a file; once this method returns, the disk has the file under the new name. */
    static void link(File source, File target) throws IOException {
        Durable.file(source.toPath());
        try {
            Files.createLink(target.toPath(), source.toPath());
        } catch (FileAlreadyExistsException taken) {
            throw taken;
        } catch (UnsupportedOperationException unsupported) {
            moveWithoutLink(source, target);
        } catch (FileSystemException unsupported) {
            moveWithoutLink(source, target);
        }
        Files.deleteIfExists(source.toPath());
        Durable.folder(target.toPath().getParent());
    }

    /**
     * Renames on a disk without hard links. Another process may create the target after the check.
     */
    private static void moveWithoutLink(File source, File target) throws IOException {
        if (target.exists()) {
            throw new FileAlreadyExistsException(target.getPath());
        }
        Files.move(source.toPath(), target.toPath(), new CopyOption[0]);
    }

    /**
     * Copies a file of this disk to this disk, for Spark's snapshots of a query's state. Hadoop's
     * own method takes every file system of {@code file:} for its own class.
     */
    @Override
    public void copyFromLocalFile(boolean move, boolean overwrite, Path from, Path to)
            throws IOException {
        FileUtil.copy(this, from, this, to, move, overwrite, getConf());
        File target = pathToFile(to);
        if (target.isFile()) {
            Durable.file(target.toPath());
            Durable.folder(target.toPath().getParent());
        }
    }

    @Override
    public void copyToLocalFile(boolean move, Path from, Path to, boolean raw) throws IOException {
        FileUtil.copy(this, from, this, to, move, getConf());
    }

    private FileStatus status(Path path, LinkOption[] links) throws IOException {
        PosixFileAttributes found;
        File file = pathToFile(path);
        try {
            Object read = Files.readAttributes(file.toPath(), PosixFileAttributes.class, links);
            found = (PosixFileAttributes) read;
        } catch (NoSuchFileException missing) {
            throw new FileNotFoundException("File " + path + " does not exist");
        } catch (FileSystemException refused) {
            // Such as a file in the path where a folder is expected: the path does not exist.
            throw (IOException)
                    new FileNotFoundException("File " + path + " does not exist")
                            .initCause(refused);
        }
        return new FileStatus(
                found.isDirectory() ? 0L : found.size(),
                found.isDirectory(),
                1,
                getDefaultBlockSize(path),
                found.lastModifiedTime().toMillis(),
                found.lastAccessTime().toMillis(),
                permission(found.permissions()),
                found.owner().getName(),
                found.group().getName(),
                found.isSymbolicLink()
                        ? new Path(Files.readSymbolicLink(file.toPath()).toString())
                        : null,
                path.makeQualified(getUri(), getWorkingDirectory()));
    }

    private static FsPermission permission(Set<PosixFilePermission> found) {
        int bits = 0;
        for (PosixFilePermission each : found) {
            // OWNER_READ is the first of nine, in the order of their bits.
            bits |= 256 >> each.ordinal();
        }
        return new FsPermission((short) bits);
    }

    private static void grant(
            Set<PosixFilePermission> to,
            FsAction action,
            PosixFilePermission read,
            PosixFilePermission write,
            PosixFilePermission execute) {
        if (action.implies(FsAction.READ)) {
            to.add(read);
        }
        if (action.implies(FsAction.WRITE)) {
            to.add(write);
        }
        if (action.implies(FsAction.EXECUTE)) {
            to.add(execute);
        }
    }
}
