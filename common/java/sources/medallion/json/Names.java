package medallion.json;

import medallion.values.Type;

import org.apache.spark.unsafe.types.UTF8String;

import java.util.Arrays;
import java.util.HashSet;

/**
 * The names seen in one JSON object, to detect a duplicate. Up to 16 names are compared one by one;
 * more names go into a hash set. The set keeps overfull buckets as trees, so that the look-up of
 * names chosen to collide takes logarithmic time.
 */
final class Names {
    private static final int LINEAR_LIMIT = 16;

    private int count;
    private final int[] hashes = new int[LINEAR_LIMIT];
    private final byte[][] sources = new byte[LINEAR_LIMIT][];
    private final int[] froms = new int[LINEAR_LIMIT];
    private final int[] tos = new int[LINEAR_LIMIT];
    private HashSet<UTF8String> hashSet;

    void clear() {
        Arrays.fill(sources, 0, count, null);
        count = 0;
        hashSet = null;
    }

    /** Adds a name; returns false if the object has the name already. */
    boolean add(byte[] source, int from, int to) {
        if (hashSet != null) {
            return hashSet.add(UTF8String.fromBytes(source, from, to - from));
        }
        int hash = Type.hash(source, from, to);
        for (int i = 0; i < count; i++) {
            if (hashes[i] == hash
                    && Arrays.equals(sources[i], froms[i], tos[i], source, from, to)) {
                return false;
            }
        }
        if (count == LINEAR_LIMIT) {
            hashSet = new HashSet<UTF8String>();
            for (int i = 0; i < count; i++) {
                hashSet.add(UTF8String.fromBytes(sources[i], froms[i], tos[i] - froms[i]));
            }
            return hashSet.add(UTF8String.fromBytes(source, from, to - from));
        }
        hashes[count] = hash;
        sources[count] = source;
        froms[count] = from;
        tos[count] = to;
        count++;
        return true;
    }
}
