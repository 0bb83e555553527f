package medallion.faults;

/**
 * Why a value cannot be read. It ends the reading, and costs no stack trace: data is often wrong.
 */
public final class Fault extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public final String reason;

    public Fault(String reason) {
        super(reason, null, false, false);
        this.reason = reason;
    }
}
