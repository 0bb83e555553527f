package medallion.json;

import org.apache.spark.unsafe.types.UTF8String;

import java.util.Arrays;

/**
 * Collects the unknown fields of a value as one JSON object. Each field keeps its path and the
 * bytes that were sent. An array's element without an unknown field becomes {@code null}, so that
 * the other elements keep their index. An object or array without an unknown field is removed when
 * it is closed.
 */
final class Rescued {
    private static final byte[] NULL = new byte[] {'n', 'u', 'l', 'l'};

    private byte[] bytes = new byte[256];
    private int size;

    void clear() {
        bytes = bytes.length > 65536 ? new byte[256] : bytes;
        size = 0;
    }

    UTF8String text() {
        return size == 0 ? null : UTF8String.fromBytes(Arrays.copyOf(bytes, size));
    }

    int size() {
        return size;
    }

    /** Removes everything after this mark. */
    void truncate(int mark) {
        size = mark;
    }

    /** Adds an unknown field: its quoted name and its value. */
    void field(byte[] source, int nameFrom, int nameTo, int valueFrom, int valueTo) {
        name(source, nameFrom, nameTo);
        put(source, valueFrom, valueTo);
    }

    /** Opens an object or array; returns the mark that closes it. */
    int begin(int bracket) {
        put(bracket);
        return size - 1;
    }

    /** Closes an object; removes an empty one. */
    void end(int mark) {
        if (size > mark + 1) {
            put('}');
        } else {
            size = mark;
        }
    }

    /** Closes an array; removes an array without an unknown field. */
    void end(int mark, boolean hasUnknown) {
        if (hasUnknown) {
            put(']');
        } else {
            size = mark;
        }
    }

    /** Adds a member's quoted name. */
    void name(byte[] source, int from, int to) {
        if (bytes[size - 1] != '{') {
            put(',');
        }
        put(source, from, to);
        put(':');
    }

    void comma() {
        put(',');
    }

    void nullElement() {
        put(NULL, 0, NULL.length);
    }

    private void put(int one) {
        reserve(1);
        bytes[size++] = (byte) one;
    }

    private void put(byte[] source, int from, int to) {
        reserve(to - from);
        System.arraycopy(source, from, bytes, size, to - from);
        size += to - from;
    }

    private void reserve(int more) {
        if (size + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(size + more, bytes.length * 2));
        }
    }
}
