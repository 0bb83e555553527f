package medallion.json;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.Reader;
import medallion.readers.Rows;
import medallion.readers.Spec;
import medallion.values.Scalars;
import medallion.values.Type;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

import java.util.ArrayList;
import java.util.Arrays;

/**
 * Reads one JSON object as a row of the declared type, in one pass.
 *
 * <p>The fault of a row is, in this order: that the document is not one JSON object; the first
 * value that does not fit its field; the first required field that is absent. Not thread-safe.
 */
public class JsonReader extends Scanner implements Reader {
    final Spec spec;
    final Scalars scalars;

    /** Decimals that are written in texts; null if the declaration has only numbers. */
    private final WrittenDecimals decimals;

    /** Unknown fields found so far; null if the declaration does not keep unknown fields. */
    final Rescued rescued;

    /** Name of the declared field being read, per nesting level. */
    String[] trail = new String[8];

    int trailDepth;

    private int[][] seen = new int[8][];
    private int generation;
    private String fault;
    private String faultField;
    private String missing;

    public JsonReader(Spec spec) {
        super(spec.maxDepth);
        this.spec = spec;
        this.scalars = new Scalars(spec.isUtc);
        this.decimals = WrittenDecimals.of(spec);
        this.rescued = spec.isRescuing ? new Rescued() : null;
    }

    public final InternalRow read(byte[] value) {
        open(value);
        trailDepth = 0;
        fault = null;
        faultField = null;
        missing = null;
        if (rescued != null) {
            rescued.clear();
        }
        try {
            if (peek() < 0) {
                return Rows.fault(Reasons.EMPTY_VALUE, null);
            }
            boolean isObject = source[at] == '{';
            InternalRow row = null;
            if (isObject) {
                row = document();
            } else {
                skip();
            }
            if (peek() >= 0) {
                return Rows.fault(Reasons.TRAILING_DATA, null);
            }
            if (!isObject) {
                return Rows.fault(Reasons.NOT_AN_OBJECT, null);
            }
            return result(row);
        } catch (Fault found) {
            return Rows.fault(found.reason, path());
        } catch (StackOverflowError tooDeep) {
            return Rows.fault(Reasons.TOO_DEEP, path());
        }
    }

    private InternalRow result(InternalRow row) {
        if (fault != null) {
            return Rows.fault(fault, faultField);
        }
        String absent = missing == null ? spec.absent(row) : missing;
        if (absent != null) {
            return Rows.fault(Reasons.MISSING_REQUIRED, absent);
        }
        if (spec.each.length > 0) {
            return Elements.spread(row, spec.each);
        }
        return Rows.value(row, rescued == null ? null : rescued.text());
    }

    /** Reads the root object. */
    InternalRow document() {
        return struct(spec.root);
    }

    /** Reads the value that comes next, as this type. */
    final Object value(Type type) {
        int next = peek();
        if (next == 'n' && readWord("null")) {
            return null;
        }
        switch (type.kind) {
            case Type.STRING:
                return text(type, next);
            case Type.STRUCT:
                return next == '{' ? struct(type) : skipMismatch();
            case Type.ARRAY:
                return next == '[' ? array(type) : skipMismatch();
            case Type.MAP:
                return next == '{' ? map(type) : skipMismatch();
            case Type.EACH:
                return next == '[' ? elements(type) : skipMismatch();
            case Type.BOOLEAN:
                return next == 't' && readWord("true")
                        ? (Object) Boolean.TRUE
                        : next == 'f' && readWord("false")
                                ? (Object) Boolean.FALSE
                                : skipMismatch();
            default:
                return decimals != null && type.kind == Type.DECIMAL
                        ? decimal(type, next)
                        : scalar(type, next);
        }
    }

    private Object decimal(Type type, int next) {
        Object found;
        if (next == '"') {
            string();
            found = decimals.read(type, text, textFrom, textTo);
        } else if (next == '{' && decimals.pair != null) {
            found = decimals.read(type, members(decimals.pair));
        } else {
            return scalar(type, next);
        }
        return found == null ? recordFault(decimals.fault) : found;
    }

    private Object text(Type type, int next) {
        UTF8String found;
        if (next == '"') {
            string();
            found = UTF8String.fromBytes(text, textFrom, textTo - textFrom);
        } else {
            int from = at;
            skip();
            found = UTF8String.fromBytes(source, from, at - from);
        }
        Object kept = scalars.string(type, found);
        return kept == null ? recordFault(scalars.fault) : kept;
    }

    private Object scalar(Type type, int next) {
        if (next == '"') {
            string();
            Object found = scalars.as(type, text, textFrom, textTo);
            return found == null ? recordFault(scalars.fault) : found;
        }
        if (next == '-' || (next >= '0' && next <= '9')) {
            number();
            Object found = numbers.as(type);
            return found == null ? recordFault(numbers.fault) : found;
        }
        return skipMismatch();
    }

    /** Records a value of the wrong type and skips the value; returns null. */
    final Object skipMismatch() {
        recordFault(Reasons.WRONG_TYPE);
        skip();
        return null;
    }

    /**
     * Records a fault, unless the value has one already, and returns null. Reading continues,
     * because the rest of the document may turn out not to be JSON.
     */
    private Object recordFault(String reason) {
        if (fault == null) {
            fault = reason;
            faultField = path();
        }
        return null;
    }

    final InternalRow struct(Type type) {
        if (rescued == null) {
            return members(type);
        }
        int before = rescued.begin('{');
        InternalRow row = members(type);
        rescued.end(before);
        return row;
    }

    final InternalRow members(Type type) {
        Names unknown = enter();
        int level = push();
        int[] marks = marks(level, type.names.length);
        generation = generation == Integer.MAX_VALUE ? 1 : generation + 1;
        int mark = generation;
        Object[] values = new Object[type.names.length];
        if (peek() != '}') {
            int expected = 0;
            do {
                expected = member(type, expected, values, marks, mark, unknown, level) + 1;
            } while (isMore('}'));
        }
        leave();
        pop();
        for (int i = 0; i < values.length; i++) {
            if (type.notNull[i] && values[i] == null && missing == null) {
                String within = path();
                missing = within == null ? type.labels[i] : within + "." + type.labels[i];
            }
        }
        return new GenericInternalRow(values);
    }

    /**
     * Reads one member of an object.
     *
     * @param expected index of the field that comes next in the declared order
     * @return index of the member's field; {@code expected - 1} for an unknown name
     */
    private int member(
            Type type,
            int expected,
            Object[] values,
            int[] marks,
            int mark,
            Names unknown,
            int level) {
        int from = peek() < 0 ? end : at;
        int field = name(type, expected);
        if (field < 0) {
            trail[level] = null;
            if (!unknown.add(text, textFrom, textTo)) {
                throw new Fault(Reasons.DUPLICATE_KEY);
            }
            int nameTo = at;
            colon();
            peek();
            int valueFrom = at;
            skip();
            if (rescued != null) {
                rescued.field(source, from, nameTo, valueFrom, at);
            }
            return expected - 1;
        }
        trail[level] = type.labels[field];
        if (marks[field] == mark) {
            throw new Fault(Reasons.DUPLICATE_KEY);
        }
        marks[field] = mark;
        int nameTo = at;
        colon();
        values[field] = nested(type.fields[field], from, nameTo);
        trail[level] = null;
        return field;
    }

    /**
     * Reads a name and returns the index of its field, -1 for an unknown name. Fields mostly come
     * in the declared order, so the expected field is compared first.
     */
    private int name(Type type, int expected) {
        if (expected < type.quoted.length) {
            byte[] quoted = type.quoted[expected];
            int to = at + quoted.length;
            if (to <= end && Arrays.equals(quoted, 0, quoted.length, source, at, to)) {
                at = to;
                return expected;
            }
        }
        string();
        return type.find(text, textFrom, textTo);
    }

    private Object nested(Type type, int nameFrom, int nameTo) {
        if (rescued == null || type.kind > Type.MAP) {
            return value(type);
        }
        int before = rescued.size();
        rescued.name(source, nameFrom, nameTo);
        int emptySize = rescued.size();
        Object found = value(type);
        if (rescued.size() == emptySize) {
            rescued.truncate(before);
        }
        return found;
    }

    private Object array(Type type) {
        enter();
        int level = push();
        trail[level] = "element";
        boolean isRescuing = rescued != null && type.element.kind <= Type.MAP;
        int before = isRescuing ? rescued.begin('[') : 0;
        boolean hasUnknown = false;
        ArrayList<Object> elements = new ArrayList<Object>();
        if (peek() != ']') {
            do {
                if (isRescuing) {
                    hasUnknown |= element(type.element, elements);
                } else {
                    elements.add(value(type.element));
                }
            } while (isMore(']'));
        }
        leave();
        pop();
        if (isRescuing) {
            rescued.end(before, hasUnknown);
        }
        return new GenericArrayData(elements.toArray());
    }

    /** Reads an array each of whose elements becomes a row. */
    private Elements elements(Type type) {
        enter();
        Elements found = new Elements();
        if (peek() != ']') {
            do {
                if (type.isInnermost) {
                    rowOfElement(type.element, found);
                } else {
                    found.add(value(type.element));
                }
            } while (isMore(']'));
        }
        leave();
        return found;
    }

    /** Reads an element that becomes a row: its faults are its own, not those of the record. */
    private void rowOfElement(Type type, Elements found) {
        String faultBefore = fault;
        String fieldBefore = faultField;
        String missingBefore = missing;
        fault = null;
        faultField = null;
        missing = null;
        peek();
        int from = at;
        Object value = value(type);
        String reason = fault == null && missing != null ? Reasons.MISSING_REQUIRED : fault;
        String field = fault == null ? missing : faultField;
        found.add(value, Arrays.copyOfRange(source, from, at), reason, field);
        fault = faultBefore;
        faultField = fieldBefore;
        missing = missingBefore;
    }

    /** Reads an array's element; returns whether the element holds an unknown field. */
    private boolean element(Type type, ArrayList<Object> elements) {
        if (!elements.isEmpty()) {
            rescued.comma();
        }
        int emptySize = rescued.size();
        elements.add(value(type));
        if (rescued.size() > emptySize) {
            return true;
        }
        rescued.nullElement();
        return false;
    }

    private Object map(Type type) {
        Names known = enter();
        int level = push();
        trail[level] = "value";
        int before = rescued == null ? 0 : rescued.begin('{');
        ArrayList<Object> keys = new ArrayList<Object>();
        ArrayList<Object> values = new ArrayList<Object>();
        if (peek() != '}') {
            do {
                peek();
                int from = at;
                string();
                if (!known.add(text, textFrom, textTo)) {
                    throw new Fault(Reasons.DUPLICATE_KEY);
                }
                keys.add(UTF8String.fromBytes(text, textFrom, textTo - textFrom));
                int nameTo = at;
                colon();
                values.add(nested(type.element, from, nameTo));
            } while (isMore('}'));
        }
        leave();
        pop();
        if (rescued != null) {
            rescued.end(before);
        }
        return new ArrayBasedMapData(
                new GenericArrayData(keys.toArray()), new GenericArrayData(values.toArray()));
    }

    private int push() {
        int level = trailDepth++;
        if (level >= trail.length) {
            String[] longer = new String[trail.length * 2];
            System.arraycopy(trail, 0, longer, 0, trail.length);
            trail = longer;
        }
        trail[level] = null;
        return level;
    }

    private void pop() {
        trailDepth--;
    }

    private int[] marks(int level, int size) {
        if (level >= seen.length) {
            int[][] longer = new int[seen.length * 2][];
            System.arraycopy(seen, 0, longer, 0, seen.length);
            seen = longer;
        }
        if (seen[level] == null || seen[level].length < size) {
            seen[level] = new int[size];
        }
        return seen[level];
    }

    /** Dotted name of the declared field being read; null at the root. */
    private String path() {
        StringBuilder path = new StringBuilder();
        for (int i = 0; i < trailDepth && trail[i] != null; i++) {
            path.append(i == 0 ? "" : ".").append(trail[i]);
        }
        return path.length() == 0 ? null : path.toString();
    }
}
