package medallion.files;

import java.nio.charset.StandardCharsets;

/**
 * The value of a record that a file has and that cannot be read: a NUL, {@code unreadable}, the
 * reason, and in words which record of which file it is. Silver quarantines it with that reason.
 */
public final class Unreadable {
    private Unreadable() {}

    /**
     * @param reason a name of {@code Reasons}
     * @param where the file, and the record in it
     * @param why what is wrong, in words; may be empty
     */
    public static byte[] value(String reason, String where, String why) {
        String text = "\0unreadable " + reason + " " + where + (why.isEmpty() ? "" : ": " + why);
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
