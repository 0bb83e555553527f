package medallion.protobuf;

/** A field of a writer's message. */
final class WriterField {
    int number;

    /** The name that a descriptor has for the type. */
    String type = "";

    /** The full name of an enum or a message. */
    String typeName = "";

    /** The message; null if its file is none of the schema's, as those of Protobuf itself. */
    WriterMessage message;

    boolean isRepeated;

    /** Whether the writer leaves out a zero, so that its absence means zero. */
    boolean isImplicit;

    /** The number of the oneof that it belongs to; -1: none. */
    int oneof = -1;

    boolean isMap() {
        return message != null && message.isMapEntry;
    }
}
