package medallion.registry;

import java.util.HashMap;

/**
 * The schemas that were used last, by id, so many at most: the memory of a job that runs for a year
 * does not grow with the ids that producers register. There are two generations. A full one becomes
 * the older one, and what that had, and nobody asked for since, is forgotten.
 */
final class RecentSchemas {
    private final int half;
    private HashMap<Integer, Object> newer = new HashMap<Integer, Object>();
    private HashMap<Integer, Object> older = new HashMap<Integer, Object>();

    /**
     * @param most how many are kept
     */
    RecentSchemas(int most) {
        half = most / 2;
    }

    /** The schema of an id; null if it is not kept. */
    synchronized Object get(Integer id) {
        Object found = newer.get(id);
        if (found == null) {
            found = older.get(id);
            if (found != null) {
                put(id, found);
            }
        }
        return found;
    }

    synchronized void put(Integer id, Object schema) {
        if (newer.size() >= half) {
            older = newer;
            newer = new HashMap<Integer, Object>();
        }
        newer.put(id, schema);
    }

    /** How many are kept; one that is in both generations counts twice. */
    synchronized int size() {
        return newer.size() + older.size();
    }
}
