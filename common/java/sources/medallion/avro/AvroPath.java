package medallion.avro;

/** Where in a value a reader is. */
final class AvroPath {
    private String[] names = new String[16];
    private int depth;

    void clear() {
        depth = 0;
    }

    void enter(String name) {
        if (depth == names.length) {
            String[] more = new String[2 * depth];
            System.arraycopy(names, 0, more, 0, depth);
            names = more;
        }
        names[depth++] = name;
    }

    void leave() {
        depth--;
    }

    /** Names with dots between them; null outside of every field. */
    String text() {
        if (depth == 0) {
            return null;
        }
        StringBuilder text = new StringBuilder(names[0]);
        for (int i = 1; i < depth; i++) {
            text.append('.').append(names[i]);
        }
        return text.toString();
    }
}
