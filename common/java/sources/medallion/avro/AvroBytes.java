package medallion.avro;

import medallion.faults.Fault;
import medallion.faults.Reasons;

import org.apache.avro.io.Decoder;
import org.apache.avro.util.Utf8;

import java.nio.ByteBuffer;

/**
 * Decodes Avro's binary encoding from an array, strictly: no allocation is larger than the bytes
 * that are left, a boolean is 0 or 1, and every violation is a fault.
 *
 * <p>Avro's own decoder trusts each length that it reads, and reads any byte other than 1 as false.
 */
public final class AvroBytes extends Decoder {
    /** The integer read last. */
    long whole;

    /** Whether the number read last, since the caller set this to false, is an integer. */
    boolean hasWhole;

    private byte[] bytes;
    private int at;
    private int end;

    public void set(byte[] value, int from) {
        bytes = value;
        at = from;
        end = value.length;
    }

    /** Where the next byte is. */
    public int place() {
        return at;
    }

    public void seek(int place) {
        at = place;
    }

    public boolean isAtEnd() {
        return at == end;
    }

    int left() {
        return end - at;
    }

    public void readNull() {}

    public boolean readBoolean() {
        int found = next();
        if (found > 1) {
            throw malformed();
        }
        return found == 1;
    }

    public int readInt() {
        long found = varint(5);
        if (found < Integer.MIN_VALUE || found > Integer.MAX_VALUE) {
            throw malformed();
        }
        whole = found;
        hasWhole = true;
        return (int) found;
    }

    public long readLong() {
        whole = varint(10);
        hasWhole = true;
        return whole;
    }

    public float readFloat() {
        hasWhole = false;
        return Float.intBitsToFloat((int) fixed(4));
    }

    public double readDouble() {
        hasWhole = false;
        return Double.longBitsToDouble(fixed(8));
    }

    public Utf8 readString(Utf8 old) {
        return new Utf8(take(length()));
    }

    public String readString() {
        return readString(null).toString();
    }

    public void skipString() {
        skip(length());
    }

    public ByteBuffer readBytes(ByteBuffer old) {
        return ByteBuffer.wrap(take(length()));
    }

    public void skipBytes() {
        skip(length());
    }

    public void readFixed(byte[] target, int start, int length) {
        need(length);
        System.arraycopy(bytes, at, target, start, length);
        at += length;
    }

    public void skipFixed(int length) {
        skip(length);
    }

    public int readEnum() {
        return index();
    }

    public int readIndex() {
        return index();
    }

    public long readArrayStart() {
        return block();
    }

    public long arrayNext() {
        return block();
    }

    public long skipArray() {
        return skipBlocks();
    }

    public long readMapStart() {
        return block();
    }

    public long mapNext() {
        return block();
    }

    public long skipMap() {
        return skipBlocks();
    }

    /**
     * Number of items in the next block; 0 ends the array or map. An item has at least one byte:
     * {@code AvroRules} forbids schemas with items of no bytes.
     */
    private long block() {
        long count = varint(10);
        if (count < 0) {
            int size = length();
            need(size);
            count = -count;
        }
        if (count < 0 || count > left()) {
            throw malformed();
        }
        return count;
    }

    private long skipBlocks() {
        long count = varint(10);
        while (count < 0) {
            skip(length());
            count = varint(10);
        }
        if (count > left()) {
            throw malformed();
        }
        return count;
    }

    private int index() {
        long found = varint(5);
        if (found < 0 || found > Integer.MAX_VALUE) {
            throw malformed();
        }
        return (int) found;
    }

    private int length() {
        long found = varint(10);
        if (found < 0 || found > left()) {
            throw malformed();
        }
        return (int) found;
    }

    private long varint(int maxBytes) {
        long found = 0L;
        for (int i = 0; i < maxBytes; i++) {
            int part = next();
            if (i == 9 && part > 1) {
                throw malformed();
            }
            found |= (long) (part & 0x7F) << (7 * i);
            if (part < 0x80) {
                return (found >>> 1) ^ -(found & 1L);
            }
        }
        throw malformed();
    }

    private long fixed(int size) {
        need(size);
        long found = 0L;
        for (int i = 0; i < size; i++) {
            found |= (long) (bytes[at + i] & 0xFF) << (8 * i);
        }
        at += size;
        return found;
    }

    private int next() {
        need(1);
        return bytes[at++] & 0xFF;
    }

    private byte[] take(int size) {
        byte[] found = new byte[size];
        readFixed(found, 0, size);
        return found;
    }

    private void skip(int size) {
        need(size);
        at += size;
    }

    private void need(int size) {
        if (size < 0 || size > end - at) {
            throw malformed();
        }
    }

    private static Fault malformed() {
        return new Fault(Reasons.MALFORMED_AVRO);
    }
}
