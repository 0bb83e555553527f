package medallion.files;

import java.util.Arrays;

/** The places of a file from which it can be read: one in so many records. */
public final class Cuts {
    /** Records between two cuts. */
    public static final long EVERY = 50000L;

    private long[] places = new long[0];
    private long last;

    /** A record, and the byte from which it can be read. */
    public void note(long row, long place) {
        if (place > 0L && row - last >= EVERY) {
            places = Arrays.copyOf(places, places.length + 2);
            places[places.length - 2] = row;
            places[places.length - 1] = place;
            last = row;
        }
    }

    /** Pairs: the number of a record, and the byte. */
    public long[] places() {
        return places;
    }
}
