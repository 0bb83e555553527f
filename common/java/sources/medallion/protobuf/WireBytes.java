package medallion.protobuf;

import medallion.faults.Fault;
import medallion.faults.Reasons;

/**
 * Decodes Protobuf's wire format from an array, strictly: nothing is read beyond the message that
 * it belongs to, and every violation is a fault.
 */
public final class WireBytes {
    public static final int VARINT = 0;
    public static final int FIXED_64 = 1;
    public static final int LENGTH = 2;
    public static final int GROUP = 3;
    public static final int END_GROUP = 4;
    public static final int FIXED_32 = 5;

    private static final int MOST_GROUPS = 100;

    byte[] bytes;
    int at;

    void set(byte[] value, int from) {
        bytes = value;
        at = from;
    }

    /** A field's number and wire type. */
    int tag(int end) {
        long tag = varint(5, end);
        if (tag >>> 32 != 0L || tag >>> 3 == 0L || (tag & 7L) > FIXED_32) {
            throw malformed();
        }
        return (int) tag;
    }

    /** A whole number of at most 64 bits. */
    long varint(int end) {
        return varint(10, end);
    }

    private long varint(int most, int end) {
        long found = 0L;
        for (int i = 0; i < most; i++) {
            need(1, end);
            int part = bytes[at++] & 0xFF;
            if (i == 9 && part > 1 && part < 0x80) {
                throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
            }
            found |= (long) (part & 0x7F) << (7 * i);
            if (part < 0x80) {
                return found;
            }
        }
        throw malformed();
    }

    /** A whole number of four or eight bytes, without a sign. */
    long fixed(int size, int end) {
        need(size, end);
        long found = 0L;
        for (int i = 0; i < size; i++) {
            found |= (long) (bytes[at + i] & 0xFF) << (8 * i);
        }
        at += size;
        return found;
    }

    /** Reads a length; returns where what it belongs to ends. */
    int ending(int end) {
        long size = varint(5, end);
        if (size > end - at) {
            throw malformed();
        }
        return at + (int) size;
    }

    byte[] take(int to) {
        byte[] found = new byte[to - at];
        System.arraycopy(bytes, at, found, 0, found.length);
        at = to;
        return found;
    }

    /** Skips what follows a tag. */
    void skip(int tag, int end) {
        skip(tag, end, 0);
    }

    /** Skips a group's fields and its last tag; returns where its last tag begins. */
    int skipGroup(int number, int end, int depth) {
        if (depth > MOST_GROUPS) {
            throw new Fault(Reasons.TOO_DEEP);
        }
        while (true) {
            int before = at;
            int tag = tag(end);
            if ((tag & 7) != END_GROUP) {
                skip(tag, end, depth);
            } else if (tag >>> 3 == number) {
                return before;
            } else {
                throw malformed();
            }
        }
    }

    private void skip(int tag, int end, int depth) {
        int kind = tag & 7;
        if (kind == VARINT) {
            varint(end);
        } else if (kind == FIXED_64) {
            fixed(8, end);
        } else if (kind == LENGTH) {
            at = ending(end);
        } else if (kind == GROUP) {
            skipGroup(tag >>> 3, end, depth + 1);
        } else if (kind == FIXED_32) {
            fixed(4, end);
        } else {
            throw malformed();
        }
    }

    private void need(int size, int end) {
        if (size > end - at) {
            throw malformed();
        }
    }

    static Fault malformed() {
        return new Fault(Reasons.MALFORMED_PROTOBUF);
    }
}
