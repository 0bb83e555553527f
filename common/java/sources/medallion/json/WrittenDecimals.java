package medallion.json;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import medallion.faults.Reasons;
import medallion.readers.Spec;
import medallion.values.Numbers;
import medallion.values.Scalars;
import medallion.values.Type;

import org.apache.spark.sql.catalyst.InternalRow;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;

/**
 * Reads decimals that JSON has in a text: as the number itself, or as the base64 of its digits
 * without a point, big-endian with a sign, whose scale is the type's or beside it. Exactly the
 * number that was sent, or a fault. Not thread-safe.
 */
final class WrittenDecimals {
    /** Why the last text could not be read. */
    String fault;

    /** Of base64: the object of a scale and a value; else null. */
    final Type pair;

    private final Numbers numbers = new Numbers();

    private WrittenDecimals(Type pair) {
        this.pair = pair;
    }

    /** What a declaration asks for; null if its decimals are numbers. */
    static WrittenDecimals of(Spec spec) {
        switch (spec.decimals) {
            case "text":
                return new WrittenDecimals(null);
            case "base64":
                return new WrittenDecimals(pair());
            default:
                return null;
        }
    }

    private static Type pair() {
        ArrayNode fields = new ObjectMapper().createArrayNode();
        fields.addObject().put("name", "scale").put("type", "integer");
        fields.addObject().put("name", "value").put("type", "binary");
        ObjectNode struct = new ObjectMapper().createObjectNode().put("type", "struct");
        return Type.of(struct.set("fields", fields));
    }

    /** The decimal that a text writes; null, with {@code fault} set, if it writes none. */
    Object read(Type type, byte[] source, int from, int to) {
        if (pair == null) {
            return number(type, source, from, to);
        }
        return unscaled(type, Scalars.base64(source, from, to), type.scale);
    }

    /** The decimal of a scale and a value. */
    Object read(Type type, InternalRow row) {
        return row.isNullAt(0) || row.isNullAt(1)
                ? refuse(Reasons.WRONG_TYPE)
                : unscaled(type, row.getBinary(1), row.getInt(0));
    }

    private Object unscaled(Type type, byte[] bytes, int scale) {
        if (bytes == null || bytes.length == 0) {
            return refuse(Reasons.WRONG_TYPE);
        }
        String digits = new BigDecimal(new BigInteger(bytes), scale).toString();
        byte[] text = digits.getBytes(StandardCharsets.ISO_8859_1);
        return number(type, text, 0, text.length);
    }

    private Object number(Type type, byte[] source, int from, int to) {
        if (!numbers.scan(source, from, to) || numbers.end != to) {
            return refuse(Reasons.WRONG_TYPE);
        }
        Object found = numbers.as(type);
        return found == null ? refuse(numbers.fault) : found;
    }

    private Object refuse(String reason) {
        fault = reason;
        return null;
    }
}
