package medallion.readers;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Builds a reader's result: a struct of fault, fault_field, rescued, value and, where elements are
 * rows, elements.
 */
public final class Rows {
    private Rows() {}

    public static InternalRow fault(String reason, String field) {
        UTF8String path = field == null ? null : UTF8String.fromString(field);
        return new GenericInternalRow(
                new Object[] {UTF8String.fromString(reason), path, null, null, null});
    }

    public static InternalRow value(InternalRow row, UTF8String rescued) {
        return new GenericInternalRow(new Object[] {null, null, rescued, row, null});
    }

    /** A record whose elements are rows: the fields beside them, and the elements. */
    public static InternalRow elements(InternalRow row, ArrayData elements) {
        return new GenericInternalRow(new Object[] {null, null, null, row, elements});
    }
}
