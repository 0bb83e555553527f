package medallion.protobuf.output;

import com.fasterxml.jackson.databind.JsonNode;

import medallion.faults.UnwritableException;
import medallion.protobuf.WireBytes;
import medallion.readers.FieldPath;
import medallion.readers.Member;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;

/** A field of the declared message: writes its tag and what its column holds. */
final class FieldOutput {
    final String name;

    /** The number of the oneof that it belongs to; -1: none. */
    final int oneof;

    private final int number;
    private final boolean isRepeated;
    private final boolean isMap;
    private final boolean isGroup;

    /** Why it cannot be null; null: it can. */
    private final String whyNotNull;

    /** The type of a single value; null for a message. */
    private final ScalarOutput scalar;

    /** The message of the field, or the entry of its map; null for a single value. */
    private final MessageOutput inner;

    FieldOutput(JsonNode node) {
        String type = node.get("type").asText();
        isGroup = "group".equals(type);
        boolean isMessage = isGroup || "message".equals(type);
        name = node.get("name").asText();
        number = node.get("number").asInt();
        isRepeated = Member.of(node, "repeated").asBoolean();
        isMap = Member.of(node, "map").asBoolean();
        oneof = Member.of(node, "oneof").asInt(-1);
        scalar = isMessage ? null : new ScalarOutput(type, Member.of(node, "symbols"));
        inner = isMessage ? MessageOutput.of(node.get("message")) : null;
        if (isRepeated) {
            whyNotNull = "is null, which reads as empty: coalesce(…) in columns";
        } else if (Member.of(node, "required").asBoolean()) {
            whyNotNull = "is null, and the schema requires it";
        } else if (Member.of(node, "absent").isTextual()) {
            whyNotNull =
                    "is null, which reads as the type's zero or default: "
                            + "declare it optional, or coalesce(…) in columns";
        } else {
            whyNotNull = null;
        }
    }

    void write(SpecializedGetters from, int place, WireOutput out, FieldPath path) {
        if (from.isNullAt(place)) {
            if (whyNotNull != null) {
                throw new UnwritableException(path, whyNotNull);
            }
        } else if (isMap) {
            map(from.getMap(place), out, path);
        } else if (isRepeated) {
            items(from.getArray(place), out, path);
        } else {
            one(from, place, out, path);
        }
    }

    private void one(SpecializedGetters from, int place, WireOutput out, FieldPath path) {
        if (scalar != null) {
            out.tag(number, scalar.wire);
            scalar.write(from, place, out, path);
        } else if (isGroup) {
            out.tag(number, WireBytes.GROUP);
            inner.content(from, place, out, path);
            out.tag(number, WireBytes.END_GROUP);
        } else {
            WireOutput content = new WireOutput();
            inner.content(from, place, content, path);
            out.tag(number, WireBytes.LENGTH);
            out.block(content.bytes());
        }
    }

    private void items(ArrayData array, WireOutput out, FieldPath path) {
        int size = array.numElements();
        boolean isPacked = scalar != null && scalar.wire != WireBytes.LENGTH && size > 0;
        WireOutput packed = new WireOutput();
        for (int i = 0; i < size; i++) {
            if (array.isNullAt(i)) {
                throw new UnwritableException(
                        path, "has a null in it, which no list of Protobuf has");
            }
            if (isPacked) {
                scalar.write(array, i, packed, path);
            } else {
                one(array, i, out, path);
            }
        }
        if (isPacked) {
            out.tag(number, WireBytes.LENGTH);
            out.block(packed.bytes());
        }
    }

    private void map(MapData map, WireOutput out, FieldPath path) {
        ArrayData keys = map.keyArray();
        ArrayData values = map.valueArray();
        for (int i = 0; i < map.numElements(); i++) {
            if (values.isNullAt(i)) {
                throw new UnwritableException(
                        path, "has a null in it, which no map of Protobuf has");
            }
            WireOutput entry = new WireOutput();
            inner.fields[0].one(keys, i, entry, path);
            inner.fields[1].one(values, i, entry, path);
            out.tag(number, WireBytes.LENGTH);
            out.block(entry.bytes());
        }
    }
}
