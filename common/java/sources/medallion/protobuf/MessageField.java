package medallion.protobuf;

import com.fasterxml.jackson.databind.JsonNode;

import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.readers.FieldPath;
import medallion.readers.Member;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;

/**
 * A field of the declared message. While a message is read, its slot holds what came: a single
 * value, a message's slots, a stream of the bytes of a message that is kept as bytes, a list, or a
 * map. An item of a list of such messages is an array of bytes.
 */
final class MessageField {
    final String name;
    final int number;

    /** The name that a descriptor has for the type. */
    final String type;

    final boolean isRepeated;
    final boolean isMap;

    /** Whether a message is kept as its bytes. */
    final boolean isBytes;

    /** The number of the oneof that it belongs to; -1: none. */
    final int oneof;

    /** Whether the message is invalid without it. */
    final boolean isRequired;

    /** The value where none came; null: null. */
    final Object absent;

    /** The type of a single value; null for a message. */
    final Scalar scalar;

    /** The message of the field, or the entry of its map; null for a single value. */
    final Message inner;

    static MessageField of(JsonNode node) {
        String type = node.get("type").asText();
        boolean isMessage = "message".equals(type) || "group".equals(type);
        Scalar scalar = isMessage ? null : new Scalar(type, Member.of(node, "symbols"));
        JsonNode absent = Member.of(node, "absent");
        return new MessageField(
                node,
                scalar,
                isMessage ? Message.of(node.get("message")) : null,
                Member.of(node, "required").asBoolean(),
                absent.isTextual() ? scalar.of(absent.asText()) : null);
    }

    private MessageField(
            JsonNode node, Scalar scalar, Message inner, boolean isRequired, Object absent) {
        name = node.get("name").asText();
        number = node.get("number").asInt();
        type = node.get("type").asText();
        isRepeated = Member.of(node, "repeated").asBoolean();
        isMap = Member.of(node, "map").asBoolean();
        oneof = Member.of(node, "oneof").asInt(-1);
        isBytes = inner != null && inner.isBytes();
        this.scalar = scalar;
        this.inner = inner;
        this.isRequired = isRequired;
        this.absent = absent;
    }

    private MessageField(MessageField like, Message inner, boolean isRequired, Object absent) {
        name = like.name;
        number = like.number;
        type = like.type;
        isRepeated = like.isRepeated;
        isMap = like.isMap;
        oneof = like.oneof;
        isBytes = like.isBytes;
        scalar = like.scalar;
        this.inner = inner;
        this.isRequired = isRequired;
        this.absent = absent;
    }

    /** The field with another message in it. */
    MessageField with(Message other) {
        return new MessageField(this, other, isRequired, absent);
    }

    /** The field with a value where none came. */
    MessageField withAbsent(Object value) {
        return new MessageField(this, inner, false, value);
    }

    /** Reads what follows a tag into the field's slot. */
    void read(WireBytes in, int tag, int end, Object[] slots, int place, Reading reading) {
        int kind = tag & 7;
        if (scalar != null) {
            readScalar(in, kind, end, slots, place);
            return;
        }
        boolean isGroup = "group".equals(type);
        if (kind != (isGroup ? WireBytes.GROUP : WireBytes.LENGTH)) {
            throw new Fault(Reasons.WRONG_TYPE);
        }
        int to;
        int after;
        if (isGroup) {
            int from = in.at;
            to = in.skipGroup(number, end, 0);
            after = in.at;
            in.at = from;
        } else {
            to = in.ending(end);
            after = to;
        }
        if (isBytes) {
            addBytes(in, to, slots, place);
        } else if (isMap) {
            addEntry(in, to, slots, place, reading);
        } else {
            inner.read(in, to, ofMessage(slots, place), reading);
        }
        in.at = after;
    }

    private void readScalar(WireBytes in, int kind, int end, Object[] slots, int place) {
        if (isRepeated && scalar.isPackable() && kind == WireBytes.LENGTH) {
            int to = in.ending(end);
            ArrayList<Object> items = list(slots, place);
            while (in.at < to) {
                items.add(scalar.read(in, to));
            }
            return;
        }
        if (kind != scalar.wire) {
            throw new Fault(Reasons.WRONG_TYPE);
        }
        Object found = scalar.read(in, end);
        if (isRepeated) {
            list(slots, place).add(found);
        } else {
            slots[place] = found;
        }
    }

    /**
     * The slots to read a message into: those of a further item, or of the one that came before.
     */
    private Object[] ofMessage(Object[] slots, int place) {
        if (!isRepeated && slots[place] != null) {
            return (Object[]) slots[place];
        }
        Object[] found = inner.slots();
        if (isRepeated) {
            list(slots, place).add(found);
        } else {
            slots[place] = found;
        }
        return found;
    }

    /** Bytes of parts of one message are those of the whole. */
    private void addBytes(WireBytes in, int to, Object[] slots, int place) {
        if (isRepeated) {
            list(slots, place).add(in.take(to));
            return;
        }
        if (slots[place] == null) {
            slots[place] = new ByteArrayOutputStream(to - in.at);
        }
        ((ByteArrayOutputStream) slots[place]).write(in.bytes, in.at, to - in.at);
    }

    private void addEntry(WireBytes in, int to, Object[] slots, int place, Reading reading) {
        Object[] entry = inner.slots();
        inner.read(in, to, entry, reading);
        Object key = entry[0] == null ? inner.fields[0].absent : entry[0];
        MessageField value = inner.fields[1];
        if (entry[1] == null && value.inner != null) {
            entry[1] = value.isBytes ? (Object) new ByteArrayOutputStream(0) : value.inner.slots();
        }
        map(slots, place).put(key, entry[1] == null ? value.absent : entry[1]);
    }

    /** What a slot that holds something becomes in a row. */
    Object finished(Object slot, FieldPath path) {
        if (inner == null) {
            return slot;
        }
        if (!isBytes) {
            return inner.finished((Object[]) slot, path);
        }
        return isRepeated ? slot : (Object) ((ByteArrayOutputStream) slot).toByteArray();
    }

    @SuppressWarnings("unchecked")
    private static ArrayList<Object> list(Object[] slots, int place) {
        if (slots[place] == null) {
            slots[place] = new ArrayList<Object>();
        }
        return (ArrayList<Object>) slots[place];
    }

    @SuppressWarnings("unchecked")
    private static LinkedHashMap<Object, Object> map(Object[] slots, int place) {
        if (slots[place] == null) {
            slots[place] = new LinkedHashMap<Object, Object>();
        }
        return (LinkedHashMap<Object, Object>) slots[place];
    }
}
