package medallion.files;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.Map;

/** What a look finds is counted as it is then, or not at all. */
class FileStreamTest {
    @TempDir private Path folder;
    private FileStream stream;
    private Map<String, String> more = Map.of();

    @BeforeEach
    void start() {
        Map<String, String> required =
                Map.of(
                        "path", folder.resolve("export").toString(),
                        "topic", "files:x",
                        "list", folder.resolve("list").toString(),
                        "format", "jsonl",
                        "header", "false",
                        "maxRows", "3",
                        "lookMs", "0");
        Map<String, String> given = new HashMap<>(required);
        given.putAll(more);
        FileOptions options = new FileOptions(new CaseInsensitiveStringMap(given));
        stream = new FileStream(options, new Configuration());
    }

    private void write(String name, String text, long modified) throws IOException {
        Path file = folder.resolve("export").resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, text);
        Files.setLastModifiedTime(file, FileTime.fromMillis(modified));
    }

    private long after(long start) {
        Offset from = new FileOffset("files:x", start);
        Offset found = stream.latestOffset(from, ReadLimit.allAvailable());
        return ((FileOffset) found).rows;
    }

    @Test
    void aFileThatChangesBeforeItIsCountedIsFoundAgain() throws IOException {
        write("1.jsonl", "1\n2\n3\n", 5000L);
        write("2.jsonl", "4\n5\n", 5000L);
        assertEquals(3L, after(0L));
        write("2.jsonl", "4\n5\n6\n", 9000L);
        assertEquals(3L, after(3L));
        assertEquals(6L, after(3L));
    }

    @Test
    void aFileThatIsGoneBeforeItIsCountedIsNone() throws IOException {
        write("1.jsonl", "1\n2\n3\n", 5000L);
        write("2.jsonl", "4\n5\n", 5000L);
        assertEquals(3L, after(0L));
        Files.delete(folder.resolve("export").resolve("2.jsonl"));
        assertEquals(3L, after(3L));
    }

    @Test
    void aMicroBatchGoesToTheEndOfSkippedRecordsAndOn() throws IOException {
        write("1.jsonl", "1\n2\n", 5000L);
        write("2.jsonl", "3\n4\n5\n6\n7\n8\n9\n", 5000L);
        write("3.jsonl", "10\n11\n12\n13\n", 5000L);
        assertEquals(3L, after(0L));
        String skipped = "{\"skipped\":\"2.jsonl\",\"offset\":3,\"rows\":6,\"why\":\"no\"}\n";
        Files.writeString(folder.resolve("list/00000000000000000001.jsonl"), skipped);
        start();
        assertEquals(12L, after(3L));
        assertEquals(3, planned(3L, 12L));
        assertEquals(1, planned(2L, 9L));
        assertEquals(13L, after(12L));
    }

    @Test
    void aFileThatIsNewerComesBeforeThoseThatWait() throws IOException {
        more = Map.of("latestFirst", "true", "maxAge", "1 second", "maxAgeMs", "4000");
        start();
        write("1.jsonl", "1\n2\n3\n", 5000L);
        write("2.jsonl", "4\n5\n6\n", 6000L);
        assertEquals(3L, after(0L));
        write("3.jsonl", "7\n8\n9\n", 10000L);
        assertEquals(6L, after(3L));
        String list = Files.readString(folder.resolve("list/00000000000000000001.jsonl"));
        assertEquals("3.jsonl", list.split("\"")[3]);
        // What waited is too old now, beside the file that came.
        assertEquals(6L, after(6L));
        list = Files.readString(folder.resolve("list/00000000000000000001.jsonl"));
        assertEquals(1, list.split("left_out").length - 1);
    }

    private int planned(long from, long until) {
        int rows = 0;
        Offset start = new FileOffset("files:x", from);
        Offset end = new FileOffset("files:x", until);
        for (InputPartition part : stream.planInputPartitions(start, end)) {
            rows += (int) ((FilePart) part).rows;
        }
        return rows;
    }
}
