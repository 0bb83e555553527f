package medallion.protobuf.output;

import java.io.ByteArrayOutputStream;

/** Encodes Protobuf's wire format. */
final class WireOutput {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

    void tag(int number, int wire) {
        varint((long) number << 3 | (long) wire);
    }

    /** A whole number of 64 bits, taken without a sign. */
    void varint(long value) {
        long rest = value;
        while ((rest & ~0x7FL) != 0L) {
            bytes.write((int) (rest & 0x7FL) | 0x80);
            rest >>>= 7;
        }
        bytes.write((int) rest);
    }

    /** A whole number of four or eight bytes. */
    void fixed(long value, int size) {
        for (int i = 0; i < size; i++) {
            bytes.write((int) (value >>> (8 * i)) & 0xFF);
        }
    }

    /** A length, and so many bytes. */
    void block(byte[] content) {
        varint(content.length);
        bytes.write(content, 0, content.length);
    }

    /** Bytes without a length before them. */
    void plain(byte[] content) {
        bytes.write(content, 0, content.length);
    }

    byte[] bytes() {
        return bytes.toByteArray();
    }
}
