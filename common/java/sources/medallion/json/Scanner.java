package medallion.json;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.values.Numbers;

import org.apache.spark.unsafe.Platform;

import java.util.Arrays;

/**
 * Scans JSON (RFC 8259) byte by byte, over bytes that are known to be UTF-8. Finds the end of each
 * token, and refuses invalid JSON, duplicate names, unpaired surrogates, and nesting deeper than
 * the limit.
 */
abstract class Scanner {
    private static final long ONES = 0x0101010101010101L;
    private static final long HIGH_BITS = 0x8080808080808080L;

    byte[] source;
    int at;
    int end;
    final int maxDepth;
    final Numbers numbers = new Numbers();

    /** The array that holds the string read last, without escapes, from textFrom to textTo. */
    byte[] text;

    int textFrom;
    int textTo;

    private int depth;
    private Names[] names = new Names[8];
    private byte[] unescaped = new byte[64];

    Scanner(int maxDepth) {
        this.maxDepth = maxDepth;
    }

    final void open(byte[] bytes) {
        source = bytes;
        at = 0;
        end = bytes.length;
        depth = 0;
    }

    /** Enters an object or array; returns its names, none of them seen yet. */
    final Names enter() {
        at++;
        depth++;
        if (depth > maxDepth) {
            throw new Fault(Reasons.TOO_DEEP);
        }
        if (depth >= names.length) {
            Names[] more = new Names[names.length * 2];
            System.arraycopy(names, 0, more, 0, names.length);
            names = more;
        }
        if (names[depth] == null) {
            names[depth] = new Names();
        }
        names[depth].clear();
        return names[depth];
    }

    final int depth() {
        return depth;
    }

    final void leave() {
        at++;
        depth--;
    }

    /** Skips white space; returns the next byte, -1 at the end. */
    final int peek() {
        while (at < end) {
            byte next = source[at];
            if (next > ' ' || (next != ' ' && next != '\n' && next != '\r' && next != '\t')) {
                return next & 0xFF;
            }
            at++;
        }
        return -1;
    }

    final Fault malformed() {
        return new Fault(Reasons.MALFORMED_JSON);
    }

    /** Reads the colon after a name, and the white space before the colon. */
    final void colon() {
        if (peek() != ':') {
            throw malformed();
        }
        at++;
    }

    /**
     * After a member or element: reads a comma and returns true, or returns false at the closing
     * bracket.
     */
    final boolean isMore(int closing) {
        int next = peek();
        if (next == ',') {
            at++;
            return true;
        }
        if (next != closing) {
            throw malformed();
        }
        return false;
    }

    /** Reads a quoted name or string into {@code text}. */
    final void string() {
        if (peek() != '"') {
            throw malformed();
        }
        int from = at + 1;
        int to = endOfPlain(from);
        if (to < end && source[to] == '"') {
            text = source;
            textFrom = from;
            textTo = to;
            at = to + 1;
            return;
        }
        unescape(from, to);
    }

    /**
     * Index of the first byte from here on that ends a string or begins an escape; a control
     * character is a fault.
     */
    private int endOfPlain(int from) {
        int i = from;
        while (i + 8 <= end) {
            long word = Platform.getLong(source, (long) Platform.BYTE_ARRAY_OFFSET + i);
            long quote = word ^ 0x2222222222222222L;
            long escape = word ^ 0x5C5C5C5C5C5C5C5CL;
            long special =
                    ((quote - ONES) & ~quote)
                            | ((escape - ONES) & ~escape)
                            | ((word - 0x2020202020202020L) & ~word);
            if ((special & HIGH_BITS) != 0L) {
                break;
            }
            i += 8;
        }
        while (i < end) {
            byte next = source[i];
            if (next == '"' || next == '\\') {
                return i;
            }
            if (next >= 0 && next < ' ') {
                throw malformed();
            }
            i++;
        }
        return end;
    }

    private void unescape(int from, int firstEscape) {
        int size = 0;
        int copied = from;
        int i = firstEscape;
        byte[] target = unescaped;
        while (true) {
            if (i >= end) {
                throw malformed();
            }
            int length = i - copied;
            if (size + length + 4 > target.length) {
                target = Arrays.copyOf(target, Math.max(size + length + 4, target.length * 2));
            }
            System.arraycopy(source, copied, target, size, length);
            size += length;
            if (source[i] == '"') {
                break;
            }
            at = i + 1;
            size = escape(target, size);
            copied = at;
            i = endOfPlain(at);
        }
        at = i + 1;
        // A row refers to these bytes without a copy, and the buffer is used again.
        text = Arrays.copyOf(target, size);
        textFrom = 0;
        textTo = size;
        unescaped = target.length > 65536 ? new byte[64] : target;
    }

    /**
     * Decodes the escape that follows a backslash, appends the character to the target, and returns
     * the target's new size.
     */
    private int escape(byte[] target, int size) {
        if (at >= end) {
            throw malformed();
        }
        int kind = source[at++];
        int place = "\"\\/bfnrt".indexOf(kind);
        if (place >= 0) {
            target[size] = (byte) "\"\\/\b\f\n\r\t".charAt(place);
            return size + 1;
        }
        if (kind != 'u') {
            throw malformed();
        }
        int code = hex();
        if (code >= 0xDC00 && code <= 0xDFFF) {
            throw new Fault(Reasons.BAD_UNICODE);
        }
        if (code >= 0xD800 && code <= 0xDBFF) {
            if (at + 2 > end || source[at] != '\\' || source[at + 1] != 'u') {
                throw new Fault(Reasons.BAD_UNICODE);
            }
            at += 2;
            int low = hex();
            if (low < 0xDC00 || low > 0xDFFF) {
                throw new Fault(Reasons.BAD_UNICODE);
            }
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        return encode(code, target, size);
    }

    private static int encode(int code, byte[] target, int size) {
        int next = size;
        if (code < 0x80) {
            target[next++] = (byte) code;
        } else if (code < 0x800) {
            target[next++] = (byte) (0xC0 | (code >> 6));
            target[next++] = (byte) (0x80 | (code & 0x3F));
        } else if (code < 0x10000) {
            target[next++] = (byte) (0xE0 | (code >> 12));
            target[next++] = (byte) (0x80 | ((code >> 6) & 0x3F));
            target[next++] = (byte) (0x80 | (code & 0x3F));
        } else {
            target[next++] = (byte) (0xF0 | (code >> 18));
            target[next++] = (byte) (0x80 | ((code >> 12) & 0x3F));
            target[next++] = (byte) (0x80 | ((code >> 6) & 0x3F));
            target[next++] = (byte) (0x80 | (code & 0x3F));
        }
        return next;
    }

    private int hex() {
        if (at + 4 > end) {
            throw malformed();
        }
        int code = 0;
        for (int i = 0; i < 4; i++) {
            int digit = Character.digit((char) (source[at++] & 0x7F), 16);
            if (digit < 0 || source[at - 1] < 0) {
                throw malformed();
            }
            code = code * 16 + digit;
        }
        return code;
    }

    /** Reads this word if it comes next; returns whether it did. */
    final boolean readWord(String wanted) {
        int length = wanted.length();
        if (at + length > end) {
            return false;
        }
        for (int i = 0; i < length; i++) {
            if (source[at + i] != wanted.charAt(i)) {
                return false;
            }
        }
        at += length;
        return true;
    }

    /** Reads a number into {@code numbers}. */
    final void number() {
        if (!numbers.scan(source, at, end)) {
            if (readWord("-Infinity")) {
                throw new Fault(Reasons.NON_FINITE_NUMBER);
            }
            throw malformed();
        }
        at = numbers.end;
    }

    /** Reads a value of any type and discards it. */
    final void skip() {
        int next = peek();
        if (next == '"') {
            string();
        } else if (next == '{') {
            skipObject();
        } else if (next == '[') {
            skipArray();
        } else if (next == '-' || (next >= '0' && next <= '9')) {
            number();
        } else if (readWord("NaN") || readWord("Infinity")) {
            throw new Fault(Reasons.NON_FINITE_NUMBER);
        } else if (!readWord("true") && !readWord("false") && !readWord("null")) {
            throw malformed();
        }
    }

    private void skipObject() {
        Names seen = enter();
        if (peek() != '}') {
            do {
                string();
                if (!seen.add(text, textFrom, textTo)) {
                    throw new Fault(Reasons.DUPLICATE_KEY);
                }
                colon();
                skip();
            } while (isMore('}'));
        }
        leave();
    }

    private void skipArray() {
        enter();
        if (peek() != ']') {
            do {
                skip();
            } while (isMore(']'));
        }
        leave();
    }
}
