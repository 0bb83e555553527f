package medallion;

/** Why a value cannot be read. It ends the reading, and costs no stack trace: data is often wrong. */
final class Fault extends RuntimeException {
    final String reason;

    Fault(String reason) {
        super(reason, null, false, false);
        this.reason = reason;
    }
}
