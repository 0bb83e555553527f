package medallion.protobuf;

import com.fasterxml.jackson.databind.JsonNode;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.FieldPath;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;

/**
 * A message of the declared schema: reads its bytes into slots, one per field, and makes a row of
 * them. What belongs to one message may come in parts, so that it is a row only at the end.
 */
final class Message {
    private static final long FIRST_SECOND = -62135596800L;
    private static final long LAST_SECOND = 253402300799L;

    final String name;
    final MessageField[] fields;

    /** What it becomes: a row, bytes, a timestamp, or the value of a wrapper. */
    private final String as;

    private final HashMap<Integer, Integer> places = new HashMap<Integer, Integer>();

    static Message of(JsonNode node) {
        JsonNode members = node.get("fields");
        MessageField[] fields = new MessageField[members.size()];
        int i = 0;
        for (JsonNode member : members) {
            fields[i++] = MessageField.of(member);
        }
        return new Message(node.get("name").asText(), node.get("as").asText(), fields);
    }

    private Message(String name, String as, MessageField[] fields) {
        this.name = name;
        this.as = as;
        this.fields = fields;
        for (int i = 0; i < fields.length; i++) {
            places.put(Integer.valueOf(fields[i].number), Integer.valueOf(i));
        }
    }

    /** The message with other fields in the places of its own. */
    Message with(MessageField[] others) {
        return new Message(name, as, others);
    }

    boolean isBytes() {
        return "bytes".equals(as);
    }

    /** Whether it becomes neither a row nor bytes: what its fields mean depends on its name. */
    boolean isSpecial() {
        return "timestamp".equals(as) || "value".equals(as);
    }

    /** A slot per field; the last holds the unknown fields. */
    Object[] slots() {
        return new Object[fields.length + 1];
    }

    void read(WireBytes in, int end, Object[] slots, Reading reading) {
        while (in.at < end) {
            int from = in.at;
            int tag = in.tag(end);
            if ((tag & 7) == WireBytes.END_GROUP) {
                throw WireBytes.malformed();
            }
            Object place = places.get(Integer.valueOf(tag >>> 3));
            if (place == null) {
                in.skip(tag, end);
                if (reading.keepsUnknown) {
                    UnknownFields.add(slots, tag >>> 3, in, from);
                }
                continue;
            }
            int found = ((Integer) place).intValue();
            MessageField field = fields[found];
            reading.path.enter(field.name);
            field.read(in, tag, end, slots, found, reading);
            reading.path.leave();
            if (field.oneof >= 0) {
                clearOthers(field, slots);
            }
        }
        if (in.at != end) {
            throw WireBytes.malformed();
        }
    }

    /** Of a oneof, the member that came last is set. */
    private void clearOthers(MessageField field, Object[] slots) {
        for (int i = 0; i < fields.length; i++) {
            if (fields[i].oneof == field.oneof && fields[i] != field) {
                slots[i] = null;
            }
        }
    }

    /** What the slots become: a row, or the value that the message stands for. */
    Object finished(Object[] slots, FieldPath path) {
        if ("timestamp".equals(as)) {
            return micros(slots);
        }
        Object[] row = new Object[fields.length];
        for (int i = 0; i < row.length; i++) {
            path.enter(fields[i].name);
            row[i] = value(fields[i], slots[i], path);
            path.leave();
        }
        return "value".equals(as) ? row[0] : new GenericInternalRow(row);
    }

    private static Object value(MessageField field, Object slot, FieldPath path) {
        if (field.isMap) {
            return map(field, slot, path);
        }
        if (field.isRepeated) {
            ArrayList<?> items = slot == null ? new ArrayList<Object>() : (ArrayList<?>) slot;
            Object[] found = new Object[items.size()];
            for (int i = 0; i < found.length; i++) {
                Object item = items.get(i);
                found[i] = field.finished(item, path);
            }
            return new GenericArrayData(found);
        }
        if (slot != null) {
            return field.finished(slot, path);
        }
        if (field.isRequired) {
            throw new Fault(Reasons.MISSING_REQUIRED);
        }
        return field.absent;
    }

    private static Object map(MessageField field, Object slot, FieldPath path) {
        Map<?, ?> entries = slot == null ? new HashMap<Object, Object>() : (Map<?, ?>) slot;
        Object[] keys = entries.keySet().toArray();
        Object[] values = new Object[keys.length];
        for (int i = 0; i < keys.length; i++) {
            Object value = entries.get(keys[i]);
            values[i] = field.inner.fields[1].finished(value, path);
        }
        return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
    }

    /** Seconds and nanoseconds since 1970 in microseconds, if that is the same time. */
    private static Long micros(Object[] slots) {
        long seconds = slots[0] == null ? 0L : ((Long) slots[0]).longValue();
        int nanos = slots[1] == null ? 0 : ((Integer) slots[1]).intValue();
        if (nanos < 0 || nanos > 999999999) {
            throw new Fault(Reasons.INVALID_TIMESTAMP);
        }
        if (seconds < FIRST_SECOND || seconds > LAST_SECOND) {
            throw new Fault(Reasons.NUMBER_OUT_OF_RANGE);
        }
        if (nanos % 1000 != 0) {
            throw new Fault(Reasons.NUMBER_ROUNDED);
        }
        return Long.valueOf(seconds * 1000000L + nanos / 1000);
    }
}
