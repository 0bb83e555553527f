package medallion.files;

import java.io.IOException;

/** A file or the list of files is not what it was: what happened, where, and what to do. */
public final class FileSourceException extends IOException {
    private static final long serialVersionUID = 1L;

    FileSourceException(String message) {
        super(message);
    }
}
