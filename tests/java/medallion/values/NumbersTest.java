package medallion.values;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.io.schubfach.DoubleToDecimal;
import com.fasterxml.jackson.core.io.schubfach.FloatToDecimal;
import com.fasterxml.jackson.databind.node.TextNode;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.util.Random;

/** A number comes out as it was sent, or is refused with its reason. */
class NumbersTest {
    private static final RoundingMode[] TIES = {RoundingMode.HALF_EVEN, RoundingMode.HALF_UP};

    @ParameterizedTest(name = "{1} as {0}")
    @CsvSource(
            delimiter = '|',
            textBlock =
                    """
                    byte    | -128 | -128
                    byte    | 128 | number_out_of_range
                    short   | 32767 | 32767
                    short   | -32769 | number_out_of_range
                    integer | 2147483647 | 2147483647
                    integer | -2147483648 | -2147483648
                    integer | 2147483648 | number_out_of_range
                    integer | 999999999999999999999999999999 | number_out_of_range
                    integer | 1.0 | wrong_type
                    integer | 1e2 | wrong_type
                    integer | -0 | 0
                    long    | 9223372036854775807 | 9223372036854775807
                    long    | -9223372036854775808 | -9223372036854775808
                    long    | 9223372036854775808 | number_out_of_range
                    long    | 999999999999999999 | 999999999999999999
                    boolean | 1 | wrong_type
                    string  | 1 | wrong_type
                    decimal(10,2) | 1.99 | 1.99
                    decimal(10,2) | 1.990 | 1.99
                    decimal(10,2) | 1.999 | number_rounded
                    decimal(10,2) | 0.005 | number_rounded
                    decimal(10,2) | -12345678.90 | -12345678.90
                    decimal(10,2) | 123456789 | number_out_of_range
                    decimal(10,2) | 12345678901.555 | number_out_of_range
                    decimal(10,2) | 1e7 | 10000000.00
                    decimal(10,2) | 1e1000000000000 | number_out_of_range
                    decimal(10,2) | 1e-1000000000000 | number_rounded
                    decimal(10,2) | 0e-1000000000000 | 0.00
                    decimal(38,10) | 1234567890123456789012345678.0123456789 | 1234567890123456789012345678.0123456789
                    decimal(38,10) | 9999999999999999999999999999.99999999999 | number_rounded
                    decimal(38,10) | 999999999999999999999999999999 | number_out_of_range
                    decimal(38,10) | -0.1234567890000000000000000 | -0.1234567890
                    decimal(38,10) | 0.00000000000000000000000000000000000000000000 | 0E-10
                    """)
    void wholeNumbersAndDecimals(String type, String text, String expected) {
        assertEquals(expected, read(type, text));
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            textBlock =
                    """
                    0.1 | 0.1
                    -0.0 | -0.0
                    1 | 1.0
                    1e22 | 1.0E22
                    1e23 | 1.0E23
                    2e23 | 2.0E23
                    0.30000000000000004 | 0.30000000000000004
                    0.300000000000000040 | 0.30000000000000004
                    123.15499877929688 | 123.15499877929688
                    1.7976931348623157e308 | 1.7976931348623157E308
                    1.7976931348623159e308 | non_finite_number
                    1e400 | non_finite_number
                    -1e400 | non_finite_number
                    0e99999999999999999999 | 0.0
                    5e-324 | 4.9E-324
                    4.9e-324 | 4.9E-324
                    4.94e-324 | 4.9E-324
                    4.95e-324 | number_rounded
                    3e-324 | number_rounded
                    2e-324 | number_rounded
                    1e-400 | number_rounded
                    1e-99999999999999999999 | number_rounded
                    2.2250738585072014e-308 | 2.2250738585072014E-308
                    # 17 digits, as C's %.17g, Go's and Rust's print them
                    67.569999999999993 | 67.57
                    67.569999999999992 | number_rounded
                    67.569999999999994 | number_rounded
                    0.10000000000000001 | 0.1
                    0.10000000000000000 | 0.1
                    # halfway between two texts of 17 digits: rounded up, or to the even digit
                    123.15499877929688 | 123.15499877929688
                    123.15499877929687 | number_rounded
                    0.0012521743774414063 | 0.0012521743774414062
                    0.0012521743774414062 | 0.0012521743774414062
                    0.0012521743774414061 | number_rounded
                    0.0012521743774414064 | number_rounded
                    # more digits, as C's %.20f prints them; the exact value has 55
                    67.56999999999999317879 | 67.57
                    67.56999999999999317878 | number_rounded
                    0.1000000000000000055511151231257827 | 0.1
                    0.1000000000000000055511151231257827021181583404541015625 | 0.1
                    0.10000000000000000555111512312578270211815834045410156250000000000 | 0.1
                    0.10000000000000000555111512312578270211815834045410156251 | number_rounded
                    0.1000000000000000055 | number_rounded
                    0.1000000000000000056 | 0.1
                    # below a power of two the doubles are closer: the shortest text is not the nearest
                    5.684341886080802e-14 | 5.684341886080802E-14
                    5.6843418860808015e-14 | 5.684341886080802E-14
                    5.684341886080803e-14 | 5.684341886080803E-14
                    5.684341886080801e-14 | 5.684341886080801E-14
                    5.6843418860808017e-14 | number_rounded
                    # whole numbers
                    9007199254740992 | 9.007199254740992E15
                    9007199254740993 | number_rounded
                    9223372036854775808 | 9.223372036854776E18
                    9223372036854775807 | number_rounded
                    1234567890123456789 | number_rounded
                    """)
    void doubles(String text, String expected) {
        assertEquals(expected, read("double", text));
        String negative = text.startsWith("-") ? text.substring(1) : "-" + text;
        boolean isReason = expected.contains("_");
        assertEquals(isReason ? expected : negated(expected), read("double", negative));
    }

    private static String negated(String text) {
        return text.startsWith("-") ? text.substring(1) : "-" + text;
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource(
            delimiter = '|',
            textBlock =
                    """
                    0.1 | 0.1
                    16777216 | 1.6777216E7
                    16777217 | number_rounded
                    0.12345678 | 0.12345678
                    0.123456784 | 0.12345678
                    0.123456789 | number_rounded
                    0.123456791 | 0.12345679
                    0.100000001 | 0.1
                    0.10000000149011612 | 0.1
                    0.100000001490116119384765625 | 0.1
                    0.100000001490116119384765626 | number_rounded
                    0.10000000149011613 | number_rounded
                    3.4028235e38 | 3.4028235E38
                    3.40282347e38 | 3.4028235E38
                    1e39 | non_finite_number
                    1e-46 | number_rounded
                    1e-45 | 1.4E-45
                    1.4e-45 | 1.4E-45
                    1.5e-45 | number_rounded
                    """)
    void floats(String text, String expected) {
        assertEquals(expected, read("float", text));
    }

    @Test
    void everyDoubleThatIsPrintedWithEnoughDigitsIsTaken() {
        Random chance = new Random(1);
        for (int i = 0; i < 3000; i++) {
            double value = Double.longBitsToDouble(chance.nextLong());
            if (i % 4 == 0) {
                value = chance.nextInt(10000000) / 100.0;
            } else if (i % 4 == 1) {
                value = Math.scalb(1.0, chance.nextInt(2000) - 1000);
            }
            if (Double.isNaN(value) || Double.isInfinite(value) || value == 0.0) {
                continue;
            }
            assertEquals(shown(value), read("double", shown(value)));
            int digits = 17 + chance.nextInt(30);
            for (RoundingMode tie : TIES) {
                BigDecimal printed = new BigDecimal(value).round(new MathContext(digits, tie));
                assertEquals(shown(value), read("double", printed.toString()), printed.toString());
            }
        }
    }

    @Test
    void everyFloatThatIsPrintedWithEnoughDigitsIsTaken() {
        Random chance = new Random(2);
        for (int i = 0; i < 3000; i++) {
            float value =
                    i % 2 == 0
                            ? Float.intBitsToFloat(chance.nextInt())
                            : Math.scalb(1.0f, chance.nextInt(250) - 125);
            if (Float.isNaN(value) || Float.isInfinite(value) || value == 0.0f) {
                continue;
            }
            for (RoundingMode tie : TIES) {
                BigDecimal printed =
                        new BigDecimal(value).round(new MathContext(9 + chance.nextInt(20), tie));
                assertEquals(shown(value), read("float", printed.toString()), printed.toString());
            }
        }
    }

    @Test
    void aDigitMoreOrLessInTheLastPlaceIsAnotherNumber() {
        Random chance = new Random(3);
        int refused = 0;
        for (int i = 0; i < 3000; i++) {
            double value = Math.abs(Double.longBitsToDouble(chance.nextLong()));
            if (Double.isNaN(value) || Double.isInfinite(value)) {
                continue;
            }
            BigDecimal printed = new BigDecimal(value).round(new MathContext(19));
            if (printed.precision() < 19) {
                continue;
            }
            BigDecimal other = printed.add(printed.ulp());
            if (other.stripTrailingZeros().precision() < 19) {
                continue;
            }
            assertEquals("number_rounded", read("double", other.toString()), other.toString());
            refused++;
        }
        assertTrue(refused > 2000);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"", "-", "+1", "01", "-01", "1.", ".5", "1.e5", "1e", "1e+", "x", "--1"})
    void noNumber(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        assertFalse(new Numbers().scan(bytes, 0, bytes.length));
    }

    @ParameterizedTest(name = "{0} ends after {1}")
    @CsvSource({"'1,2',1", "'12]',2", "'1_000',1", "'0x10',1", "'1.5.2',3", "'1e5e',3", "'-0 ',2"})
    void endsBeforeWhatIsNotOfIt(String text, int end) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        Numbers numbers = new Numbers();
        assertTrue(numbers.scan(bytes, 0, bytes.length));
        assertEquals(end, numbers.end);
    }

    @Test
    void millionsOfDigitsCostNoMoreThanTheirReading() {
        assertEquals("number_rounded", read("double", "0." + "1".repeat(10000000)));
        assertEquals("non_finite_number", read("double", "1" + "0".repeat(10000000)));
        assertEquals("number_out_of_range", read("integer", "9".repeat(10000000)));
        assertEquals("1.0000000000", read("decimal(38,10)", "1." + "0".repeat(10000000)));
        assertEquals("non_finite_number", read("double", "1e" + "9".repeat(10000000)));
    }

    /** Java 17's own text of a double may have a digit too many. */
    private static String shown(Object found) {
        if (found instanceof Double) {
            return DoubleToDecimal.toString((Double) found);
        }
        return found instanceof Float ? FloatToDecimal.toString((Float) found) : found.toString();
    }

    private static String read(String type, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        Numbers numbers = new Numbers();
        assertTrue(numbers.scan(bytes, 0, bytes.length), text);
        assertEquals(bytes.length, numbers.end, text);
        Object found = numbers.as(Type.of(new TextNode(type)));
        return found == null ? numbers.fault : shown(found);
    }
}
