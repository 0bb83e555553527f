package medallion.protobuf;

import com.fasterxml.jackson.databind.JsonNode;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.values.Utf8;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;

/** A type of single values: reads one from the wire as Spark's internal value. */
public final class Scalar {
    private static final long MOST_UNSIGNED = 0xFFFFFFFFL;

    final String type;

    /** The wire type of a value; that of several packed ones is always LENGTH. */
    final int wire;

    /** Names of an enum's numbers. */
    private final HashMap<Long, UTF8String> symbols = new HashMap<Long, UTF8String>();

    /**
     * Makes a type.
     *
     * @param type the name that a descriptor has for it
     * @param names the names of an enum, by number; of other types without a member
     */
    Scalar(String type, JsonNode names) {
        this.type = type;
        wire = wireOf(type);
        Iterator<String> numbers = names.fieldNames();
        while (numbers.hasNext()) {
            Object number = numbers.next();
            symbols.put(
                    Long.valueOf((String) number),
                    UTF8String.fromString(names.get((String) number).asText()));
        }
    }

    boolean isPackable() {
        return wire != WireBytes.LENGTH;
    }

    Object read(WireBytes in, int end) {
        if (wire == WireBytes.VARINT) {
            return ofVarint(in.varint(end));
        }
        if (wire == WireBytes.FIXED_32) {
            long found = in.fixed(4, end);
            if ("float".equals(type)) {
                return finite(Float.intBitsToFloat((int) found));
            }
            return "fixed32".equals(type)
                    ? (Object) Long.valueOf(found)
                    : Integer.valueOf((int) found);
        }
        if (wire == WireBytes.FIXED_64) {
            long found = in.fixed(8, end);
            if ("double".equals(type)) {
                return finite(Double.longBitsToDouble(found));
            }
            return "fixed64".equals(type) ? (Object) unsigned(found) : Long.valueOf(found);
        }
        byte[] found = in.take(in.ending(end));
        if ("bytes".equals(type)) {
            return found;
        }
        if (!Utf8.isValid(found)) {
            throw new Fault(Reasons.NOT_UTF8);
        }
        return UTF8String.fromBytes(found);
    }

    /** The value of a text; null for an enum's number without a name. */
    Object of(String text) {
        if ("string".equals(type)) {
            return UTF8String.fromString(text);
        }
        if ("bytes".equals(type)) {
            return Base64.getDecoder().decode(text);
        }
        if ("bool".equals(type)) {
            return Boolean.valueOf(text);
        }
        if ("enum".equals(type)) {
            return symbols.get(Long.valueOf(text));
        }
        if ("float".equals(type)) {
            return Float.valueOf(text);
        }
        if ("double".equals(type)) {
            return Double.valueOf(text);
        }
        if ("uint64".equals(type) || "fixed64".equals(type)) {
            return Decimal.apply(new BigDecimal(text), 20, 0);
        }
        if ("int64".equals(type)
                || "sint64".equals(type)
                || "sfixed64".equals(type)
                || "uint32".equals(type)
                || "fixed32".equals(type)) {
            return Long.valueOf(text);
        }
        return Integer.valueOf(text);
    }

    /** The value of a field that is not sent and whose absence has no meaning of its own. */
    Object zero() {
        if ("string".equals(type) || "bytes".equals(type)) {
            return of("");
        }
        return of("bool".equals(type) ? "false" : "0");
    }

    private Object ofVarint(long found) {
        if ("int64".equals(type)) {
            return Long.valueOf(found);
        }
        if ("uint64".equals(type)) {
            return unsigned(found);
        }
        if ("uint32".equals(type)) {
            if (found < 0L || found > MOST_UNSIGNED) {
                throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
            }
            return Long.valueOf(found);
        }
        if ("bool".equals(type)) {
            if (found < 0L || found > 1L) {
                throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
            }
            return Boolean.valueOf(found == 1L);
        }
        if ("enum".equals(type)) {
            Object symbol = symbols.get(Long.valueOf(found));
            if (symbol == null) {
                throw new Fault(Reasons.UNKNOWN_ENUM_NUMBER);
            }
            return symbol;
        }
        boolean isZigzag = type.startsWith("s");
        long whole = isZigzag ? (found >>> 1) ^ -(found & 1L) : found;
        if (type.endsWith("64")) {
            return Long.valueOf(whole);
        }
        if (whole < Integer.MIN_VALUE || whole > Integer.MAX_VALUE) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
        return Integer.valueOf((int) whole);
    }

    private static Float finite(float found) {
        if (Float.isNaN(found) || Float.isInfinite(found)) {
            throw new Fault(Reasons.NON_FINITE_NUMBER);
        }
        return Float.valueOf(found);
    }

    private static Double finite(double found) {
        if (Double.isNaN(found) || Double.isInfinite(found)) {
            throw new Fault(Reasons.NON_FINITE_NUMBER);
        }
        return Double.valueOf(found);
    }

    private static Decimal unsigned(long found) {
        BigInteger whole = new BigInteger(Long.toUnsignedString(found));
        return Decimal.apply(new BigDecimal(whole), 20, 0);
    }

    public static int wireOf(String type) {
        if ("string".equals(type) || "bytes".equals(type)) {
            return WireBytes.LENGTH;
        }
        if ("float".equals(type) || type.endsWith("fixed32")) {
            return WireBytes.FIXED_32;
        }
        return "double".equals(type) || type.endsWith("fixed64")
                ? WireBytes.FIXED_64
                : WireBytes.VARINT;
    }
}
