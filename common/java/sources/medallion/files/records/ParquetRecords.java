package medallion.files.records;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.convert.GroupRecordConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.io.ColumnIOFactory;
import org.apache.parquet.io.MessageColumnIO;
import org.apache.parquet.io.RecordReader;
import org.apache.parquet.schema.MessageType;

import java.io.IOException;

/** The records of a Parquet file, as JSON text. */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class ParquetRecords implements Records {
    private final ParquetFileReader file;
    private final MessageType schema;
    private final MessageColumnIO columns;
    private final JsonText text = new JsonText();
    private RecordReader<Group> group;
    private long left;
    private Group record;

    ParquetRecords(Path path, Configuration conf) throws IOException {
        file = ParquetFileReader.open(HadoopInputFile.fromPath(path, conf));
        schema = file.getFooter().getFileMetaData().getSchema();
        columns = new ColumnIOFactory().getColumnIO(schema);
    }

    long count() {
        return file.getRecordCount();
    }

    /** Go behind so many records; whole row groups are not read. */
    void skip(long rows) throws IOException {
        long skipped = 0L;
        int at = 0;
        while (at < file.getRowGroups().size() && skipped + rowsOf(at) <= rows) {
            skipped += rowsOf(at);
            file.skipNextRowGroup();
            at++;
        }
        while (skipped < rows && next()) {
            skipped++;
        }
    }

    private long rowsOf(int rowGroup) {
        return ((BlockMetaData) file.getRowGroups().get(rowGroup)).getRowCount();
    }

    @Override
    public boolean next() throws IOException {
        while (left == 0L) {
            PageReadStore pages = file.readNextRowGroup();
            if (pages == null) {
                return false;
            }
            left = pages.getRowCount();
            group = columns.getRecordReader(pages, new GroupRecordConverter(schema));
        }
        record = (Group) group.read();
        left--;
        return true;
    }

    @Override
    public byte[] value() throws IOException {
        return text.ofParquet(record);
    }

    @Override
    public long place() {
        return -1L;
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
