package medallion.protobuf.output;

import com.fasterxml.jackson.databind.JsonNode;

import medallion.faults.UnwritableException;
import medallion.protobuf.Scalar;
import medallion.protobuf.WireBytes;
import medallion.readers.FieldPath;
import medallion.values.Utf8;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.unsafe.types.UTF8String;

import java.math.BigInteger;
import java.util.HashMap;
import java.util.Iterator;

/** A type of single values: writes Spark's internal value of it without its tag. */
final class ScalarOutput {
    private static final long MOST_UNSIGNED = 0xFFFFFFFFL;

    /** The wire type of a value. */
    final int wire;

    private final String type;

    /** Numbers of an enum's names. */
    private final HashMap<UTF8String, Long> numbers = new HashMap<UTF8String, Long>();

    ScalarOutput(String type, JsonNode names) {
        this.type = type;
        wire = Scalar.wireOf(type);
        Iterator<String> found = names.fieldNames();
        while (found.hasNext()) {
            Object number = found.next();
            String name = names.get((String) number).asText();
            numbers.put(UTF8String.fromString(name), Long.valueOf((String) number));
        }
    }

    void write(SpecializedGetters from, int place, WireOutput out, FieldPath path) {
        if (wire == WireBytes.LENGTH) {
            out.block(content(from, place, path));
        } else if (wire == WireBytes.VARINT) {
            out.varint(varint(from, place, path));
        } else if (wire == WireBytes.FIXED_32) {
            long found =
                    "float".equals(type)
                            ? (long) Float.floatToRawIntBits(from.getFloat(place))
                            : "fixed32".equals(type)
                                    ? unsigned(from.getLong(place), path)
                                    : (long) from.getInt(place);
            out.fixed(found, 4);
        } else {
            long found =
                    "double".equals(type)
                            ? Double.doubleToRawLongBits(from.getDouble(place))
                            : "fixed64".equals(type)
                                    ? unsigned(from, place, path)
                                    : from.getLong(place);
            out.fixed(found, 8);
        }
    }

    private byte[] content(SpecializedGetters from, int place, FieldPath path) {
        if ("bytes".equals(type)) {
            return from.getBinary(place);
        }
        byte[] found = from.getUTF8String(place).getBytes();
        if (!Utf8.isValid(found)) {
            throw new UnwritableException(path, "is no text in UTF-8");
        }
        return found;
    }

    private long varint(SpecializedGetters from, int place, FieldPath path) {
        if ("bool".equals(type)) {
            return from.getBoolean(place) ? 1L : 0L;
        }
        if ("enum".equals(type)) {
            Object number = numbers.get(from.getUTF8String(place));
            if (number == null) {
                throw new UnwritableException(path, "is no name of the schema's enum");
            }
            return ((Long) number).longValue();
        }
        if ("uint32".equals(type)) {
            return unsigned(from.getLong(place), path);
        }
        if ("uint64".equals(type)) {
            return unsigned(from, place, path);
        }
        long whole = type.endsWith("64") ? from.getLong(place) : (long) from.getInt(place);
        return type.startsWith("s") ? (whole << 1) ^ (whole >> 63) : whole;
    }

    private static long unsigned(long found, FieldPath path) {
        if (found < 0L || found > MOST_UNSIGNED) {
            throw outOfRange(path, 32);
        }
        return found;
    }

    private static long unsigned(SpecializedGetters from, int place, FieldPath path) {
        BigInteger found = from.getDecimal(place, 20, 0).toJavaBigDecimal().toBigInteger();
        if (found.signum() < 0 || found.bitLength() > 64) {
            throw outOfRange(path, 64);
        }
        return found.longValue();
    }

    private static UnwritableException outOfRange(FieldPath path, int bits) {
        return new UnwritableException(
                path, "is beyond the range of a number of " + bits + " bits without a sign");
    }
}
