package medallion.files.records;

import java.io.IOException;

/** A file is not what its name and the declaration say; its message says why. */
public final class ContentException extends IOException {
    private static final long serialVersionUID = 1L;

    ContentException(String message) {
        super(message);
    }
}
