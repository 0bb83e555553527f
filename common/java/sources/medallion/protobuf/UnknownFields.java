package medallion.protobuf;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.spark.unsafe.types.UTF8String;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;

/**
 * The unknown fields of a value as one JSON object: by its number, the bytes of each, tags and all,
 * in base64, so that a later schema reads them. Those of inner messages are at their place; an item
 * of a list without any is null. Those of the entries of a map are not kept.
 */
final class UnknownFields {
    private UnknownFields() {}

    /** Adds the bytes from an index on to those of a field's number. */
    @SuppressWarnings("unchecked")
    static void add(Object[] slots, int number, WireBytes in, int from) {
        int last = slots.length - 1;
        if (slots[last] == null) {
            slots[last] = new TreeMap<Integer, ByteArrayOutputStream>();
        }
        TreeMap<Integer, ByteArrayOutputStream> all =
                (TreeMap<Integer, ByteArrayOutputStream>) slots[last];
        Object before = all.get(Integer.valueOf(number));
        ByteArrayOutputStream bytes = (ByteArrayOutputStream) before;
        if (bytes == null) {
            bytes = new ByteArrayOutputStream();
            all.put(Integer.valueOf(number), bytes);
        }
        bytes.write(in.bytes, from, in.at - from);
    }

    /** The JSON text of all unknown fields; null if there is none. */
    static UTF8String text(Message message, Object[] slots) {
        ObjectNode found = of(message, slots);
        return found == null ? null : UTF8String.fromString(found.toString());
    }

    private static ObjectNode of(Message message, Object[] slots) {
        ObjectNode found = JsonNodeFactory.instance.objectNode();
        for (int i = 0; i < message.fields.length; i++) {
            MessageField field = message.fields[i];
            if (slots[i] == null || field.inner == null || field.isBytes) {
                continue;
            }
            if (field.isMap) {
                addEntries(found, field, (Map<?, ?>) slots[i]);
            } else if (field.isRepeated) {
                addItems(found, field, (ArrayList<?>) slots[i]);
            } else {
                ObjectNode inner = of(field.inner, (Object[]) slots[i]);
                if (inner != null) {
                    found.set(field.name, inner);
                }
            }
        }
        Object own = slots[slots.length - 1];
        if (own != null) {
            Map<?, ?> all = (Map<?, ?>) own;
            for (Object number : all.keySet()) {
                Object bytes = all.get(number);
                found.put(
                        number.toString(),
                        Base64.getEncoder()
                                .encodeToString(((ByteArrayOutputStream) bytes).toByteArray()));
            }
        }
        return found.isEmpty() ? null : found;
    }

    private static void addItems(ObjectNode found, MessageField field, ArrayList<?> items) {
        ArrayNode list = JsonNodeFactory.instance.arrayNode();
        boolean hasAny = false;
        for (Object item : items) {
            ObjectNode inner = of(field.inner, (Object[]) item);
            hasAny = hasAny || inner != null;
            if (inner == null) {
                list.addNull();
            } else {
                list.add(inner);
            }
        }
        if (hasAny) {
            found.set(field.name, list);
        }
    }

    private static void addEntries(ObjectNode found, MessageField field, Map<?, ?> entries) {
        MessageField value = field.inner.fields[1];
        if (value.inner == null || value.isBytes) {
            return;
        }
        ObjectNode map = JsonNodeFactory.instance.objectNode();
        for (Object key : entries.keySet()) {
            Object slots = entries.get(key);
            ObjectNode inner = of(value.inner, (Object[]) slots);
            if (inner != null) {
                map.set(key.toString(), inner);
            }
        }
        if (!map.isEmpty()) {
            found.set(field.name, map);
        }
    }
}
