package medallion.disk;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Waits until the disk has what was written: after a power cut it is there, or it never was. */
final class Durable {
    private static final boolean ON = !Boolean.getBoolean("medallion.disk.volatile");

    private Durable() {}

    static void file(Path path) throws IOException {
        force(path, StandardOpenOption.WRITE);
    }

    static void folder(Path path) throws IOException {
        force(path, StandardOpenOption.READ);
    }

    private static void force(Path path, OpenOption how) throws IOException {
        if (!ON) {
            return;
        }
        FileChannel channel = FileChannel.open(path, new OpenOption[] {how});
        try {
            channel.force(true);
        } finally {
            channel.close();
        }
    }
}
