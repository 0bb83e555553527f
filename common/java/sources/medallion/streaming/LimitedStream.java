package medallion.streaming;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** A stream whose next offset follows from the one before. */
public abstract class LimitedStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    /** Whether nothing is read that has come since the query began. */
    protected boolean isBounded;

    @Override
    public final Offset latestOffset() {
        throw new UnsupportedOperationException(
                "latestOffset(Offset, ReadLimit) is called instead");
    }

    /** Wait for what is there now, after which the stream ends. */
    protected abstract void awaitAll() throws InterruptedException;

    @Override
    public final void prepareForTriggerAvailableNow() {
        try {
            awaitAll();
            isBounded = true;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }
}
