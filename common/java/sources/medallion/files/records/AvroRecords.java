package medallion.files.records;

import medallion.avro.AvroBytes;
import medallion.faults.Fault;
import medallion.faults.Reasons;
import medallion.files.Cuts;

import org.apache.avro.generic.GenericDatumReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

import java.io.IOException;

/**
 * The records of an Avro container file, as JSON text. Behind a record that does not decode nobody
 * knows where the next one of its block begins: they are unreadable too.
 */
final class AvroRecords extends JsonRecords {
    private static final String UNDECODED = "a record before it in its block does not decode";

    private final AvroBlocks blocks;
    private final AvroBytes bytes = new AvroBytes();
    private final AvroJson json = new AvroJson(bytes);
    private long left;

    /** Where the record that is read begins. */
    private int begin;

    AvroRecords(Path path, Configuration conf, long begin) throws IOException {
        blocks = new AvroBlocks(path, conf);
        if (begin > 0L) {
            blocks.seek(begin);
        }
    }

    /** Go behind so many records; whole blocks are not decompressed. */
    void skip(long rows) throws IOException {
        long skipped = 0L;
        while (skipped < rows && blocks.next()) {
            if (skipped + blocks.count <= rows) {
                skipped += blocks.count;
                blocks.skip();
                continue;
            }
            open();
            while (skipped < rows) {
                left--;
                skipped++;
                passOne();
            }
        }
    }

    /** Go behind one record, if it decodes. */
    private void passOne() {
        if (!why.isEmpty()) {
            return;
        }
        try {
            GenericDatumReader.skip(blocks.schema, bytes);
        } catch (IOException error) {
            why = UNDECODED;
        } catch (RuntimeException error) {
            why = UNDECODED;
        } catch (StackOverflowError error) {
            why = UNDECODED;
        }
    }

    private void open() throws IOException {
        left = blocks.count;
        why = "";
        byte[] stored = blocks.stored();
        try {
            byte[] content = blocks.records(stored);
            if (blocks.count > content.length) {
                why = "its block has fewer bytes than records";
            }
            bytes.set(content, 0);
        } catch (IOException error) {
            why = "its block is damaged: " + error.getMessage();
        } catch (RuntimeException error) {
            why = "its block is damaged: " + error.getMessage();
        }
    }

    @Override
    public boolean next() throws IOException {
        while (left == 0L) {
            if (!blocks.next()) {
                return false;
            }
            open();
        }
        left--;
        return true;
    }

    /** Count the records from here on, without reading them, and note a cut for each block. */
    static long count(Path path, Configuration conf, Cuts cuts) throws IOException {
        AvroBlocks blocks = new AvroBlocks(path, conf);
        try {
            long rows = 0L;
            while (blocks.next()) {
                cuts.note(rows, blocks.begin);
                rows += blocks.count;
                blocks.skip();
            }
            return rows;
        } finally {
            blocks.close();
        }
    }

    @Override
    protected byte[] text() throws IOException {
        begin = bytes.place();
        byte[] found = json.of(blocks.schema);
        if (left == 0L && !bytes.isAtEnd()) {
            throw new Fault(Reasons.MALFORMED_AVRO);
        }
        return found;
    }

    @Override
    protected String failedAt() {
        return json.place();
    }

    @Override
    protected void pass() {
        bytes.seek(begin);
        passOne();
    }

    @Override
    public void close() throws IOException {
        blocks.close();
    }
}
