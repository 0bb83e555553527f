package medallion.protobuf.output;

import com.fasterxml.jackson.databind.JsonNode;

import medallion.faults.UnwritableException;
import medallion.protobuf.WireBytes;
import medallion.readers.FieldPath;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** A message of the declared schema: writes what its column holds as the message's fields. */
final class MessageOutput {
    private static final long FIRST_MICROS = -62135596800000000L;
    private static final long LAST_MICROS = 253402300799999999L;

    final FieldOutput[] fields;

    /** What its column is: a row, bytes, a timestamp, or the value of a wrapper. */
    private final String as;

    static MessageOutput of(JsonNode node) {
        JsonNode members = node.get("fields");
        FieldOutput[] fields = new FieldOutput[members.size()];
        int i = 0;
        for (JsonNode member : members) {
            fields[i++] = new FieldOutput(member);
        }
        return new MessageOutput(node.get("as").asText(), fields);
    }

    private MessageOutput(String as, FieldOutput[] fields) {
        this.as = as;
        this.fields = fields;
    }

    /** Writes the fields of a row. */
    void fields(InternalRow row, WireOutput out, FieldPath path) {
        for (int i = 0; i < fields.length; i++) {
            path.enter(fields[i].name);
            if (fields[i].oneof >= 0 && !row.isNullAt(i)) {
                refuseSecond(row, i, path);
            }
            fields[i].write(row, i, out, path);
            path.leave();
        }
    }

    /** Writes the fields of the message that a column holds. */
    void content(SpecializedGetters from, int place, WireOutput out, FieldPath path) {
        if ("bytes".equals(as)) {
            out.plain(from.getBinary(place));
        } else if ("timestamp".equals(as)) {
            timestamp(from.getLong(place), out, path);
        } else if ("value".equals(as)) {
            fields[0].write(from, place, out, path);
        } else {
            fields(from.getStruct(place, fields.length), out, path);
        }
    }

    /** Writes the two fields of {@code google.protobuf.Timestamp}. */
    private static void timestamp(long micros, WireOutput out, FieldPath path) {
        if (micros < FIRST_MICROS || micros > LAST_MICROS) {
            throw new UnwritableException(path, "is no time of the years 1 to 9999");
        }
        out.tag(1, WireBytes.VARINT);
        out.varint(Math.floorDiv(micros, 1000000L));
        out.tag(2, WireBytes.VARINT);
        out.varint(Math.floorMod(micros, 1000000L) * 1000L);
    }

    private void refuseSecond(InternalRow row, int place, FieldPath path) {
        for (int i = 0; i < place; i++) {
            if (fields[i].oneof == fields[place].oneof && !row.isNullAt(i)) {
                throw new UnwritableException(
                        path,
                        "is set beside '" + fields[i].name + "' of the same oneof, which has one");
            }
        }
    }
}
