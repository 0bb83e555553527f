package medallion.json;

import medallion.readers.Rows;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

import java.util.ArrayList;
import java.util.Arrays;

/**
 * The elements of an array each of which becomes a row. Of the array that a path ends with, each
 * has its bytes and perhaps a fault of its own; of an array on the way, only its value.
 */
final class Elements {
    private final ArrayList<Object> values = new ArrayList<Object>();
    private final ArrayList<Object[]> own = new ArrayList<Object[]>();

    void add(Object value) {
        values.add(value);
    }

    void add(Object value, byte[] bytes, String fault, String faultField) {
        values.add(fault == null ? value : null);
        own.add(new Object[] {bytes, text(fault), text(faultField), null});
    }

    private static UTF8String text(String given) {
        return given == null ? null : UTF8String.fromString(given);
    }

    /**
     * The result for a record: its fields without the array, and per element a struct of bytes,
     * fault, fault_field and the value of the path's first field with the element in the array's
     * place.
     *
     * @param places the places of the fields on the path
     */
    static InternalRow spread(InternalRow row, int[] places) {
        ArrayList<Object> found = new ArrayList<Object>();
        collect(row, 0, places, new InternalRow[places.length], found);
        InternalRow rest = without(row, 0, places);
        return Rows.elements(rest, new GenericArrayData(found.toArray()));
    }

    private static void collect(
            InternalRow row, int depth, int[] places, InternalRow[] way, ArrayList<Object> found) {
        way[depth] = row;
        Object inner = values(row)[places[depth]];
        if (inner instanceof Elements) {
            ((Elements) inner).each(depth, places, way, found);
        } else if (inner != null) {
            collect((InternalRow) inner, depth + 1, places, way, found);
        }
    }

    private void each(int depth, int[] places, InternalRow[] way, ArrayList<Object> found) {
        boolean isInnermost = depth + 1 == places.length;
        for (int i = 0; i < values.size(); i++) {
            Object value = values.get(i);
            if (isInnermost) {
                Object kept = own.get(i);
                Object[] element = (Object[]) kept;
                for (int level = depth; level > 0; level--) {
                    value = with(way[level], places[level], value);
                }
                element[3] = value;
                found.add(new GenericInternalRow(element));
            } else if (value != null) {
                collect((InternalRow) value, depth + 1, places, way, found);
            }
        }
    }

    /** The fields of a record without the first array of the path. */
    private static InternalRow without(InternalRow row, int depth, int[] places) {
        Object inner = values(row)[places[depth]];
        boolean isStruct = inner instanceof InternalRow;
        return with(
                row,
                places[depth],
                isStruct ? without((InternalRow) inner, depth + 1, places) : null);
    }

    private static InternalRow with(InternalRow row, int place, Object value) {
        Object[] values = values(row);
        values = Arrays.copyOf(values, values.length);
        values[place] = value;
        return new GenericInternalRow(values);
    }

    private static Object[] values(InternalRow row) {
        return ((GenericInternalRow) row).values();
    }
}
