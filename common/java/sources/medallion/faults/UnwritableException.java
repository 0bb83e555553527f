package medallion.faults;

import medallion.readers.FieldPath;

/** A value of a row that the declared schema of a message does not take; the query stops. */
public final class UnwritableException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * Names a field.
     *
     * @param path the field
     * @param why what is wrong with its value, without the value
     */
    public UnwritableException(FieldPath path, String why) {
        super("field '" + path.text() + "' " + why, null, false, false);
    }
}
