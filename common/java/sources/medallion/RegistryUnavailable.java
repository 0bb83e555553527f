package medallion;

/** The schema registry does not answer, so that nothing can be said about a row; it is asked again later. */
public final class RegistryUnavailable extends RuntimeException {
    public RegistryUnavailable(String message) {
        super(message);
    }
}
