package medallion.text;

import medallion.readers.Reader;
import medallion.readers.Rows;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads the whole value as one string. */
public final class TextReader implements Reader {
    public InternalRow read(byte[] value) {
        return Rows.value(new GenericInternalRow(new Object[] {UTF8String.fromBytes(value)}), null);
    }
}
