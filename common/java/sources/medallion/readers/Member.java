package medallion.readers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;

/**
 * Members of JSON objects. {@code JsonNode.path} is declared in {@code JsonNode} and in {@code
 * TreeNode}, and janino, which compiles these sources at set-up, resolves a call to the less
 * specific declaration.
 */
public final class Member {
    private Member() {}

    /** An object's member of this name; a missing node if there is none. */
    public static JsonNode of(JsonNode object, String name) {
        JsonNode found = object.get(name);
        if (found == null) {
            return MissingNode.getInstance();
        }
        return found;
    }
}
