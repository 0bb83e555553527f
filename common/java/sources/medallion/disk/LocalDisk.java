package medallion.disk;

import org.apache.hadoop.fs.FileStatus;
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
 * The local disk, by system calls. Hadoop's own asks chmod, ls and readlink, a process each,
 * several per file.
 *
 * <p>A file is renamed by a hard link, so that of two who rename to one name one is told that it is
 * taken.
 */
public class LocalDisk extends RawLocalFileSystem {
    private static final LinkOption[] FOLLOW = {};
    private static final LinkOption[] THE_LINK_ITSELF = {LinkOption.NOFOLLOW_LINKS};

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        Set<PosixFilePermission> wanted = EnumSet.noneOf(PosixFilePermission.class);
        grant(
                wanted,
                permission.getUserAction(),
                PosixFilePermission.OWNER_READ,
                PosixFilePermission.OWNER_WRITE,
                PosixFilePermission.OWNER_EXECUTE);
        grant(
                wanted,
                permission.getGroupAction(),
                PosixFilePermission.GROUP_READ,
                PosixFilePermission.GROUP_WRITE,
                PosixFilePermission.GROUP_EXECUTE);
        grant(
                wanted,
                permission.getOtherAction(),
                PosixFilePermission.OTHERS_READ,
                PosixFilePermission.OTHERS_WRITE,
                PosixFilePermission.OTHERS_EXECUTE);
        Files.setPosixFilePermissions(pathToFile(path).toPath(), wanted);
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

    /** Give a file another name; it is on the disk, under that name, once this returns. */
    static void link(File source, File target) throws IOException {
        Durable.file(source.toPath());
        try {
            Files.createLink(target.toPath(), source.toPath());
        } catch (FileAlreadyExistsException taken) {
            throw taken;
        } catch (UnsupportedOperationException none) {
            moved(source, target);
        } catch (FileSystemException none) {
            moved(source, target);
        }
        Files.deleteIfExists(source.toPath());
        Durable.folder(target.toPath().getParent());
    }

    /** On a disk without hard links: what is left is to look first. */
    private static void moved(File source, File target) throws IOException {
        if (target.exists()) {
            throw new FileAlreadyExistsException(target.getPath());
        }
        Files.move(source.toPath(), target.toPath(), new CopyOption[0]);
    }

    private FileStatus status(Path path, LinkOption[] links) throws IOException {
        PosixFileAttributes found;
        File file = pathToFile(path);
        try {
            Object read = Files.readAttributes(file.toPath(), PosixFileAttributes.class, links);
            found = (PosixFileAttributes) read;
        } catch (NoSuchFileException missing) {
            throw new FileNotFoundException("File " + path + " does not exist");
        } catch (FileSystemException odd) {
            // A file where a folder should be on the way to it: for whoever asks, it is not there.
            throw (IOException)
                    new FileNotFoundException("File " + path + " does not exist").initCause(odd);
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
