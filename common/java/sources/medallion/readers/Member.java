package medallion.readers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;

/**
 * The members of JSON objects. {@code JsonNode.path} is declared there and in {@code TreeNode}, and
 * the compiler of set-up takes the less exact declaration.
 */
public final class Member {
    private Member() {}

    /** An object's member of this name; a missing node where there is none. */
    public static JsonNode of(JsonNode object, String name) {
        JsonNode found = object.get(name);
        if (found == null) {
            return MissingNode.getInstance();
        }
        return found;
    }
}
