package medallion.registry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** What is kept of a registry whose producers never cease to register schemas. */
class SchemaRegistryTest {
    /** The text of a file is its schema; how often each was read is counted. */
    private static final class Texts implements SchemaFormat {
        final Map<String, Integer> reads = new HashMap<>();

        public String kind() {
            return "TEXT";
        }

        public String ending() {
            return ".txt";
        }

        public String query() {
            return "";
        }

        public Object ofFile(byte[] content) {
            String text = new String(content, StandardCharsets.UTF_8);
            reads.merge(text, 1, Integer::sum);
            return text;
        }

        @SuppressWarnings("rawtypes") // the jar that janino compiles has no type arguments
        public Object ofTexts(Map texts) {
            return null;
        }
    }

    @Test
    void aThousandSchemasAreKeptAndTheOnesInUseAreAmongThem(@TempDir Path folder)
            throws IOException {
        Texts texts = new Texts();
        SchemaRegistry registry = SchemaRegistry.at(folder.toString(), "", texts);
        for (int id = 1; id <= 3000; id++) {
            Files.writeString(folder.resolve(id + ".txt"), "schema " + id);
            assertEquals("schema " + id, registry.schema(id));
            assertEquals("schema 1", registry.schema(1));
            assertTrue(registry.kept() <= 1000, "kept: " + registry.kept());
        }
        assertEquals(1, texts.reads.get("schema 1"));
        assertEquals("schema 2", registry.schema(2));
        assertEquals(2, texts.reads.get("schema 2"));
    }
}
