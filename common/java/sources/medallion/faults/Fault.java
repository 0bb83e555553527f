package medallion.faults;

/**
 * The reason why a value cannot be read, thrown to stop reading the value. A fault has no stack
 * trace: invalid values are frequent, and traces are expensive.
 */
public final class Fault extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public final String reason;

    public Fault(String reason) {
        super(reason, null, false, false);
        this.reason = reason;
    }
}
