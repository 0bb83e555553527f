package medallion.values;

import com.fasterxml.jackson.core.io.schubfach.DoubleToDecimal;
import com.fasterxml.jackson.core.io.schubfach.FloatToDecimal;

import java.math.BigDecimal;

/**
 * Whether a decimal number is a text of a binary one: its shortest text, or its exact value rounded
 * to the digits of the text. Any other decimal number that reads as the binary one was rounded by
 * becoming binary.
 *
 * <p>A decimal number must come without zeros at the end of its digits, and must read as the binary
 * number.
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
     * An exact value halfway between two texts is rounded up or to the even digit: printers do
     * either.
     */
    private static boolean isRounded(BigDecimal exact, BigDecimal sent) {
        BigDecimal half = BigDecimal.valueOf(5L, sent.scale() + 1);
        int order = exact.subtract(sent).abs().compareTo(half);
        return order < 0
                || order == 0 && (sent.compareTo(exact) > 0 || !sent.unscaledValue().testBit(0));
    }
}
