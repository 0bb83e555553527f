package medallion;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Arrays each of whose elements becomes a row. */
class ElementsTest {
    private static final String DDL =
            "id string, n int, a array<struct<q: int, r: string>>,"
                    + " o struct<x: int, p: array<struct<k: string, a: array<int>, w: int>>>";
    private static final String PLAIN = Reading.spec("json", DDL, "'each':['a']");
    private static final String NESTED = Reading.spec("json", DDL, "'each':['o','p','a']");

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            emptyValue = "",
            textBlock =
                    """
                    {"a":[{"q":1},{"r":"x","q":2}]} | (1, null) <- {"q":1}; (2, x) <- {"r":"x","q":2}
                    {"a": [ {"q": 1 } , null ,7] } | (1, null) <- {"q": 1 }; null <- null; wrong_type at a <- 7
                    {"a":[{"q":"1"},{"q":2,"new":{}}]} | wrong_type at a.q <- {"q":"1"}; (2, null) <- {"q":2,"new":{}}
                    {"a":[{"q":"1","r":"\\ud800"}]} | bad_unicode at a.r
                    {"a":[{"q":1,"q":2}]} | duplicate_key at a.q
                    {"a":[{"q":1},{"q"]} | malformed_json at a.q
                    {"a":{"q":1}} | wrong_type at a
                    {"a":[{"q":1}],"n":"x"} | wrong_type at n
                    {"n":"x","a":[{"q":"y"}]} | wrong_type at n
                    {"a":[{"q":"y"}],"n":"x"} | wrong_type at n
                    {"a":[{"q":1}]} x | trailing_data
                    """)
    void eachElementHasItsBytesAndPerhapsAFaultOfItsOwn(String value, String expected) {
        assertEquals(expected, Reading.elements(PLAIN, value));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    {"id":"i","a":[{"q":"wrong"}]} | (i, null, null, null)
                    {"id":"i","a":[]} | (i, null, null, null)
                    {"id":"i"} | (i, null, null, null)
                    """)
    void theRecordHasItsOtherFields(String value, String expected) {
        assertEquals(expected, Reading.read(PLAIN, value));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    {"o":{"x":1,"p":[{"k":"a","a":[1,2]},null,{"a":[],"k":"b"},{"a":["z",3],"k":"c","w":9}]}} | (1, (a, 1, null)) <- 1; (1, (a, 2, null)) <- 2; wrong_type at o.p.a <- "z"; (1, (c, 3, 9)) <- 3
                    {"o":{"p":[{"a":[1],"w":"x"}]}} | wrong_type at o.p.w
                    {"o":{"p":[{"a":{}}]}} | wrong_type at o.p.a
                    """)
    void aPathLeadsThroughArrays(String value, String expected) {
        assertEquals(expected, Reading.elements(NESTED, value));
    }

    @Test
    void aRecordWithoutElementsHasNone() {
        for (String value : new String[] {"{}", "{\"a\":null}", "{\"a\":[]}"}) {
            assertEquals("", Reading.elements(PLAIN, value));
        }
        for (String value :
                new String[] {"{}", "{\"o\":null}", "{\"o\":{\"p\":[]}}", "{\"o\":{\"p\":[{}]}}"}) {
            assertEquals("", Reading.elements(NESTED, value));
        }
    }

    @Test
    void aRequiredArrayMustBeThere() {
        String spec = Reading.spec("json", DDL, "'each':['a'],'required':['a','id']");
        assertEquals("missing_required at a", Reading.elements(spec, "{\"id\":\"i\"}"));
        assertEquals("", Reading.elements(spec, "{\"id\":\"i\",\"a\":[]}"));
        String strict =
                Reading.spec("json", "a array<struct<q: int not null>> not null", "'each':['a']");
        assertEquals("missing_required at a", Reading.elements(strict, "{}"));
        assertEquals("missing_required at a.q <- {}", Reading.elements(strict, "{\"a\":[{}]}"));
    }

    @Test
    void aPathThatLeadsToNoArrayIsRefused() {
        for (String path : new String[] {"['id']", "['b']", "['a','z']", "['o']"}) {
            String spec = Reading.spec("json", DDL, "'each':" + path);
            assertThrows(IllegalArgumentException.class, () -> Reading.elements(spec, "{}"));
        }
    }
}
