package medallion;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.lang.reflect.Field;
import java.util.Map;

/** JSON objects and Debezium's envelopes. */
class JsonReaderTest {
    private static final String NESTED =
            "id string, o struct<x: int, p: struct<y: int>>, a array<struct<q: int>>,"
                    + " m map<string, struct<r: int>>";
    private static final String PLAIN = Reading.spec("json", NESTED, "");
    private static final String RESCUING = Reading.spec("json", NESTED, "'rescue':true");

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            nullValues = "none",
            textBlock =
                    """
                    {"id":"a","o":{"x":1,"p":{"y":2}},"a":[{"q":1}],"m":{"k":{"r":1}}} | none
                    {"id":"a","new":1.10} | {"new":1.10}
                    { "new" : [ 1 , {"b" : "\\u0041"} ] ,"id":"a"} | {"new":[ 1 , {"b" : "\\u0041"} ]}
                    {"new":1,"o":{"x":1,"z":2,"p":{"w":null,"y":1}},"last":{}} | {"new":1,"o":{"z":2,"p":{"w":null}},"last":{}}
                    {"a":[{"q":1},{"q":2,"z":3},null,{"z":4}]} | {"a":[null,{"z":3},null,{"z":4}]}
                    {"m":{"k":{"r":1},"l":{"r":1,"s":2},"m":null}} | {"m":{"l":{"s":2}}}
                    {"ID":"a"} | {"ID":"a"}
                    {"n\\u0065w":"\\ud83c\\udf0d"} | {"n\\u0065w":"\\ud83c\\udf0d"}
                    {"id":{"new":1}} | none
                    {"o":null,"a":[],"m":{}} | none
                    """)
    void unknownFieldsAreRescuedAtTheirPlaceAsTheyWereWritten(String value, String expected) {
        assertEquals(expected, Reading.rescued(RESCUING, value));
        assertNull(Reading.rescued(PLAIN, value));
        assertEquals(Reading.read(PLAIN, value), Reading.read(RESCUING, value));
    }

    @Test
    void nothingIsRescuedOfAValueWithAFault() {
        String value = "{\"new\":1,\"o\":{\"x\":\"wrong\"}}";
        assertNull(Reading.rescued(RESCUING, value));
        assertEquals("wrong_type at o.x", Reading.read(RESCUING, value));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    {"o":{"x":"1"}} | wrong_type at o.x
                    {"o":{"p":{"y":1.5}}} | wrong_type at o.p.y
                    {"o":5} | wrong_type at o
                    {"a":[{"q":1},{"q":"x"}]} | wrong_type at a.element.q
                    {"m":{"k":{"r":1},"secret":{"r":"x"}}} | wrong_type at m.value.r
                    {"o":{"x":1,"x":2}} | duplicate_key at o.x
                    {"new":1,"new":2} | duplicate_key
                    {"o":{"secret":{"b":tru}}} | malformed_json at o
                    {"id":"\\ud800"} | bad_unicode at id
                    {"id":"x" | malformed_json
                    {"o":{"x":"1"},"id":NaN} | non_finite_number at id
                    {"o":{"x":99999999999},"a":1} | number_out_of_range at o.x
                    """)
    void aFaultNamesTheDeclaredFieldAndNothingOfThePayload(String value, String expected) {
        assertEquals(expected, Reading.read(PLAIN, value));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    {"id":"a","o":{"x":1},"n":1} | (a, (1), 1)
                    {"o":{"x":1},"n":1} | missing_required at id
                    {"id":null,"o":{"x":1},"n":1} | missing_required at id
                    {"id":"a","o":{},"n":1} | missing_required at o.x
                    {"id":"a","o":null,"n":1} | missing_required at o.x
                    {"ID":"a","o":{"x":1},"n":1} | missing_required at id
                    {"id":"a","o":{"x":1}} | missing_required at n
                    {"o":{"x":"1"}} | wrong_type at o.x
                    """)
    void requiredFieldsAreThereAndNotNull(String value, String expected) {
        String ddl = "id string, o struct<x: int>, n int not null";
        String spec = Reading.spec("json", ddl, "'required':['id','o.x']");
        assertEquals(expected, Reading.read(spec, value));
    }

    @Test
    void limitsOfSizeAndDepthAreTheDeclaredOnes() {
        String spec = Reading.spec("json", "id string", "'max_bytes':13,'max_depth':2");
        assertEquals("(abcd)", Reading.read(spec, "{\"id\":\"abcd\"}"));
        assertEquals("too_large", Reading.read(spec, "{\"id\":\"abcde\"}"));
        assertEquals("(null)", Reading.read(spec, "{\"x\":[]}"));
        assertEquals("too_deep", Reading.read(spec, "{\"x\":[[]]}"));
    }

    @Test
    void timesWithoutAnOffsetAreUtcWhereTheDeclarationSaysSo() {
        String utc = Reading.spec("json", "at timestamp", "'timestamps':'utc'");
        String offset = Reading.spec("json", "at timestamp", "");
        assertEquals("(3600000000)", Reading.read(utc, "{\"at\":\"1970-01-01T01:00:00\"}"));
        assertEquals("(0)", Reading.read(utc, "{\"at\":\"1970-01-01T01:00:00+01:00\"}"));
        assertEquals(
                "timestamp_without_offset at at",
                Reading.read(offset, "{\"at\":\"1970-01-01T01:00:00\"}"));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    {"a.b":"x","ü":1,"c":"é","v":"漢漢漢"} | (x, 1, é, 漢漢漢, null)
                    {"\\u00fc":2,"v":"abcd"} | wrong_type at v
                    {"c":1.5} | wrong_type at c
                    {"q\\"r":1} | (null, null, null, null, 1)
                    {"q"r":1} | malformed_json
                    """)
    void namesAndTextsOfBoundedLength(String value, String expected) {
        String ddl = "`a.b` string, `ü` int, c char(2), v varchar(3), `q\"r` int";
        assertEquals(expected, Reading.read(Reading.spec("json", ddl, ""), value));
    }

    private static final String EVENT =
            "{\"before\":null,\"after\":{\"id\":1,\"x\":2},\"op\":\"c\",\"source\":{\"db\":\"d\",\"y\":3}}";
    private static final String ENVELOPE =
            "before struct<id: bigint>, after struct<id: bigint>, op string, source struct<db:"
                    + " string>";

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    EVENT | (null, (1), c, (d))
                    {"schema":{"fields":[{"field":"op"}]},"payload":EVENT} | (null, (1), c, (d))
                    { "payload" : EVENT, "schema":{}} | (null, (1), c, (d))
                    {"payload":EVENT} | (null, (1), c, (d))
                    {"schema":{"type":"struct"}} | missing_required at op
                    {"schema":null,"payload":null} | missing_required at op
                    {"schema":null,"payload":5} | wrong_type
                    {"payload":{"op":"c"},"payload":{"op":"d"}} | duplicate_key
                    {"payload":{"op":"c"} | malformed_json
                    {"payload":{"op":"c"}}x | trailing_data
                    {"id":1,"name":"a"} | missing_required at op
                    {"op":"d","before":{"id":"1"}} | wrong_type at before.id
                    {} | missing_required at op
                    [] | not_an_object
                    """)
    void anEnvelopeIsReadWithAndWithoutItsSchema(String value, String expected) {
        String spec = Reading.spec("debezium", ENVELOPE, "'required':['op']");
        assertEquals(expected, Reading.read(spec, value.replace("EVENT", EVENT)));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    EVENT | {"after":{"x":2},"source":{"y":3}}
                    {"schema":{"a":1},"payload":EVENT} | {"after":{"x":2},"source":{"y":3}}
                    {"schema":{"a":1},"payload":{"op":"c","after":{"x":2}},"new":1} | {"after":{"x":2},"new":1}
                    {"op":"c","new":1} | {"new":1}
                    """)
    void unknownFieldsOfAnEnvelopeAreRescuedFromItsPayload(String value, String expected) {
        String spec = Reading.spec("debezium", ENVELOPE, "'rescue':true");
        assertEquals(expected, Reading.rescued(spec, value.replace("EVENT", EVENT)));
    }

    /** A process that lives long, and whose declarations change, keeps the last ones. */
    @Test
    void moreDeclarationsThanAreKeptAreRead() throws ReflectiveOperationException {
        Field kept = ValueReader.class.getDeclaredField("SPECS");
        kept.setAccessible(true);
        for (int i = 0; i < 2500; i++) {
            String spec = Reading.spec("json", "a" + i + " int", "");
            assertEquals("(" + i + ")", Reading.read(spec, "{\"a" + i + "\":" + i + "}"));
            int size = ((Map<?, ?>) kept.get(null)).size();
            assertTrue(size <= 1000, "kept: " + size);
        }
    }
}
