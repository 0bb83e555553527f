package medallion.files.records;

import org.apache.avro.file.DataFileReader;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.mapred.FsInput;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

import java.io.IOException;

/** The records of an Avro container file, as JSON text. */
final class AvroRecords implements Records {
    private final DataFileReader<Object> reader;
    private final JsonText text = new JsonText();
    private Object record;

    AvroRecords(Path path, Configuration conf, long begin) throws IOException {
        reader =
                new DataFileReader<Object>(
                        new FsInput(path, conf), new GenericDatumReader<Object>());
        if (begin > 0L) {
            reader.seek(begin);
        }
    }

    @Override
    public boolean next() throws IOException {
        if (!reader.hasNext()) {
            return false;
        }
        record = reader.next(record);
        return true;
    }

    /** Count the records from here on, without reading them, and note a cut for each block. */
    static long count(Path path, Configuration conf, Cuts cuts) throws IOException {
        AvroRecords records = new AvroRecords(path, conf, 0L);
        try {
            long rows = 0L;
            while (records.reader.hasNext()) {
                cuts.note(rows, records.reader.previousSync());
                rows += records.reader.getBlockCount();
                records.reader.nextBlock();
            }
            return rows;
        } finally {
            records.close();
        }
    }

    @Override
    public byte[] value() throws IOException {
        return text.ofAvro(record, reader.getSchema());
    }

    @Override
    public long place() {
        return -1L;
    }

    @Override
    public void close() throws IOException {
        reader.close();
    }
}
