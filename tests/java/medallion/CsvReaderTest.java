package medallion;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.nio.charset.StandardCharsets;

/** Lines and texts. Line ends and tabs are written as in Java. */
class CsvReaderTest {
    private static final String LINE =
            Reading.spec(
                    "csv",
                    "id string, n int, m decimal(5,2), d double, b boolean, day date, at timestamp",
                    "'required':['id']");

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    "a ""b"", c",5,1.50,0.5,true,1970-01-02,1970-01-01T00:00:01Z | (a "b", c, 5, 1.50, 0.5, true, 1, 1000000)
                    a,,,,,,\\r\\n | (a, null, null, null, null, null, null)
                    "\\n",,,,,,\\n | (\\n, null, null, null, null, null, null)
                    "",,,,,, | (, null, null, null, null, null, null)
                    \"""\",,,,,, | (", null, null, null, null, null, null)
                    "a\"""\"b","5",,,,, | (a""b, 5, null, null, null, null, null)
                    a,"",,,,, | wrong_type at n
                    ,1,,,,, | missing_required at id
                    a,1.0,,,,, | wrong_type at n
                    a, 1,,,,, | wrong_type at n
                    a,007,,,,, | wrong_type at n
                    a,99999999999,,,,, | number_out_of_range at n
                    a,1,1.999,,,, | number_rounded at m
                    a,1,1,NaN,,, | wrong_type at d
                    a,1,1,0.10000000000000001,,, | (a, 1, 1.00, 0.1, null, null, null)
                    a,1,1,0.1000000000000000055,,, | number_rounded at d
                    a,1,1,1e999,,, | non_finite_number at d
                    a,1,1,1,TRUE,, | wrong_type at b
                    a,1,1,1,true,today, | wrong_type at day
                    a,1,1,1,true,,2024-02-29T00:00:00 | timestamp_without_offset at at
                    a,1 | wrong_field_count
                    a,x,,,,,, | wrong_field_count
                    a"b,1,,,,, | malformed_csv at id
                    "a"b,1,,,,, | malformed_csv at id
                    "a,1,,,,, | malformed_csv at id
                    a,1,,,,,\\nb,2,,,,, | malformed_csv at at
                    \\n | empty_value
                    """)
    void aLineIsReadByPositionAndAsStrictly(String line, String expected) {
        String value = line.replace("\\n", "\n").replace("\\r", "\r");
        assertEquals(expected.replace("\\n", "\n"), Reading.read(LINE, value));
    }

    @Test
    void bytesThatAreNoText() {
        byte[] value = "a?,1,,,,,".getBytes(StandardCharsets.ISO_8859_1);
        value[1] = (byte) 0xFF;
        assertEquals("not_utf8", Reading.read(LINE, value));
        assertEquals("empty_value", Reading.read(LINE, ""));
    }

    @Test
    void aSeparatorAndATextForNullAreTheDeclaredOnes() {
        String more = "'separator':'¦','null_text':'\\\\N'";
        String spec = Reading.spec("csv", "a string, b string", more);
        assertEquals("(x,y, null)", Reading.read(spec, "x,y¦\\N"));
        assertEquals("(, \\N)", Reading.read(spec, "\"\"¦\"\\N\""));
        assertEquals("(, )", Reading.read(spec, "¦"));
    }

    @Test
    void severalTextsMayStandForNull() {
        String spec = Reading.spec("csv", "a int, b string", "'null_text':['?','NA','']");
        assertEquals("(null, null)", Reading.read(spec, "?,NA"));
        assertEquals("(null, NAN)", Reading.read(spec, ",NAN"));
        assertEquals("(1, NA)", Reading.read(spec, "1,\"NA\""));
        assertEquals("wrong_type at a", Reading.read(spec, "-,x"));
    }

    @ParameterizedTest(name = "{0}: {1}")
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            textBlock =
                    """
                    id,n,note | a,1,x | (a, 1, x)
                    note,id,n | x,a,1 | (a, 1, x)
                    NOTE, "Id",n  | x,a,1 | (a, 1, x)
                    note,id,n\\r\\n | x,a,1\\r\\n | (a, 1, x)
                    id,more,n,note | a,"b, c",1,x | (a, 1, x)
                    ,id,n,note,,note of it | 0,a,1,x,y,z | (a, 1, x)
                    id,n,note | a,1 | wrong_field_count
                    id,n,note | a,1,x,y | wrong_field_count
                    id,n,note,more | a,1,x | wrong_field_count
                    n,note,id | x,a,1 | wrong_type at n
                    n,note,id | 1,a, | missing_required at id
                    more,id,n,note | a"b,1,1,1 | malformed_csv at more
                    id,note | a,x | missing_column at n
                    id;n;note | a;1;x | missing_column at id
                    a,1,x | b,2,y | missing_column at id
                    "id,n,note | a,1,x | missing_column at id
                    id,n,note,N | a,1,x,2 | duplicate_column at n
                    id,n,note | \\n | empty_value
                    """)
    void aLineOfAFileIsReadByTheNamesOfItsHeader(String first, String line, String expected) {
        String spec = Reading.spec("csv", "id string, n int, note string", "'required':['id']");
        String value = line.replace("\\n", "\n").replace("\\r", "\r");
        String header = first.replace("\\n", "\n").replace("\\r", "\r");
        assertEquals(expected, Reading.readLine(spec, header, value));
    }

    @Test
    void aReaderSeesTheHeadersOfSeveralFilesByTurns() {
        String spec = Reading.spec("csv", "id string, n int", "");
        for (int i = 0; i < 3; i++) {
            assertEquals("(a, 1)", Reading.readLine(spec, "id,n", "a,1"));
            assertEquals("(a, 1)", Reading.readLine(spec, "n,id", "1,a"));
            assertEquals("missing_column at n", Reading.readLine(spec, "m,id", "1,a"));
            assertEquals("(a, 1)", Reading.readLine(spec, null, "a,1"));
            assertEquals("(a, 1)", Reading.read(spec, "a,1"));
        }
    }

    @Test
    void aFieldThatIsNotWantedMayBeMissing() {
        String spec = Reading.spec("csv", "id string, n int, m int", "'optional':['n','m']");
        assertEquals("(a, null, 1)", Reading.readLine(spec, "m,id", "1,a"));
        assertEquals("(a, null, null)", Reading.readLine(spec, "m,id,M", "1,a,2"));
        assertEquals("missing_column at id", Reading.readLine(spec, "n,m", "1,2"));
        assertEquals("(a, 1, 2)", Reading.read(spec, "a,1,2"));
    }

    @Test
    void furtherColumnsAreTextOfTheirNames() {
        String more = "'rescue':true,'null_text':['?','']";
        String spec = Reading.spec("csv", "id string", more);
        assertEquals("(a)", Reading.readLine(spec, "id", "a"));
        assertEquals(
                "(a) and {\"n\":\"007\",\"say \\\"q\\\"\":\"x\\ty\",\"m\":null,\"o\":\"?\"}",
                Reading.readLine(spec, "n,\"say \"\"q\"\"\",id,m,o", "007,x\ty,a,,\"?\""));
        assertEquals("duplicate_column at n", Reading.readLine(spec, "n,id,n", "1,a,2"));
        assertEquals("wrong_field_count", Reading.readLine(spec, null, "a,1"));
    }

    @Test
    void aTextIsTheWholeValue() {
        String spec = Reading.spec("text", "value string", "'max_bytes':8");
        assertEquals("(Łódź\n)", Reading.read(spec, "Łódź\n"));
        assertEquals("()", Reading.read(spec, ""));
        assertEquals("not_utf8", Reading.read(spec, new byte[] {(byte) 0xFF}));
        assertEquals("too_large", Reading.read(spec, "123456789"));
    }
}
