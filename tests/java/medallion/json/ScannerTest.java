package medallion.json;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import medallion.faults.Fault;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.nio.charset.StandardCharsets;

/** JSON by RFC 8259, and nothing else. */
class ScannerTest {
    private static final class Plain extends Scanner {
        Plain(int maxDepth) {
            super(maxDepth);
        }
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(
            strings = {
                "{}",
                "[]",
                " \t\r\n{ } ",
                "null",
                "true",
                "false",
                "0",
                "-0.0e-0",
                "1E+5",
                "\"\"",
                "\"a\u007f\u2028\"",
                "{\"a\":{\"a\":[1,{\"a\":1},[]]},\"b\":1}",
                "[\"\\ud83c\\udf0d\"]",
                "{\"\":1}",
                "{\"a\":1,\"A\":1}",
                "[1 , 2\n]"
            })
    void documents(String text) {
        assertEquals("", skipped(text, 64));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    { | malformed_json
                    {"s":1 | malformed_json
                    {"s":1,} | malformed_json
                    {s:1} | malformed_json
                    {'s':1} | malformed_json
                    {"s" 1} | malformed_json
                    {"s":} | malformed_json
                    {,"s":1} | malformed_json
                    {"s":1 /* c */} | malformed_json
                    {"s"::1} | malformed_json
                    {1:1} | malformed_json
                    [1,] | malformed_json
                    [,1] | malformed_json
                    [1 2] | malformed_json
                    [1} | malformed_json
                    ] | malformed_json
                    nul | malformed_json
                    nulL | malformed_json
                    True | malformed_json
                    "a | malformed_json
                    'a' | malformed_json
                    "\\x41" | malformed_json
                    "\\u00g0" | malformed_json
                    "\\u004" | malformed_json
                    "\\u００41" | malformed_json
                    "\\ | malformed_json
                    "\\u | malformed_json
                    01 | trailing_data
                    +1 | malformed_json
                    1. | malformed_json
                    .5 | malformed_json
                    - | malformed_json
                    -x | malformed_json
                    1_000 | trailing_data
                    {} {} | trailing_data
                    {}// | trailing_data
                    truely | trailing_data
                    NaN | non_finite_number
                    -Infinity | non_finite_number
                    [Infinity] | non_finite_number
                    {"a":1,"a":1} | duplicate_key
                    {"a":1,"\\u0061":1} | duplicate_key
                    {"b":{"a":1,"c":1,"a":1}} | duplicate_key
                    "\\ud800" | bad_unicode
                    "\\udc00\\ud800" | bad_unicode
                    "\\ud800\\u0041" | bad_unicode
                    "\\ud83c\\ud83c\\udf0d" | bad_unicode
                    "\\ud83cx" | bad_unicode
                    {"\\ud800":1} | bad_unicode
                    """)
    void noDocuments(String text, String reason) {
        assertEquals(
                reason.equals("trailing_data") ? "1" : reason, first(skipped(text, 64), reason));
    }

    /** What follows a document is the reader's to refuse: the scanner stops before it. */
    private static String first(String found, String reason) {
        return reason.equals("trailing_data") && !found.isEmpty() ? "1" : found;
    }

    @Test
    void controlCharactersStandInNoText() {
        for (char control = 0; control < 0x20; control++) {
            assertEquals("malformed_json", skipped("\"a" + control + "b\"", 64));
            assertEquals("malformed_json", skipped("\"abcdefgh" + control + "b\"", 64));
            boolean isBlank = " \t\r\n".indexOf(control) >= 0;
            assertEquals(isBlank ? "" : "malformed_json", skipped("[" + control + "1]", 64));
        }
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    "plain" | plain
                    "\\"\\\\\\/" | "\\/
                    "\\u0041\\u00e9\\u6f22\\ud83c\\udf0d" | Aé漢🌍
                    "long enough for a word, then \\u0041" | long enough for a word, then A
                    """)
    void textsComeOutWithoutTheirEscapes(String text, String expected) {
        assertEquals(expected, string(text));
    }

    @Test
    void shortEscapesAreTheirCharacters() {
        assertEquals("\b\f\n\r\t\0", string("\"\\b\\f\\n\\r\\t\\u0000\""));
    }

    @Test
    void levelsAreCounted() {
        assertEquals("", skipped("[".repeat(64) + "]".repeat(64), 64));
        assertEquals("too_deep", skipped("[".repeat(65) + "]".repeat(65), 64));
        assertEquals("", skipped("[[],[],{\"a\":[]}]", 3));
        assertEquals("too_deep", skipped("[[],[],{\"a\":[[]]}]", 3));
    }

    @Test
    void manyNamesOfOneHashAreToldApart() {
        StringBuilder names = new StringBuilder("{\"n\":1");
        for (int i = 0; i < 1 << 12; i++) {
            names.append(",\"");
            for (int bit = 0; bit < 12; bit++) {
                names.append((i >> bit & 1) == 0 ? "Aa" : "BB");
            }
            names.append("\":1");
        }
        assertEquals("", skipped(names + "}", 64));
        assertEquals("duplicate_key", skipped(names + ",\"" + "Aa".repeat(12) + "\":1}", 64));
    }

    /** The reason of the fault; else what stands after the value. */
    private static String skipped(String text, int maxDepth) {
        Plain scanner = new Plain(maxDepth);
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        scanner.open(bytes);
        try {
            scanner.skip();
        } catch (Fault fault) {
            return fault.reason;
        }
        scanner.peek();
        return new String(bytes, scanner.at, bytes.length - scanner.at, StandardCharsets.UTF_8);
    }

    private static String string(String text) {
        Plain scanner = new Plain(1);
        scanner.open(text.getBytes(StandardCharsets.UTF_8));
        scanner.string();
        int size = scanner.textTo - scanner.textFrom;
        return new String(scanner.text, scanner.textFrom, size, StandardCharsets.UTF_8);
    }

    @Test
    void aTextThatIsNoneIsRefused() {
        assertThrows(Fault.class, () -> string("1"));
    }
}
