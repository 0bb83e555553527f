package medallion.files;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import org.junit.jupiter.api.Test;

/** What folders say of the files below them. */
class FolderColumnsTest {
    private static void says(String path, String... expected) {
        assertArrayEquals(expected, FolderColumns.of(path), path);
    }

    @Test
    void aFolderWithASignIsAColumn() {
        says("day=2026-01-01/shop=7/1.jsonl", "day", "2026-01-01", "shop", "7");
        says("export/day=1/later/1.jsonl", "day", "1");
        says("formula=a=b/1.jsonl", "formula", "a=b");
        says("empty=/1.jsonl", "empty", "");
    }

    @Test
    void theFileItselfAndOtherFoldersAreNone() {
        says("day=1");
        says("a/b/day=1.jsonl");
        says("=1/1.jsonl");
    }

    @Test
    void theInnermostOfEqualNamesCounts() {
        says("day=1/day=2/1.jsonl", "day", "2");
    }

    @Test
    void namesOfOtherHeadersAreNone() {
        says("path=1/row=2/x=3/1.jsonl", "x", "3");
    }

    @Test
    void signsThatAreWrittenAsNumbersAreRead() {
        says("a%3Ab=c%2Fd%C3%A9/1.jsonl", "a:b", "c/dé");
        says("x=100%/1.jsonl", "x", "100%");
        says("x=%zz%4/1.jsonl", "x", "%zz%4");
        says("x=é%25/1.jsonl", "x", "é%");
    }

    @Test
    void aFolderSaysNull() {
        says("day=__HIVE_DEFAULT_PARTITION__/1.jsonl", "day", (String) null);
    }
}
