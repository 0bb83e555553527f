package medallion.files;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** What the folders of a path say as {@code name=value}, as Hive and Spark write partitions. */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class FolderColumns {
    private static final String NULL = "__HIVE_DEFAULT_PARTITION__";

    private FolderColumns() {}

    /**
     * Names and values by turns; a value is null where the folder says so. Of equal names the
     * innermost folder counts. The names of a record's other headers are none.
     *
     * @param path the path of a file below the declared folder
     */
    static String[] of(String path) {
        Map<String, String> found = new LinkedHashMap<String, String>();
        String[] parts = path.split("/");
        for (int each = 0; each < parts.length - 1; each++) {
            int sign = parts[each].indexOf('=');
            if (sign > 0) {
                String name = unescaped(parts[each].substring(0, sign));
                String value = parts[each].substring(sign + 1);
                if (!name.equals("path") && !name.equals("row") && !name.equals("header")) {
                    found.put(name, value.equals(NULL) ? null : unescaped(value));
                }
            }
        }
        String[] told = new String[2 * found.size()];
        int at = 0;
        for (Object name : found.keySet()) {
            told[at++] = (String) name;
            told[at++] = (String) found.get(name);
        }
        return told;
    }

    /**
     * A text in which {@code %3A} stands for a colon, and so on; other signs stand for themselves.
     */
    private static String unescaped(String text) {
        if (text.indexOf('%') < 0) {
            return text;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        for (int at = 0; at < bytes.length; at++) {
            int high = at + 2 < bytes.length ? Character.digit((char) bytes[at + 1], 16) : -1;
            int low = at + 2 < bytes.length ? Character.digit((char) bytes[at + 2], 16) : -1;
            if (bytes[at] == '%' && high >= 0 && low >= 0) {
                plain.write(16 * high + low);
                at += 2;
            } else {
                plain.write(bytes[at]);
            }
        }
        return new String(plain.toByteArray(), StandardCharsets.UTF_8);
    }
}
