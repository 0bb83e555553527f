package medallion.json;

import medallion.values.Type;

import org.apache.spark.unsafe.types.UTF8String;

import java.util.Arrays;
import java.util.HashSet;

/**
 * The names seen in one JSON object. A few are compared one by one; many go into a hash set, whose
 * overfull buckets are trees: names chosen to collide cost no more than a logarithm.
 */
final class Names {
    private static final int FEW = 16;

    private int count;
    private final int[] hashes = new int[FEW];
    private final byte[][] sources = new byte[FEW][];
    private final int[] froms = new int[FEW];
    private final int[] tos = new int[FEW];
    private HashSet<UTF8String> many;

    void clear() {
        Arrays.fill(sources, 0, count, null);
        count = 0;
        many = null;
    }

    /** False where the name has been there before. */
    boolean add(byte[] source, int from, int to) {
        if (many != null) {
            return many.add(UTF8String.fromBytes(source, from, to - from));
        }
        int hash = Type.hash(source, from, to);
        for (int i = 0; i < count; i++) {
            if (hashes[i] == hash
                    && Arrays.equals(sources[i], froms[i], tos[i], source, from, to)) {
                return false;
            }
        }
        if (count == FEW) {
            many = new HashSet<UTF8String>();
            for (int i = 0; i < count; i++) {
                many.add(UTF8String.fromBytes(sources[i], froms[i], tos[i] - froms[i]));
            }
            return many.add(UTF8String.fromBytes(source, from, to - from));
        }
        hashes[count] = hash;
        sources[count] = source;
        froms[count] = from;
        tos[count] = to;
        count++;
        return true;
    }
}
