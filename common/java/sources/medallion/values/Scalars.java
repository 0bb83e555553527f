package medallion.values;

import medallion.faults.Reasons;

import org.apache.spark.unsafe.types.UTF8String;

import java.util.Arrays;
import java.util.Base64;

/**
 * Converts a text to a date, a timestamp, binary or a string: exactly, or with a fault. Not
 * thread-safe.
 */
public final class Scalars {
    /** Why the last text could not be converted. */
    public String fault;

    private final boolean isUtc;
    private final Times times = new Times();

    public Scalars(boolean isUtc) {
        this.isUtc = isUtc;
    }

    /** The text as this type; null, with {@code fault} set, if the text is no value of the type. */
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

    /**
     * The text; null, with {@code fault} set, if the text is too long for its char or varchar type.
     */
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
        byte[] bytes = base64(source, from, to);
        return bytes == null ? refuse(Reasons.WRONG_TYPE) : bytes;
    }

    /** The bytes that a text writes in base64, with padding; null if it writes none. */
    public static byte[] base64(byte[] source, int from, int to) {
        try {
            byte[] text = Arrays.copyOfRange(source, from, to);
            byte[] bytes = Base64.getDecoder().decode(text);
            // The decoder also accepts a text without padding, and unused bits that are not 0.
            return Arrays.equals(Base64.getEncoder().encode(bytes), text) ? bytes : null;
        } catch (IllegalArgumentException malformed) {
            return null;
        }
    }

    private Object refuse(String reason) {
        fault = reason;
        return null;
    }
}
