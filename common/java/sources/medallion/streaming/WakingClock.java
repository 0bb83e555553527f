package medallion.streaming;

import org.apache.spark.util.Clock;

/**
 * The clock by which a query waits for its next micro-batch; the wait may be ended.
 *
 * <p>A wake that comes while a micro-batch runs ends the next wait before it begins. Several are as
 * one.
 */
public final class WakingClock implements Clock {
    private boolean isWoken;

    /** End the wait, now or as soon as there is one. */
    public synchronized void wake() {
        isWoken = true;
        notifyAll();
    }

    @Override
    public long getTimeMillis() {
        return System.currentTimeMillis();
    }

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public synchronized long waitTillTime(long until) {
        try {
            long left = until - getTimeMillis();
            while (left > 0 && !isWoken) {
                wait(left);
                left = until - getTimeMillis();
            }
        } catch (InterruptedException stopped) {
            // The loop of the query sees by itself that it is to end.
            Thread.currentThread().interrupt();
        }
        isWoken = false;
        return getTimeMillis();
    }
}
