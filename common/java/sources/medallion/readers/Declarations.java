package medallion.readers;

import java.util.Map;

/** What is kept by the text of a declaration: a pipeline has some dozens, a process few more. */
public final class Declarations {
    private static final int MOST = 1000;

    private Declarations() {}

    /** Empties what is kept by declaration where it is full; what is used yet is made again. */
    public static void makeRoom(Map<?, ?> kept) {
        if (kept.size() >= MOST) {
            kept.clear();
        }
    }
}
