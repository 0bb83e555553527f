package medallion.json;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.Spec;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;

/**
 * Reads Debezium change events. A value is the envelope itself, or {@code {"schema": …, "payload":
 * envelope}} with the members in any order.
 */
public final class DebeziumReader extends JsonReader {
    private static final byte[] SCHEMA = new byte[] {'s', 'c', 'h', 'e', 'm', 'a'};
    private static final byte[] PAYLOAD = new byte[] {'p', 'a', 'y', 'l', 'o', 'a', 'd'};

    public DebeziumReader(Spec spec) {
        super(spec);
    }

    InternalRow document() {
        int start = at;
        at++;
        boolean isWrapped = peek() == '"';
        if (isWrapped) {
            string();
            isWrapped = isText(SCHEMA) || isText(PAYLOAD);
        }
        at = start;
        return isWrapped ? unwrapped() : struct(spec.root);
    }

    /** Reads the envelope in the member payload; any third member is an unknown field. */
    private InternalRow unwrapped() {
        Names seen = enter();
        int before = rescued == null ? 0 : rescued.begin('{');
        InternalRow row = new GenericInternalRow(new Object[spec.root.fields.length]);
        do {
            peek();
            int from = at;
            string();
            if (!seen.add(text, textFrom, textTo)) {
                throw new Fault(Reasons.DUPLICATE_KEY);
            }
            boolean isPayload = isText(PAYLOAD);
            boolean isSchema = isText(SCHEMA);
            int nameTo = at;
            colon();
            int next = peek();
            int valueFrom = at;
            if (isPayload && next == '{') {
                row = members(spec.root);
            } else if (isPayload && next != 'n') {
                skipMismatch();
            } else {
                skip();
                if (rescued != null && !isPayload && !isSchema) {
                    rescued.field(source, from, nameTo, valueFrom, at);
                }
            }
        } while (isMore('}'));
        leave();
        if (rescued != null) {
            rescued.end(before);
        }
        return row;
    }

    private boolean isText(byte[] wanted) {
        return java.util.Arrays.equals(wanted, 0, wanted.length, text, textFrom, textTo);
    }
}
