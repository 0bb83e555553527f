package medallion.streaming;

import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryManager;
import org.apache.spark.util.Clock;

import java.lang.reflect.Field;

/**
 * Replaces a query's clock when the query starts. Spark has a public way to do so only in its own
 * tests.
 *
 * <p>Spark reports a start in the query's own thread, before that thread reads the clock. Spark's
 * internal names are resolved at that moment, so that a version of Spark without them runs queries
 * with Spark's own clock.
 */
public final class ClockReplacer extends StreamingQueryListener {
    private static final long serialVersionUID = 1L;

    private final StreamingQueryManager queries;
    private final String name;
    private final String field;
    private final Clock clock;
    private volatile String problem = "Spark did not report the query's start";

    public ClockReplacer(StreamingQueryManager queries, String name, String field, Clock clock) {
        this.queries = queries;
        this.name = name;
        this.field = field;
        this.clock = clock;
    }

    /** Why the clock was not replaced; empty if it was. */
    public String problem() {
        return problem;
    }

    @Override
    public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {
        if (!name.equals(event.name())) {
            return;
        }
        try {
            StreamingQuery query = queries.get(event.id());
            Object execution =
                    query.getClass()
                            .getMethod("streamingQuery", new Class<?>[0])
                            .invoke(query, new Object[0]);
            Field found = find(execution.getClass());
            found.setAccessible(true);
            found.set(execution, clock);
            problem = "";
        } catch (Exception error) {
            problem = error.toString();
        }
    }

    private Field find(Class<?> kind) throws NoSuchFieldException {
        for (Class<?> declaring = kind; declaring != null; declaring = declaring.getSuperclass()) {
            Field[] fields = declaring.getDeclaredFields();
            for (int i = 0; i < fields.length; i++) {
                if (fields[i].getName().equals(field)) {
                    return fields[i];
                }
            }
        }
        throw new NoSuchFieldException(kind.getName() + "." + field);
    }

    @Override
    public void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {}

    @Override
    public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {}
}
