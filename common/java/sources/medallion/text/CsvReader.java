package medallion.text;

import medallion.faults.Reasons;
import medallion.readers.Reader;
import medallion.readers.Rows;
import medallion.readers.Spec;
import medallion.values.Numbers;
import medallion.values.Scalars;
import medallion.values.Type;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;

/**
 * Reads one line of CSV (RFC 4180), with or without its line end. Values are assigned to the fields
 * by the names of the file's header, if there is one; else by position. Not thread-safe.
 */
public final class CsvReader implements Reader {
    private final Spec spec;
    private final Numbers numbers = new Numbers();
    private final Scalars scalars;

    private final Columns byPosition;

    /** The columns of the header that was seen last. */
    private byte[] header;

    private Columns byName;

    private byte[] source;
    private int at;
    private int end;
    private byte[] text;
    private int from;
    private int to;
    private boolean isQuoted;
    private String fault;
    private String faultField;

    public CsvReader(Spec spec) {
        this.spec = spec;
        this.scalars = new Scalars(spec.isUtc);
        this.byPosition = Columns.byPosition(spec);
    }

    public InternalRow read(byte[] value) {
        return read(value, byPosition);
    }

    /**
     * Reads a line of a file whose first line names its columns.
     *
     * @param first that line, without its end
     */
    public InternalRow read(byte[] value, byte[] first) {
        if (!Arrays.equals(first, header)) {
            byName = Columns.byName(spec, names(first));
            header = first;
        }
        return read(value, byName);
    }

    /** Whether the first line of a file has the name of a field. */
    public boolean knowsAnyOf(byte[] first) {
        return Columns.byName(spec, names(first)).isAny();
    }

    private InternalRow read(byte[] value, Columns columns) {
        begin(value);
        if (end == 0) {
            return Rows.fault(Reasons.EMPTY_VALUE, null);
        }
        if (columns.fault != null) {
            return Rows.fault(columns.fault, columns.faultField);
        }
        Object[] values = new Object[spec.root.fields.length];
        StringBuilder rescued = spec.isRescuing ? new StringBuilder() : null;
        int count = 0;
        boolean isMore = true;
        while (isMore) {
            int place = count < columns.places.length ? columns.places[count] : -1;
            String label = place < 0 ? columns.name(count) : spec.root.labels[place];
            if (!field()) {
                return Rows.fault(Reasons.MALFORMED_CSV, label);
            }
            if (place >= 0) {
                values[place] = converted(spec.root.fields[place], label);
            } else if (rescued != null && label != null) {
                rescue(rescued, label);
            }
            count++;
            isMore = isMore();
        }
        if (count != columns.places.length) {
            return Rows.fault(Reasons.WRONG_FIELD_COUNT, null);
        }
        if (fault != null) {
            return Rows.fault(fault, faultField);
        }
        InternalRow row = new GenericInternalRow(values);
        String absent = spec.absent(row);
        return absent == null
                ? Rows.value(row, Columns.object(rescued))
                : Rows.fault(Reasons.MISSING_REQUIRED, absent);
    }

    private void begin(byte[] value) {
        source = value;
        at = 0;
        end = withoutLineEnd(value);
        fault = null;
        faultField = null;
    }

    /** Steps over a separator; false at the end. */
    private boolean isMore() {
        boolean isMore = at < end;
        at += isMore ? spec.separator.length : 0;
        return isMore;
    }

    /** The names of a header, without blanks around them; none if it cannot be read. */
    private String[] names(byte[] first) {
        begin(first);
        ArrayList<String> found = new ArrayList<String>();
        boolean isMore = true;
        while (isMore) {
            while (at < end && source[at] == ' ' && !isSeparator()) {
                at++;
            }
            if (!field()) {
                return new String[0];
            }
            found.add(new String(text, from, to - from, StandardCharsets.UTF_8).strip());
            isMore = isMore();
        }
        String[] names = new String[found.size()];
        for (int i = 0; i < names.length; i++) {
            names[i] = (String) (Object) found.get(i);
        }
        return names;
    }

    /** Adds the value of a column that is no field: text as it is, or null. */
    private void rescue(StringBuilder rescued, String name) {
        boolean isNull = !isQuoted && isNullText();
        String value = isNull ? null : new String(text, from, to - from, StandardCharsets.UTF_8);
        Columns.add(rescued, name, value);
    }

    private static int withoutLineEnd(byte[] value) {
        int length = value.length;
        if (length > 0 && value[length - 1] == '\n') {
            length--;
            if (length > 0 && value[length - 1] == '\r') {
                length--;
            }
        }
        return length;
    }

    /** Reads a field up to its separator or the end; returns false if the field is malformed. */
    private boolean field() {
        isQuoted = at < end && source[at] == '"';
        if (isQuoted) {
            return quoted();
        }
        text = source;
        from = at;
        while (at < end && !isSeparator()) {
            byte next = source[at];
            if (next == '"' || next == '\n' || next == '\r') {
                return false;
            }
            at++;
        }
        to = at;
        return true;
    }

    private boolean quoted() {
        at++;
        int first = at;
        int doubled = 0;
        while (at < end) {
            if (source[at++] != '"') {
                continue;
            }
            if (at < end && source[at] == '"') {
                at++;
                doubled++;
                continue;
            }
            unquote(first, at - 1, doubled);
            return at == end || isSeparator();
        }
        return false;
    }

    /** Sets the text between the quotes, with one quote for each doubled quote. */
    private void unquote(int first, int last, int doubled) {
        text = source;
        from = first;
        to = last;
        if (doubled == 0) {
            return;
        }
        text = new byte[last - first - doubled];
        from = 0;
        to = 0;
        for (int i = first; i < last; i++) {
            text[to++] = source[i];
            i += source[i] == '"' ? 1 : 0;
        }
    }

    private boolean isSeparator() {
        int after = at + spec.separator.length;
        return after <= end
                && Arrays.equals(spec.separator, 0, spec.separator.length, source, at, after);
    }

    private Object converted(Type type, String label) {
        if (!isQuoted && isNullText()) {
            return null;
        }
        String reason;
        Object found;
        if (type.kind == Type.BOOLEAN) {
            found =
                    isWord("true")
                            ? (Object) Boolean.TRUE
                            : isWord("false") ? (Object) Boolean.FALSE : null;
            reason = Reasons.WRONG_TYPE;
        } else if (type.kind >= Type.BYTE && type.kind <= Type.DECIMAL) {
            boolean isNumber = numbers.scan(text, from, to) && numbers.end == to;
            found = isNumber ? numbers.as(type) : null;
            reason = isNumber ? numbers.fault : Reasons.WRONG_TYPE;
        } else {
            found = scalars.as(type, text, from, to);
            reason = scalars.fault;
        }
        if (found == null && fault == null) {
            fault = reason;
            faultField = label;
        }
        return found;
    }

    private boolean isNullText() {
        for (int i = 0; i < spec.nullTexts.length; i++) {
            byte[] wanted = spec.nullTexts[i];
            if (Arrays.equals(wanted, 0, wanted.length, text, from, to)) {
                return true;
            }
        }
        return false;
    }

    private boolean isWord(String wanted) {
        return to - from == wanted.length() && new String(text, from, to - from).equals(wanted);
    }
}
