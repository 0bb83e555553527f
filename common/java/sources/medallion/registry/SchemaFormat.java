package medallion.registry;

import java.util.Map;

/** How a registry's schemas of one format are requested and read. */
public interface SchemaFormat {
    /** The format's name in a registry's answers. */
    String kind();

    /** How the names of schema files end. */
    String ending();

    /** What a request for a schema ends with; empty: nothing. */
    String query();

    /** The schema of a file's content; null if it is none. */
    Object ofFile(byte[] content);

    /**
     * The schema of a registry's answer; null if it is none.
     *
     * @param texts the schemas that it refers to, by the names of the references and each behind
     *     those that it refers to itself; then, by the empty name, its own text
     */
    Object ofTexts(Map<String, String> texts);
}
