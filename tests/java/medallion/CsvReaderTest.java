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

    @Test
    void aTextIsTheWholeValue() {
        String spec = Reading.spec("text", "value string", "'max_bytes':8");
        assertEquals("(Łódź\n)", Reading.read(spec, "Łódź\n"));
        assertEquals("()", Reading.read(spec, ""));
        assertEquals("not_utf8", Reading.read(spec, new byte[] {(byte) 0xFF}));
        assertEquals("too_large", Reading.read(spec, "123456789"));
    }
}
