package medallion.streaming;

import org.apache.spark.util.Clock;

/**
 * The clock by which a query waits for its next micro-batch; {@code wake} ends the wait.
 *
 * <p>A wake-up during a micro-batch ends the next wait before it begins. Several wake-ups during
 * one micro-batch count as one.
 */
public final class WakingClock implements Clock {
    private boolean isWoken;

    /** Ends the current wait, or the next one if the query does not wait now. */
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
            // The query's loop checks after each wait whether the query has to stop.
            Thread.currentThread().interrupt();
        }
        isWoken = false;
        return getTimeMillis();
    }
}
