package medallion.text;

import com.fasterxml.jackson.core.io.JsonStringEncoder;

import medallion.faults.Reasons;
import medallion.readers.Spec;

import org.apache.spark.unsafe.types.UTF8String;

import java.util.Locale;

/**
 * Which field of the declaration each column of a file's lines is. Names are compared without
 * regard to case.
 */
final class Columns {
    /** By the place of a column: the place of its field; -1 for a column that is no field. */
    final int[] places;

    /** Why no line of the file can be read, and the column that it is about; else null. */
    String fault;

    String faultField;

    private final String[] names;

    private Columns(String[] names, int count) {
        this.names = names;
        this.places = new int[count];
    }

    static Columns byPosition(Spec spec) {
        Columns found = new Columns(new String[0], spec.root.fields.length);
        for (int i = 0; i < found.places.length; i++) {
            found.places[i] = i;
        }
        return found;
    }

    static Columns byName(Spec spec, String[] names) {
        Columns found = new Columns(names, names.length);
        for (int column = 0; column < names.length; column++) {
            found.places[column] = -1;
        }
        for (int field = 0; field < spec.root.labels.length; field++) {
            found.take(spec.root.labels[field], field, spec.optional[field]);
        }
        for (int column = 0; spec.isRescuing && column < names.length; column++) {
            if (found.places[column] < 0 && found.isTwice(column)) {
                found.because(Reasons.DUPLICATE_COLUMN, names[column]);
            }
        }
        return found;
    }

    private void take(String label, int field, boolean isOptional) {
        int count = 0;
        int last = -1;
        for (int column = 0; column < names.length; column++) {
            if (isSame(names[column], label)) {
                count++;
                last = column;
            }
        }
        if (count == 1) {
            places[last] = field;
        } else if (!isOptional) {
            because(count == 0 ? Reasons.MISSING_COLUMN : Reasons.DUPLICATE_COLUMN, label);
        }
    }

    /** Whether a column that is no field has the name of another one: an object has a name once. */
    private boolean isTwice(int column) {
        for (int other = 0; other < column; other++) {
            if (names[other].equals(names[column])) {
                return true;
            }
        }
        return false;
    }

    /** Whether a column has the name of a field. */
    boolean isAny() {
        for (int column = 0; column < places.length; column++) {
            if (places[column] >= 0) {
                return true;
            }
        }
        return false;
    }

    private static boolean isSame(String one, String other) {
        return one.toLowerCase(Locale.ROOT).equals(other.toLowerCase(Locale.ROOT));
    }

    private void because(String reason, String column) {
        if (fault == null) {
            fault = reason;
            faultField = column;
        }
    }

    /** The name of a column; null if it has none. */
    String name(int column) {
        return column < names.length ? names[column] : null;
    }

    /** Adds a member to the text of an object. */
    static void add(StringBuilder object, String name, String value) {
        object.append(object.length() == 0 ? '{' : ',');
        quote(object, name);
        object.append(':');
        if (value == null) {
            object.append("null");
        } else {
            quote(object, value);
        }
    }

    private static void quote(StringBuilder object, String text) {
        object.append('"').append(JsonStringEncoder.getInstance().quoteAsString(text)).append('"');
    }

    /** The object whose members were added; null if there are none. */
    static UTF8String object(StringBuilder members) {
        return members == null || members.length() == 0
                ? null
                : UTF8String.fromString(members.append('}').toString());
    }
}
