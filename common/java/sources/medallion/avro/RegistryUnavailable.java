package medallion.avro;

/**
 * The schema registry does not answer, so that nothing can be said about a row; it is asked again
 * later.
 */
public final class RegistryUnavailable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public RegistryUnavailable(String message) {
        super(message);
    }
}
