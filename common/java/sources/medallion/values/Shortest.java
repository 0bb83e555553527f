package medallion.values;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;

/**
 * The shortest decimal number that a binary one stands for, which is the number that was meant: of
 * the decimals that round to it those of fewest digits, of these the nearest, of two the even one.
 * A decimal of more digits than that was rounded when it became binary.
 */
final class Shortest {
    private static final boolean IS_SHORT_TEXT = Runtime.version().feature() >= 19;

    private Shortest() {}

    /**
     * Whether {@code mantissa * 10^exponent}, without zeros at its end, is the number that the
     * double means.
     */
    static boolean isOf(double value, int digits, long mantissa, long exponent) {
        if (digits > 17 || value == 0.0) {
            return false;
        }
        BigDecimal sent = new BigDecimal(BigInteger.valueOf(mantissa), (int) -exponent);
        boolean isNormal = value >= Double.MIN_NORMAL;
        if (IS_SHORT_TEXT && isNormal) { // before Java 19 the text may have a digit too many
            return new BigDecimal(Double.toString(value)).compareTo(sent) == 0;
        }
        BigDecimal exact = new BigDecimal(value);
        for (int length = isNormal ? 15 : 1; length <= 17; length++) {
            BigDecimal low = exact.round(new MathContext(length, RoundingMode.FLOOR));
            BigDecimal high = exact.round(new MathContext(length, RoundingMode.CEILING));
            boolean isLow = Double.parseDouble(low.toString()) == value;
            boolean isHigh = Double.parseDouble(high.toString()) == value;
            if (isLow || isHigh) {
                return nearest(exact, low, high, isLow, isHigh).compareTo(sent) == 0;
            }
        }
        return false;
    }

    /** The same of a float. */
    static boolean isOf(float value, int digits, long mantissa, long exponent) {
        if (digits > 9 || value == 0.0f) {
            return false;
        }
        BigDecimal sent = new BigDecimal(BigInteger.valueOf(mantissa), (int) -exponent);
        BigDecimal exact = new BigDecimal((double) value);
        for (int length = value >= Float.MIN_NORMAL ? 6 : 1; length <= 9; length++) {
            BigDecimal low = exact.round(new MathContext(length, RoundingMode.FLOOR));
            BigDecimal high = exact.round(new MathContext(length, RoundingMode.CEILING));
            boolean isLow = Float.parseFloat(low.toString()) == value;
            boolean isHigh = Float.parseFloat(high.toString()) == value;
            if (isLow || isHigh) {
                return nearest(exact, low, high, isLow, isHigh).compareTo(sent) == 0;
            }
        }
        return false;
    }

    private static BigDecimal nearest(
            BigDecimal exact, BigDecimal low, BigDecimal high, boolean isLow, boolean isHigh) {
        if (!isLow) {
            return high;
        }
        if (!isHigh) {
            return low;
        }
        int order = exact.subtract(low).compareTo(high.subtract(exact));
        boolean isLowEven = !low.unscaledValue().testBit(0);
        return order < 0 || (order == 0 && isLowEven) ? low : high;
    }
}
