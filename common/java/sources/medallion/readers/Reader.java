package medallion.readers;

import org.apache.spark.sql.catalyst.InternalRow;

/** Reads values of one declaration. Not thread-safe. */
public interface Reader {
    /**
     * Reads a value as a struct of fault, fault_field, rescued, value. The caller has checked the
     * value's size.
     */
    InternalRow read(byte[] value);
}
