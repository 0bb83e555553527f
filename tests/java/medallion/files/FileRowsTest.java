package medallion.files;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Map;

/** A file that changes between two records of a task. */
class FileRowsTest {
    private static final int ROWS = 30000;
    private static final Configuration CONF = new Configuration();

    @TempDir private Path folder;
    private String name = "1.jsonl";
    private String typed = "1.jsonl";
    private Path file;
    private long offered;

    private FileRows rows(boolean isWhole) throws IOException {
        file = folder.resolve(name);
        Files.writeString(file, text(0));
        Files.setLastModifiedTime(file, FileTime.fromMillis(1_000_123L));
        Map<String, String> given =
                Map.of(
                        "path", folder.toString(),
                        "topic", "files:x",
                        "list", "none",
                        "format", "jsonl",
                        "header", "false",
                        "maxRows", "10",
                        "lookMs", "1");
        FileOptions options = new FileOptions(new CaseInsensitiveStringMap(given));
        Cuts cuts = new Cuts();
        long rows = options.files.count(new org.apache.hadoop.fs.Path(file.toUri()), CONF, cuts);
        ListedFile listed =
                new ListedFile(name, Files.size(file), 1_000_123L, 0L, rows, cuts.places(), "");
        FilePart part = new FilePart();
        part.add(new FilePart.Slice(listed, 0L, isWhole ? ROWS : ROWS / 2));
        return new FileRows(part, options, CONF);
    }

    /** As many bytes for each number. */
    private static String text(int more) {
        StringBuilder text = new StringBuilder();
        for (int row = 0; row < ROWS; row++) {
            text.append(1_000_000 + row + more).append('\n');
        }
        return text.toString();
    }

    private void first(FileRows rows) throws IOException {
        assertTrue(rows.next());
        assertEquals(0L, rows.get().getLong(4));
        offered = 1L;
    }

    private void read(FileRows rows) throws IOException {
        while (rows.next()) {
            assertEquals(offered, rows.get().getLong(4));
            offered++;
        }
        rows.close();
    }

    private void stops(FileRows rows, String what) {
        FileSourceException error =
                assertThrows(FileSourceException.class, () -> read(rows), () -> offered + " rows");
        assertTrue(error.getMessage().contains(": " + name + " " + what), error.getMessage());
        assertTrue(error.getMessage().endsWith("medallion files skip " + typed + " --why REASON"));
        assertTrue(offered < ROWS / 2);
    }

    @Test
    void aFileThatStaysIsRead() throws IOException {
        read(rows(true));
        assertEquals(ROWS, offered);
    }

    @Test
    void aStoreMayTellWholeSeconds() throws IOException {
        FileRows rows = rows(false);
        Files.setLastModifiedTime(file, FileTime.fromMillis(1_000_000L));
        read(rows);
        assertEquals(ROWS / 2, offered);
    }

    @Test
    void aChangeBeforeTheFirstRecordStops() throws IOException {
        FileRows rows = rows(false);
        Files.writeString(file, text(1));
        stops(rows, "was modified at ");
        assertEquals(0L, offered);
    }

    @Test
    void aChangeWhileRecordsAreReadStops() throws IOException {
        FileRows rows = rows(false);
        first(rows);
        Files.writeString(file, text(1));
        stops(rows, "was modified at ");
    }

    @Test
    void aFileThatIsCutOffWhileItIsReadStops() throws IOException {
        FileRows rows = rows(true);
        first(rows);
        Files.writeString(file, "1\n");
        FileSourceException error = assertThrows(FileSourceException.class, () -> read(rows));
        assertTrue(error.getMessage().contains(": 1.jsonl has 2 bytes now, and had "));
    }

    @Test
    void aFileThatGrowsWhileItIsReadStops() throws IOException {
        FileRows rows = rows(false);
        first(rows);
        Files.writeString(file, text(0) + "1\n");
        stops(rows, "has ");
    }

    @Test
    void aFileThatIsGoneWhileItIsReadStops() throws IOException {
        FileRows rows = rows(false);
        first(rows);
        Files.delete(file);
        stops(rows, "is not there any more");
    }

    @Test
    void theCommandCanBeTypedForAnyName() throws IOException {
        name = "it's $1 größe.jsonl";
        typed = "it\\'s\\ \\$1\\ größe.jsonl";
        FileRows rows = rows(false);
        Files.delete(file);
        stops(rows, "is not there any more");
    }
}
