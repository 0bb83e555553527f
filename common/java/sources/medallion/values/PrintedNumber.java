package medallion.values;

import com.fasterxml.jackson.core.io.schubfach.DoubleToDecimal;
import com.fasterxml.jackson.core.io.schubfach.FloatToDecimal;

import java.math.BigDecimal;

/**
 * Checks whether a decimal number is a printed form of a binary floating-point number: the shortest
 * form, or the exact value rounded to as many digits as the decimal number has. Any other decimal
 * number that is parsed to the binary number was rounded by parsing.
 *
 * <p>The decimal number must have no trailing zeros, and must be parsed to the binary number.
 */
final class PrintedNumber {
    /** No double has more significant digits. */
    static final int MOST_DIGITS = 767;

    private PrintedNumber() {}

    static boolean isOf(double value, BigDecimal sent) {
        return isSame(DoubleToDecimal.toString(value), sent)
                || isRounded(new BigDecimal(value), sent);
    }

    static boolean isOf(float value, BigDecimal sent) {
        return isSame(FloatToDecimal.toString(value), sent)
                || isRounded(new BigDecimal((double) value), sent);
    }

    private static boolean isSame(String shortest, BigDecimal sent) {
        return new BigDecimal(shortest).compareTo(sent) == 0;
    }

    /**
     * Whether {@code sent} is the exact value rounded to the digits of {@code sent}. A value
     * halfway between two decimal numbers may be rounded up or to the even digit, because libraries
     * do either.
     */
    private static boolean isRounded(BigDecimal exact, BigDecimal sent) {
        BigDecimal half = BigDecimal.valueOf(5L, sent.scale() + 1);
        int order = exact.subtract(sent).abs().compareTo(half);
        return order < 0
                || order == 0 && (sent.compareTo(exact) > 0 || !sent.unscaledValue().testBit(0));
    }
}
