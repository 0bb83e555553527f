package medallion.values;

import medallion.faults.Reasons;

import org.apache.spark.sql.types.Decimal;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;

/**
 * Scans a number in JSON's notation and converts it to a declared type: exactly the number that was
 * sent, or a fault. Not thread-safe: an object holds the number scanned last.
 */
public final class Numbers {
    private static final long[] POWERS = new long[19];
    private static final double[] DOUBLE_POWERS = new double[23];
    private static final int LONG_DIGITS = 18;

    static {
        POWERS[0] = 1L;
        for (int i = 1; i < POWERS.length; i++) {
            POWERS[i] = POWERS[i - 1] * 10L;
        }
        DOUBLE_POWERS[0] = 1.0;
        for (int i = 1; i < DOUBLE_POWERS.length; i++) {
            DOUBLE_POWERS[i] = DOUBLE_POWERS[i - 1] * 10.0;
        }
    }

    /** Index after the number's last byte, set by {@code scan}. */
    public int end;

    /** Why the last number could not be converted. */
    public String fault;

    private byte[] source;
    private int start;
    private boolean isNegative;
    private boolean isWhole;

    /** Count of the significant digits: all from the first digit that is not 0. */
    private int digits;

    /** Value of the first 18 significant digits. */
    private long mantissa;

    /** Power of ten of the last significant digit. */
    private long exponent;

    /**
     * The significant digits without trailing zeros; null unless they are more than 18 and at most
     * {@code PrintedNumber.MOST_DIGITS}.
     */
    private String significand;

    /**
     * Scans the number that begins at {@code from} and ends before the first byte that cannot
     * belong to it; returns false if no number begins there.
     */
    public boolean scan(byte[] bytes, int from, int limit) {
        source = bytes;
        start = from;
        isNegative = false;
        isWhole = true;
        digits = 0;
        mantissa = 0L;
        exponent = 0L;
        int at = from;
        if (at < limit && bytes[at] == '-') {
            isNegative = true;
            at++;
        }
        int first = at;
        at = digits(at, limit);
        if (at == first || (bytes[first] == '0' && at > first + 1)) {
            return false;
        }
        if (at < limit && bytes[at] == '.') {
            isWhole = false;
            int point = at;
            at = digits(at + 1, limit);
            if (at == point + 1) {
                return false;
            }
            exponent = point + 1 - at;
        }
        if (at < limit && (bytes[at] == 'e' || bytes[at] == 'E')) {
            isWhole = false;
            at++;
            boolean isNegativePower = at < limit && bytes[at] == '-';
            if (isNegativePower || (at < limit && bytes[at] == '+')) {
                at++;
            }
            int before = at;
            long power = 0L;
            while (at < limit && bytes[at] >= '0' && bytes[at] <= '9') {
                power = power < 1000000000000L ? power * 10L + (bytes[at] - '0') : power;
                at++;
            }
            if (at == before) {
                return false;
            }
            exponent += isNegativePower ? -power : power;
        }
        end = at;
        return true;
    }

    private int digits(int from, int limit) {
        int at = from;
        while (at < limit) {
            int digit = source[at] - '0';
            if (digit < 0 || digit > 9) {
                break;
            }
            if (digits > 0 || digit != 0) {
                digits++;
                if (digits <= LONG_DIGITS) {
                    mantissa = mantissa * 10L + digit;
                }
            }
            at++;
        }
        return at;
    }

    /**
     * The number as this type; null, with {@code fault} set, if the type cannot represent exactly
     * that number.
     */
    public Object as(Type type) {
        switch (type.kind) {
            case Type.BYTE:
                return isWithin(-128L, 127L) ? (Object) Byte.valueOf((byte) signed()) : null;
            case Type.SHORT:
                return isWithin(-32768L, 32767L) ? (Object) Short.valueOf((short) signed()) : null;
            case Type.INT:
                return isWithin(-2147483648L, 2147483647L)
                        ? (Object) Integer.valueOf((int) signed())
                        : null;
            case Type.LONG:
                return whole();
            case Type.FLOAT:
                return asFloat();
            case Type.DOUBLE:
                return asDouble();
            case Type.DECIMAL:
                return asDecimal(type.precision, type.scale);
            default:
                return refuse(Reasons.WRONG_TYPE);
        }
    }

    private Object refuse(String reason) {
        fault = reason;
        return null;
    }

    private long signed() {
        return isNegative ? -mantissa : mantissa;
    }

    private boolean isWithin(long least, long most) {
        if (!isWhole) {
            fault = Reasons.WRONG_TYPE;
            return false;
        }
        if (digits > LONG_DIGITS || signed() < least || signed() > most) {
            fault = Reasons.NUMBER_OUT_OF_RANGE;
            return false;
        }
        return true;
    }

    private Object whole() {
        if (!isWhole) {
            return refuse(Reasons.WRONG_TYPE);
        }
        if (digits <= LONG_DIGITS) {
            return Long.valueOf(signed());
        }
        if (digits == LONG_DIGITS + 1) {
            try {
                return Long.valueOf(Long.parseLong(text()));
            } catch (NumberFormatException tooLarge) {
                return refuse(Reasons.NUMBER_OUT_OF_RANGE);
            }
        }
        return refuse(Reasons.NUMBER_OUT_OF_RANGE);
    }

    private Object asDecimal(int precision, int scale) {
        trim(-scale);
        if (digits > 0 && digits + exponent > precision - scale) {
            return refuse(Reasons.NUMBER_OUT_OF_RANGE);
        }
        if (digits > 0 && exponent < -scale) {
            return refuse(Reasons.NUMBER_ROUNDED);
        }
        if (precision <= LONG_DIGITS) {
            long unscaled = digits == 0 ? 0L : signed() * POWERS[(int) (exponent + scale)];
            return Decimal.createUnsafe(unscaled, precision, scale);
        }
        BigDecimal value = digits == 0 ? BigDecimal.ZERO : unsignedDecimal();
        value = (isNegative ? value.negate() : value).setScale(scale);
        return Decimal.apply(value, precision, scale);
    }

    /**
     * The number without its sign. Requires a call of {@code trim} before, and at most {@code
     * PrintedNumber.MOST_DIGITS} digits.
     */
    private BigDecimal unsignedDecimal() {
        BigInteger all =
                significand == null ? BigInteger.valueOf(mantissa) : new BigInteger(significand);
        return new BigDecimal(all, (int) -exponent);
    }

    /** Removes trailing zeros until the last digit has this power of ten or is not 0. */
    private void trim(long power) {
        significand = null;
        if (digits > LONG_DIGITS) {
            trimLong();
            return;
        }
        while (digits > 0 && exponent < power && mantissa % 10L == 0L) {
            mantissa /= 10L;
            exponent++;
            digits--;
        }
    }

    /** As {@code trim}, for more digits than a long holds: removes all trailing zeros. */
    private void trimLong() {
        byte[] kept = new byte[digits];
        int count = 0;
        for (int at = start; count < digits; at++) {
            int digit = source[at];
            if (digit >= '0' && digit <= '9' && (count > 0 || digit != '0')) {
                kept[count++] = (byte) digit;
            }
        }
        while (kept[digits - 1] == '0') {
            digits--;
            exponent++;
        }
        if (digits <= LONG_DIGITS) {
            mantissa = Long.parseLong(new String(kept, 0, digits, StandardCharsets.ISO_8859_1));
        } else if (digits <= PrintedNumber.MOST_DIGITS) {
            significand = new String(kept, 0, digits, StandardCharsets.ISO_8859_1);
        }
    }

    private Object asDouble() {
        if (digits == 0) {
            return Double.valueOf(isNegative ? -0.0 : 0.0);
        }
        if (digits <= 15 && exponent >= -22L && exponent <= 22L) {
            double value =
                    exponent < 0L
                            ? mantissa / DOUBLE_POWERS[(int) -exponent]
                            : mantissa * DOUBLE_POWERS[(int) exponent];
            return Double.valueOf(isNegative ? -value : value);
        }
        trim(Long.MAX_VALUE);
        if (digits + exponent > 309L) {
            return refuse(Reasons.NON_FINITE_NUMBER);
        }
        if (digits + exponent < -400L) {
            return refuse(Reasons.NUMBER_ROUNDED);
        }
        double value = Double.parseDouble(digits > 17 ? unsigned() : mantissa + "E" + exponent);
        if (Double.isInfinite(value)) {
            return refuse(Reasons.NON_FINITE_NUMBER);
        }
        boolean isExact = digits <= 15 && value >= Double.MIN_NORMAL;
        if (!isExact && !isPrinted(value)) {
            return refuse(Reasons.NUMBER_ROUNDED);
        }
        return Double.valueOf(isNegative ? -value : value);
    }

    private Object asFloat() {
        if (digits == 0) {
            return Float.valueOf(isNegative ? -0.0f : 0.0f);
        }
        trim(Long.MAX_VALUE);
        if (digits + exponent > 39L) {
            return refuse(Reasons.NON_FINITE_NUMBER);
        }
        if (digits + exponent < -100L) {
            return refuse(Reasons.NUMBER_ROUNDED);
        }
        float value = Float.parseFloat(digits > 17 ? unsigned() : mantissa + "E" + exponent);
        if (Float.isInfinite(value)) {
            return refuse(Reasons.NON_FINITE_NUMBER);
        }
        boolean isExact = digits <= 6 && value >= Float.MIN_NORMAL;
        if (!isExact && !isPrinted(value)) {
            return refuse(Reasons.NUMBER_ROUNDED);
        }
        return Float.valueOf(isNegative ? -value : value);
    }

    private boolean isPrinted(double value) {
        return value != 0.0
                && digits <= PrintedNumber.MOST_DIGITS
                && PrintedNumber.isOf(value, unsignedDecimal());
    }

    private boolean isPrinted(float value) {
        return value != 0.0f
                && digits <= PrintedNumber.MOST_DIGITS
                && PrintedNumber.isOf(value, unsignedDecimal());
    }

    private String text() {
        return new String(source, start, end - start, StandardCharsets.ISO_8859_1);
    }

    private String unsigned() {
        return isNegative ? text().substring(1) : text();
    }
}
