package medallion.disk;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Flushes files and folders to the disk, so that a write that was reported as done survives a power
 * cut.
 */
final class Durable {
    private static final boolean ON = !Boolean.getBoolean("medallion.disk.volatile");

    private Durable() {}

    static void file(Path path) throws IOException {
        force(path, StandardOpenOption.WRITE);
    }

    static void folder(Path path) throws IOException {
        force(path, StandardOpenOption.READ);
    }

    private static void force(Path path, OpenOption access) throws IOException {
        if (!ON) {
            return;
        }
        FileChannel channel = FileChannel.open(path, new OpenOption[] {access});
        try {
            channel.force(true);
        } finally {
            channel.close();
        }
    }
}
