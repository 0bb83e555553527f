package medallion.values;

import medallion.faults.Reasons;

import org.apache.spark.unsafe.types.UTF8String;

import java.util.Arrays;
import java.util.Base64;

/** What a text becomes in a column that is not of texts, exactly; or a fault. Not thread-safe. */
public final class Scalars {
    /** Why the last text could not be converted. */
    public String fault;

    private final boolean isUtc;
    private final Times times = new Times();

    public Scalars(boolean isUtc) {
        this.isUtc = isUtc;
    }

    /** A text as a date, time, binary or string; null with {@code fault} set where it is none. */
    public Object as(Type type, byte[] source, int from, int to) {
        switch (type.kind) {
            case Type.STRING:
                return string(type, UTF8String.fromBytes(source, from, to - from));
            case Type.DATE:
                return times.date(source, from, to)
                        ? (Object) Integer.valueOf(times.days)
                        : refuse(Reasons.WRONG_TYPE);
            case Type.TIMESTAMP:
            case Type.TIMESTAMP_NTZ:
                return timestamp(type.kind == Type.TIMESTAMP, source, from, to);
            case Type.BINARY:
                return binary(source, from, to);
            default:
                return refuse(Reasons.WRONG_TYPE);
        }
    }

    /** A text, unless its type is a char or varchar and it is too long for it. */
    public Object string(Type type, UTF8String text) {
        if (type.precision > 0 && text.numChars() > type.precision) {
            return refuse(Reasons.WRONG_TYPE);
        }
        return text;
    }

    private Object timestamp(boolean isInstant, byte[] source, int from, int to) {
        if (!times.timestamp(source, from, to)) {
            return refuse(Reasons.INVALID_TIMESTAMP);
        }
        if (isInstant && !times.hasOffset && !isUtc) {
            return refuse(Reasons.TIMESTAMP_WITHOUT_OFFSET);
        }
        if (!isInstant && times.hasOffset) {
            return refuse(Reasons.INVALID_TIMESTAMP);
        }
        return times.isRounded
                ? refuse(Reasons.NUMBER_ROUNDED)
                : (Object) Long.valueOf(times.micros);
    }

    private Object binary(byte[] source, int from, int to) {
        try {
            byte[] text = Arrays.copyOfRange(source, from, to);
            byte[] bytes = Base64.getDecoder().decode(text);
            // The decoder takes a text without its padding, and bits that no byte holds.
            return Arrays.equals(Base64.getEncoder().encode(bytes), text)
                    ? bytes
                    : refuse(Reasons.WRONG_TYPE);
        } catch (IllegalArgumentException malformed) {
            return refuse(Reasons.WRONG_TYPE);
        }
    }

    private Object refuse(String reason) {
        fault = reason;
        return null;
    }
}
