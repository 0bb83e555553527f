package medallion.files;

import medallion.files.records.OpenFile;

import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import java.io.Serializable;

/**
 * What the declaration of a source says. Required are {@code path}, {@code topic}, {@code list},
 * {@code format}, {@code header}, {@code maxRows} and {@code lookMs}.
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

    /**
     * Whether of the files that are known the newest one is read first, and not that of the first
     * path.
     */
    final boolean latestFirst;

    /** How much older than the newest file one may be, in words and in milliseconds; 0: any age. */
    final String maxAge;

    final long maxAgeMs;

    /** Whether a file is known by its name alone, in whatever folder. */
    final boolean nameOnly;

    /** What becomes of a file that is read: {@code archive}, {@code delete}; empty: it stays. */
    final String clean;

    /** The folder to which read files are moved. */
    final String archive;

    FileOptions(CaseInsensitiveStringMap options) {
        path = given(options, "path");
        only = orElse(options, "only", "");
        topic = given(options, "topic");
        list = given(options, "list");
        files =
                new OpenFile(
                        given(options, "format"),
                        given(options, "header"),
                        orElse(options, "lineReaders", "[]"));
        maxRows = Long.parseLong(given(options, "maxRows"));
        lookMs = Long.parseLong(given(options, "lookMs"));
        latestFirst = Boolean.parseBoolean(orElse(options, "latestFirst", "false"));
        maxAge = orElse(options, "maxAge", "");
        maxAgeMs = Long.parseLong(orElse(options, "maxAgeMs", "0"));
        nameOnly = Boolean.parseBoolean(orElse(options, "nameOnly", "false"));
        clean = orElse(options, "clean", "");
        archive = orElse(options, "archive", "");
    }

    private static String orElse(CaseInsensitiveStringMap options, String name, String other) {
        String value = options.get(name);
        return value == null ? other : value;
    }

    private static String given(CaseInsensitiveStringMap options, String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("option " + name + " is missing");
        }
        return value;
    }
}
