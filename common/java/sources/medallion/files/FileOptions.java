package medallion.files;

import medallion.files.records.OpenFile;

import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import java.io.Serializable;

/**
 * What the declaration of a source says; all options but {@code only} and {@code lineReaders} are
 * required.
 */
final class FileOptions implements Serializable {
    private static final long serialVersionUID = 1L;

    final String path;
    final String only;
    final String topic;
    final String list;
    final OpenFile files;
    final long maxRows;
    final long lookMs;

    FileOptions(CaseInsensitiveStringMap options) {
        path = given(options, "path");
        only = options.containsKey("only") ? options.get("only") : "";
        topic = given(options, "topic");
        list = given(options, "list");
        files =
                new OpenFile(
                        given(options, "format"),
                        given(options, "header"),
                        options.containsKey("lineReaders") ? options.get("lineReaders") : "[]");
        maxRows = Long.parseLong(given(options, "maxRows"));
        lookMs = Long.parseLong(given(options, "lookMs"));
    }

    private static String given(CaseInsensitiveStringMap options, String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("option " + name + " is missing");
        }
        return value;
    }
}
