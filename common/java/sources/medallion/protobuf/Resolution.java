package medallion.protobuf;

import java.util.HashSet;

/**
 * Compares a writer's message with the declared one. Protobuf itself reads any message by any
 * other, and gives other values where the types of a number differ.
 */
final class Resolution {
    private Resolution() {}

    /**
     * The message to read the writer's values by: the declared one, with a zero for what the writer
     * leaves out as zero; null if a value could become another.
     */
    static Message of(Message declared, WriterMessage writer) {
        MessageField[] fields = new MessageField[declared.fields.length];
        for (int i = 0; i < fields.length; i++) {
            Object written = writer.fields.get(Integer.valueOf(declared.fields[i].number));
            fields[i] =
                    written == null
                            ? declared.fields[i]
                            : field(declared.fields[i], (WriterField) written);
            if (fields[i] == null) {
                return null;
            }
        }
        return splitsOneof(declared, writer) ? null : declared.with(fields);
    }

    private static MessageField field(MessageField declared, WriterField writer) {
        if (declared.isMap != writer.isMap()
                || declared.isRepeated != writer.isRepeated
                || !isRead(writer.type, declared.type)) {
            return null;
        }
        if (declared.scalar == null) {
            return messageField(declared, writer);
        }
        if (!writer.isImplicit) {
            return declared;
        }
        // Also where a default is declared: what the writer leaves out is zero.
        Object zero = declared.scalar.zero();
        return zero == null || declared.oneof >= 0 ? null : declared.withAbsent(zero);
    }

    private static MessageField messageField(MessageField declared, WriterField writer) {
        Message inner = declared.inner;
        // The entry of a map has the name of its field, which may differ.
        if (!declared.isMap && !writer.typeName.equals(inner.name)) {
            return null;
        }
        if (inner.isBytes() || inner.isSpecial()) {
            return declared;
        }
        if (writer.message == null) {
            return isBuiltIn(inner.name) ? declared : null;
        }
        Message found = of(inner, writer.message);
        return found == null ? null : declared.with(found);
    }

    /** Whether a registry sends no file with the message, as every writer has the same. */
    private static boolean isBuiltIn(String name) {
        return name.startsWith("google.protobuf.")
                || name.startsWith("google.type.")
                || name.startsWith("confluent.");
    }

    /** Whether members of one oneof may be set at the same time by the writer. */
    private static boolean splitsOneof(Message declared, WriterMessage writer) {
        HashSet<String> pairs = new HashSet<String>();
        HashSet<Integer> seen = new HashSet<Integer>();
        for (int i = 0; i < declared.fields.length; i++) {
            int oneof = declared.fields[i].oneof;
            Object written = writer.fields.get(Integer.valueOf(declared.fields[i].number));
            if (oneof < 0 || written == null) {
                continue;
            }
            int theirs = ((WriterField) written).oneof;
            boolean isNew = pairs.add(oneof + " " + theirs);
            boolean isFurther = !seen.add(Integer.valueOf(oneof));
            if (isFurther && (isNew || theirs < 0)) {
                return true;
            }
        }
        return false;
    }

    /** Whether each value of the one type is the same value of the other, or a fault. */
    static boolean isRead(String writer, String reader) {
        if (writer.equals(reader)) {
            return true;
        }
        if ("int32".equals(reader) || "int64".equals(reader)) {
            return "int32".equals(writer) || "int64".equals(writer) || "uint32".equals(writer);
        }
        if ("uint32".equals(reader)) {
            return "int32".equals(writer) || "int64".equals(writer) || "uint64".equals(writer);
        }
        if ("uint64".equals(reader)) {
            return "uint32".equals(writer);
        }
        if ("sint32".equals(reader) || "sint64".equals(reader)) {
            return "sint32".equals(writer) || "sint64".equals(writer);
        }
        return "string".equals(reader) && "bytes".equals(writer)
                || "bytes".equals(reader) && "string".equals(writer);
    }
}
