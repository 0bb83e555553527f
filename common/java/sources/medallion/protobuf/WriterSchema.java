package medallion.protobuf;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;

/**
 * A writer's schema: the messages of a file and of those that it imports. Numbers in this class are
 * those of the fields in {@code descriptor.proto}.
 */
final class WriterSchema {
    private static final String[] TYPES = {
        "",
        "double",
        "float",
        "int64",
        "uint64",
        "int32",
        "fixed64",
        "fixed32",
        "bool",
        "string",
        "group",
        "message",
        "bytes",
        "uint32",
        "enum",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64"
    };
    private static final int REPEATED = 3;
    private static final int MESSAGE_TYPE = 11;
    private static final int IMPLICIT = 2;
    private static final int DELIMITED = 2;

    private final HashMap<String, WriterMessage> messages = new HashMap<String, WriterMessage>();
    private final HashSet<String> enums = new HashSet<String>();
    private ArrayList<WriterMessage> roots = new ArrayList<WriterMessage>();

    private WriterSchema() {}

    /**
     * The schema of descriptors of files; null if there is none.
     *
     * @param files the last one has the messages that an index counts
     */
    static WriterSchema of(ArrayList<Descriptor> files) {
        WriterSchema found = new WriterSchema();
        for (Descriptor file : files) {
            found.roots = new ArrayList<WriterMessage>();
            found.declare(file, file.text(2), 4, 5, found.roots);
        }
        for (Descriptor file : files) {
            found.addFields(file, file.text(2), 4, file);
        }
        return found.roots.isEmpty() ? null : found;
    }

    /**
     * The message of a path of indexes, from a file into messages; null if it has another name.
     * Some writers count the entries of maps among the messages, others do not.
     */
    WriterMessage at(int[] indexes, String name) {
        WriterMessage found = at(indexes, true);
        if (found == null || !found.name.equals(name)) {
            found = at(indexes, false);
        }
        return found != null && found.name.equals(name) ? found : null;
    }

    private WriterMessage at(int[] indexes, boolean countsEntries) {
        ArrayList<WriterMessage> among = roots;
        WriterMessage found = null;
        for (int i = 0; i < indexes.length; i++) {
            int left = indexes[i];
            found = null;
            for (WriterMessage each : among) {
                if ((countsEntries || !each.isMapEntry) && left-- == 0) {
                    found = each;
                    break;
                }
            }
            if (found == null) {
                return null;
            }
            among = found.nested;
        }
        return found;
    }

    private void declare(
            Descriptor within,
            String space,
            int ofMessages,
            int ofEnums,
            ArrayList<WriterMessage> into) {
        for (Descriptor each : within.all(ofEnums)) {
            enums.add(joined(space, each.text(1)));
        }
        for (Descriptor each : within.all(ofMessages)) {
            WriterMessage message = new WriterMessage(joined(space, each.text(1)));
            message.isMapEntry = each.one(7).whole(7, 0) == 1;
            messages.put(message.name, message);
            into.add(message);
            declare(each, message.name, 3, 4, message.nested);
        }
    }

    private void addFields(Descriptor within, String space, int ofMessages, Descriptor file) {
        for (Descriptor each : within.all(ofMessages)) {
            Object known = messages.get(joined(space, each.text(1)));
            WriterMessage message = (WriterMessage) known;
            for (Descriptor one : each.all(2)) {
                WriterField field = field(one, message, file);
                message.fields.put(Integer.valueOf(field.number), field);
            }
            addFields(each, message.name, 3, file);
        }
    }

    private WriterField field(Descriptor given, WriterMessage of, Descriptor file) {
        WriterField field = new WriterField();
        field.number = given.whole(3, 0);
        field.isRepeated = given.whole(4, 0) == REPEATED;
        boolean isOptional = given.whole(17, 0) == 1;
        field.oneof = isOptional ? -1 : given.whole(9, -1);
        int type = given.whole(5, 0);
        String written = given.text(6);
        if (written.length() > 0) {
            field.typeName = fullName(written, of.name);
            Object message = messages.get(field.typeName);
            field.message = (WriterMessage) message;
            if (type == 0) {
                type = enums.contains(field.typeName) ? 14 : MESSAGE_TYPE;
            }
        }
        boolean isOfMap = field.isMap() || of.isMapEntry;
        if (type == MESSAGE_TYPE && !isOfMap && feature(given, file, 5, 1) == DELIMITED) {
            type = 10;
        }
        field.type = type > 0 && type < TYPES.length ? TYPES[type] : "";
        boolean isMessage = "message".equals(field.type) || "group".equals(field.type);
        boolean mayBeImplicit = !isOptional && field.oneof < 0 && !isMessage && !field.isRepeated;
        field.isImplicit = mayBeImplicit && isImplicit(given, file);
        return field;
    }

    private static boolean isImplicit(Descriptor field, Descriptor file) {
        String syntax = file.text(12);
        return "editions".equals(syntax)
                ? feature(field, file, 1, 1) == IMPLICIT
                : "proto3".equals(syntax);
    }

    /** A feature of an edition: of the field, else of the file, else as all editions have it. */
    private static int feature(Descriptor field, Descriptor file, int number, int otherwise) {
        int ofFile = file.one(8).one(50).whole(number, otherwise);
        return field.one(8).one(21).whole(number, ofFile);
    }

    /**
     * The full name of a name, which is looked for from the inside out, unless a dot precedes it.
     */
    private String fullName(String written, String space) {
        if (written.startsWith(".")) {
            return written.substring(1);
        }
        String within = space;
        while (true) {
            String name = joined(within, written);
            if (messages.containsKey(name) || enums.contains(name)) {
                return name;
            }
            if (within.length() == 0) {
                return written;
            }
            int dot = within.lastIndexOf('.');
            within = dot < 0 ? "" : within.substring(0, dot);
        }
    }

    private static String joined(String space, String name) {
        return space.length() == 0 ? name : space + "." + name;
    }
}
