package medallion.protobuf;

import java.util.ArrayList;
import java.util.HashMap;

/** A message of a writer's schema. */
final class WriterMessage {
    /** The full name. */
    final String name;

    boolean isMapEntry;
    final ArrayList<WriterMessage> nested = new ArrayList<WriterMessage>();
    final HashMap<Integer, WriterField> fields = new HashMap<Integer, WriterField>();

    WriterMessage(String name) {
        this.name = name;
    }
}
