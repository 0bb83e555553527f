package medallion.json;

import org.apache.spark.unsafe.types.UTF8String;

import java.util.Arrays;

/**
 * Unknown fields as one JSON object, each at its place and with the very bytes that were sent.
 * Elements of an array that hold none are {@code null}, so that places do not change. What was
 * opened and holds nothing unknown is taken back when it is closed.
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

    /** Takes back all from here on. */
    void cut(int mark) {
        size = mark;
    }

    /** A field that no type names: its name with quotes, its value. */
    void field(byte[] source, int nameFrom, int nameTo, int valueFrom, int valueTo) {
        name(source, nameFrom, nameTo);
        put(source, valueFrom, valueTo);
    }

    /** Opens an object or array; the mark to close it with. */
    int begin(int bracket) {
        put(bracket);
        return size - 1;
    }

    /** Closes an object; nothing of it stays where nothing is in it. */
    void end(int mark) {
        if (size > mark + 1) {
            put('}');
        } else {
            size = mark;
        }
    }

    /** Closes an array; nothing of it stays where no element holds anything. */
    void end(int mark, boolean isAny) {
        if (isAny) {
            put(']');
        } else {
            size = mark;
        }
    }

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

    void nothing() {
        put(NULL, 0, NULL.length);
    }

    private void put(int one) {
        room(1);
        bytes[size++] = (byte) one;
    }

    private void put(byte[] source, int from, int to) {
        room(to - from);
        System.arraycopy(source, from, bytes, size, to - from);
        size += to - from;
    }

    private void room(int more) {
        if (size + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(size + more, bytes.length * 2));
        }
    }
}
