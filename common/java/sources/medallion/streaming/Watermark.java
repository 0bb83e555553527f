package medallion.streaming;

import org.apache.spark.TaskContext;

/**
 * Tells late rows from others, by the watermark that the micro-batch of the task that asks judges
 * by.
 *
 * <p>It is a local property of the thread that runs the micro-batch, so it comes with each of its
 * tasks, and is no literal in the code that Spark compiles.
 */
public final class Watermark {
    private static final String PROPERTY = "medallion.lateWatermarkMs";
    private static final long MICROS = 1000L;

    private static volatile Watermark last = new Watermark("", Long.MIN_VALUE);

    private final String text;
    private final long micros;

    private Watermark(String text, long micros) {
        this.text = text;
        this.micros = micros;
    }

    /** Whether an event time is at or before the watermark; false where a task has none. */
    public static boolean isLate(long micros) {
        TaskContext task = TaskContext.get();
        String told = task == null ? null : task.getLocalProperty(PROPERTY);
        if (told == null) {
            return false;
        }
        Watermark known = last;
        if (!told.equals(known.text)) {
            known = new Watermark(told, Long.parseLong(told) * MICROS);
            last = known;
        }
        return micros <= known.micros;
    }
}
