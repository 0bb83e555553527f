package medallion.files.records;

import medallion.avro.AvroRules;

import org.apache.avro.AvroRuntimeException;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;

/**
 * The blocks of an Avro container file, as its specification has them. Nothing larger than what is
 * left of the file is allocated, and a file that ends inside of a block is an error.
 */
final class AvroBlocks implements Closeable {
    private static final byte[] MAGIC = {'O', 'b', 'j', 1};
    private static final int SYNC_BYTES = 16;
    private static final String CUT = "it is cut off or damaged";

    private final FSDataInputStream file;
    private final long end;
    private final byte[] sync = new byte[SYNC_BYTES];
    private final byte[] found = new byte[SYNC_BYTES];

    /** The schema of all records. */
    final Schema schema;

    private final String codec;

    /** Where the block that was read last begins. */
    long begin;

    /** The number of its records. */
    long count;

    private int size;

    AvroBlocks(Path path, Configuration conf) throws IOException {
        FileStatus status = path.getFileSystem(conf).getFileStatus(path);
        end = status.getLen();
        file = path.getFileSystem(conf).open(path);
        boolean isRead = false;
        try {
            HashMap<String, byte[]> header = header();
            Object name = header.get("avro.codec");
            codec = name == null ? "null" : new String((byte[]) name, StandardCharsets.UTF_8);
            AvroCodec.check(codec);
            schema = schema((byte[]) (Object) header.get("avro.schema"));
            isRead = true;
        } finally {
            if (!isRead) {
                file.close();
            }
        }
    }

    private HashMap<String, byte[]> header() throws IOException {
        byte[] magic = new byte[MAGIC.length];
        if (end < MAGIC.length) {
            throw new ContentException("it is no Avro container file");
        }
        file.readFully(magic);
        if (!Arrays.equals(magic, MAGIC)) {
            throw new ContentException("it is no Avro container file");
        }
        HashMap<String, byte[]> header = new HashMap<String, byte[]>();
        for (long entries = number(); entries != 0L; entries = number()) {
            if (entries < 0L) {
                number();
                entries = -entries;
            }
            for (long at = 0L; at < entries; at++) {
                String name = new String(take(), StandardCharsets.UTF_8);
                header.put(name, take());
            }
        }
        if (end - file.getPos() < SYNC_BYTES) {
            throw new ContentException(CUT);
        }
        file.readFully(sync);
        return header;
    }

    private static Schema schema(byte[] text) throws IOException {
        if (text == null) {
            throw new ContentException("it has no schema");
        }
        Schema parsed;
        boolean mayBeEmpty;
        try {
            Schema.Parser parser = new Schema.Parser(NameValidator.NO_VALIDATION);
            parser.setValidateDefaults(false);
            parsed = parser.parse(new String(text, StandardCharsets.UTF_8));
            mayBeEmpty = AvroRules.mayBeEmpty(parsed);
        } catch (AvroRuntimeException error) {
            throw new ContentException("its schema is none: " + error.getMessage());
        } catch (StackOverflowError error) {
            throw new ContentException("its schema is nested too deeply");
        }
        if (mayBeEmpty) {
            throw new ContentException(
                    "its schema has arrays of values without bytes, or no fields");
        }
        return parsed;
    }

    /** Go on with the block at a byte of the file. */
    void seek(long place) throws IOException {
        file.seek(place);
    }

    /** Read the head of the next block; false at the end of the file. */
    boolean next() throws IOException {
        begin = file.getPos();
        if (begin == end) {
            return false;
        }
        count = number();
        size = length();
        if (count < 0L || count > AvroCodec.mostRecords(codec, size)) {
            throw new ContentException(CUT);
        }
        return true;
    }

    /** Go behind the block whose head was read. */
    void skip() throws IOException {
        file.seek(file.getPos() + size);
        checkSync();
    }

    /** The content of the block whose head was read, as it is stored. */
    byte[] stored() throws IOException {
        byte[] content = new byte[size];
        file.readFully(content);
        checkSync();
        return content;
    }

    /** The records of a block; an error says that its content is damaged. */
    byte[] records(byte[] stored) throws IOException {
        return AvroCodec.read(codec, stored);
    }

    private void checkSync() throws IOException {
        if (end - file.getPos() < SYNC_BYTES) {
            throw new ContentException(CUT);
        }
        file.readFully(found);
        if (!Arrays.equals(found, sync)) {
            throw new ContentException(CUT);
        }
    }

    private byte[] take() throws IOException {
        byte[] content = new byte[length()];
        file.readFully(content);
        return content;
    }

    private int length() throws IOException {
        long length = number();
        if (length < 0L || length > end - file.getPos() || length > AvroCodec.MOST_BYTES) {
            throw new ContentException(
                    length > AvroCodec.MOST_BYTES && length <= end
                            ? "a block is longer than " + AvroCodec.MOST_BYTES + " bytes"
                            : CUT);
        }
        return (int) length;
    }

    private long number() throws IOException {
        long read = 0L;
        for (int i = 0; i < 10; i++) {
            int part = file.read();
            if (part < 0) {
                throw new ContentException(CUT);
            }
            read |= (long) (part & 0x7F) << (7 * i);
            if (part < 0x80) {
                return (read >>> 1) ^ -(read & 1L);
            }
        }
        throw new ContentException(CUT);
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
