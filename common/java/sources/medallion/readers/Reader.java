package medallion.readers;

import org.apache.spark.sql.catalyst.InternalRow;

/** Reads values of one declaration. Not thread-safe. */
public interface Reader {
    /**
     * The value as struct of fault, fault_field, rescued, value; its bytes are within the size that
     * is allowed.
     */
    InternalRow read(byte[] value);
}
