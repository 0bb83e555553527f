package medallion.streaming;

import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryManager;
import org.apache.spark.util.Clock;

import java.lang.reflect.Field;

/**
 * Gives a query a clock as it starts: Spark has no other way than in its own tests.
 *
 * <p>Spark tells of a start in the query's own thread, before that has asked for the clock. Names
 * of what is Spark's own are looked up here as it happens, so that another version may be without
 * them.
 */
public final class ClockGiver extends StreamingQueryListener {
    private static final long serialVersionUID = 1L;

    private final StreamingQueryManager queries;
    private final String name;
    private final String field;
    private final Clock clock;
    private volatile String problem = "Spark did not tell of the query's start";

    public ClockGiver(StreamingQueryManager queries, String name, String field, Clock clock) {
        this.queries = queries;
        this.name = name;
        this.field = field;
        this.clock = clock;
    }

    /** Why the query has not got the clock; empty where it has. */
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
        for (Class<?> above = kind; above != null; above = above.getSuperclass()) {
            Field[] own = above.getDeclaredFields();
            for (int i = 0; i < own.length; i++) {
                if (own[i].getName().equals(field)) {
                    return own[i];
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
