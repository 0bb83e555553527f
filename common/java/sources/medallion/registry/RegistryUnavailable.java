package medallion.registry;

/**
 * The schema registry does not answer, so that a row can neither be read nor quarantined. The query
 * is retried later.
 */
public final class RegistryUnavailable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public RegistryUnavailable(String message) {
        super(message);
    }
}
