package medallion.readers;

/** The path of the field being read. */
public final class FieldPath {
    private String[] names = new String[16];
    private int depth;

    public void clear() {
        depth = 0;
    }

    public void enter(String name) {
        if (depth == names.length) {
            String[] longer = new String[2 * depth];
            System.arraycopy(names, 0, longer, 0, depth);
            names = longer;
        }
        names[depth++] = name;
    }

    public void leave() {
        depth--;
    }

    /** The names joined by dots; null outside of every field. */
    public String text() {
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
