package medallion.streaming;

import org.apache.spark.TaskContext;

/**
 * Decides whether a row is late, by the watermark of the micro-batch that the current task belongs
 * to.
 *
 * <p>The watermark is a local property of the thread that runs the micro-batch, so Spark sends it
 * with each of the micro-batch's tasks. As a literal in the expression it would have Spark compile
 * new code for each micro-batch.
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

    /** Whether an event time is at or before the watermark; false if the task has no watermark. */
    public static boolean isLate(long micros) {
        TaskContext task = TaskContext.get();
        String property = task == null ? null : task.getLocalProperty(PROPERTY);
        if (property == null) {
            return false;
        }
        Watermark parsed = last;
        if (!property.equals(parsed.text)) {
            parsed = new Watermark(property, Long.parseLong(property) * MICROS);
            last = parsed;
        }
        return micros <= parsed.micros;
    }
}
