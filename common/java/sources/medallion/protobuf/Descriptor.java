package medallion.protobuf;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;

/**
 * A message of which only the numbers of the fields are known: a part of a descriptor, which is
 * itself a message of Protobuf.
 */
final class Descriptor {
    private final HashMap<Integer, ArrayList<Object>> fields =
            new HashMap<Integer, ArrayList<Object>>();

    /** Reads a message; throws a fault if the bytes are none. */
    static Descriptor of(byte[] content) {
        Descriptor found = new Descriptor();
        WireBytes in = new WireBytes();
        in.set(content, 0);
        while (in.at < content.length) {
            int tag = in.tag(content.length);
            Object value;
            if ((tag & 7) == WireBytes.VARINT) {
                value = Long.valueOf(in.varint(content.length));
            } else if ((tag & 7) == WireBytes.LENGTH) {
                value = in.take(in.ending(content.length));
            } else {
                in.skip(tag, content.length);
                continue;
            }
            Object before = found.fields.get(Integer.valueOf(tag >>> 3));
            @SuppressWarnings("unchecked")
            ArrayList<Object> values = (ArrayList<Object>) before;
            if (values == null) {
                values = new ArrayList<Object>();
                found.fields.put(Integer.valueOf(tag >>> 3), values);
            }
            values.add(value);
        }
        return found;
    }

    /** The messages of a repeated field. */
    ArrayList<Descriptor> all(int number) {
        ArrayList<Descriptor> found = new ArrayList<Descriptor>();
        Object known = fields.get(Integer.valueOf(number));
        if (known != null) {
            for (Object value : (ArrayList<?>) known) {
                if (!(value instanceof byte[])) {
                    throw WireBytes.malformed();
                }
                found.add(of((byte[]) value));
            }
        }
        return found;
    }

    /** The message of a field; one without fields if there is none. */
    Descriptor one(int number) {
        ArrayList<Descriptor> found = all(number);
        if (found.isEmpty()) {
            return new Descriptor();
        }
        Object last = found.get(found.size() - 1);
        return (Descriptor) last;
    }

    String text(int number) {
        Object last = last(number);
        return last instanceof byte[] ? new String((byte[]) last, StandardCharsets.UTF_8) : "";
    }

    /** A whole number or a boolean. */
    int whole(int number, int otherwise) {
        Object last = last(number);
        return last instanceof Long ? ((Long) last).intValue() : otherwise;
    }

    private Object last(int number) {
        Object known = fields.get(Integer.valueOf(number));
        if (known == null) {
            return null;
        }
        ArrayList<?> values = (ArrayList<?>) known;
        return values.get(values.size() - 1);
    }
}
