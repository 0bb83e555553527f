package medallion.protobuf.output;

import com.fasterxml.jackson.databind.ObjectMapper;

import medallion.readers.Declarations;
import medallion.readers.FieldPath;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.IOException;
import java.util.concurrent.ConcurrentHashMap;

/** Writes rows as Protobuf messages of a declared type. Declarations are parsed once per JVM. */
public final class ProtobufWriter {
    private static final ConcurrentHashMap<UTF8String, MessageOutput> KNOWN =
            new ConcurrentHashMap<UTF8String, MessageOutput>();

    private ProtobufWriter() {}

    /**
     * Writes a row as a message.
     *
     * @param row the values of the message's fields, in their order and of their types; null gives
     *     null
     * @param message the message, as the reader takes it, in JSON
     * @throws medallion.faults.UnwritableException the message does not take a value
     */
    public static byte[] write(InternalRow row, UTF8String message) {
        if (row == null) {
            return null;
        }
        Object known = KNOWN.get(message);
        MessageOutput output = (MessageOutput) known;
        if (output == null) {
            try {
                output = MessageOutput.of(new ObjectMapper().readTree(message.toString()));
            } catch (IOException error) {
                throw new IllegalArgumentException(
                        "the declaration is not JSON: " + error.getMessage());
            }
            Declarations.makeRoom(KNOWN);
            KNOWN.put(message.copy(), output);
        }
        WireOutput out = new WireOutput();
        output.fields(row, out, new FieldPath());
        return out.bytes();
    }
}
