package medallion.values;

import org.apache.spark.unsafe.Platform;

/**
 * Checks that bytes are valid UTF-8: no overlong form, no encoded surrogate, no code point above
 * U+10FFFF, no truncated sequence.
 */
public final class Utf8 {
    private static final long HIGH_BITS = 0x8080808080808080L;

    private Utf8() {}

    public static boolean isValid(byte[] bytes) {
        int at = 0;
        int end = bytes.length;
        while (at < end) {
            while (at + 8 <= end
                    && (Platform.getLong(bytes, (long) Platform.BYTE_ARRAY_OFFSET + at) & HIGH_BITS)
                            == 0L) {
                at += 8;
            }
            if (at == end) {
                return true;
            }
            if (bytes[at] >= 0) {
                at++;
                continue;
            }
            int length = sequence(bytes, at, end);
            if (length == 0) {
                return false;
            }
            at += length;
        }
        return true;
    }

    /**
     * Length of the well-formed sequence of two to four bytes that begins at this index; 0 if there
     * is none.
     */
    private static int sequence(byte[] bytes, int at, int end) {
        int first = bytes[at] & 0xFF;
        if (first < 0xC2 || first > 0xF4) {
            return 0;
        }
        int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        if (at + length > end) {
            return 0;
        }
        int second = bytes[at + 1] & 0xFF;
        int low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        int high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (second < low || second > high) {
            return 0;
        }
        for (int i = 2; i < length; i++) {
            if ((bytes[at + i] & 0xC0) != 0x80) {
                return 0;
            }
        }
        return length;
    }
}
