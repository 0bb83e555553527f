package medallion.files.records;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.ParquetReadOptions;
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

import java.io.EOFException;
import java.io.IOException;

/** The records of a Parquet file, as JSON text. */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class ParquetRecords extends ColumnRecords {
    private final ParquetFileReader file;
    private final MessageType schema;
    private final MessageColumnIO columns;
    private final ParquetJson json = new ParquetJson();
    private int next;
    private PageReadStore pages;
    private RecordReader<Group> group;
    private long left;
    private Group record;

    ParquetRecords(Path path, Configuration conf) throws IOException {
        ParquetReadOptions options =
                ParquetReadOptions.builder().usePageChecksumVerification(true).build();
        file = ParquetFileReader.open(HadoopInputFile.fromPath(path, conf), options);
        boolean isOpen = false;
        try {
            schema = file.getFooter().getFileMetaData().getSchema();
            String twice = ParquetJson.nameTwice(schema);
            if (twice != null) {
                throw new ContentException("two of its columns have the name " + twice);
            }
            columns = new ColumnIOFactory().getColumnIO(schema);
            isOpen = true;
        } finally {
            if (!isOpen) {
                file.close();
            }
        }
    }

    @Override
    long count() {
        return file.getRecordCount();
    }

    /** Go behind so many records; whole row groups are not read. */
    @Override
    void skip(long rows) throws IOException {
        long skipped = 0L;
        while (next < file.getRowGroups().size() && skipped + rowsOf(next) <= rows) {
            skipped += rowsOf(next);
            next++;
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
            if (next == file.getRowGroups().size()) {
                return false;
            }
            left = rowsOf(next);
            open(next++);
        }
        left--;
        if (why.isEmpty()) {
            try {
                record = (Group) group.read();
            } catch (RuntimeException error) {
                damaged(error);
            }
        }
        return true;
    }

    /** Read a row group; of one that is damaged no record can be read. */
    private void open(int rowGroup) throws IOException {
        release();
        why = "";
        try {
            pages = file.readRowGroup(rowGroup);
            group = columns.getRecordReader(pages, new GroupRecordConverter(schema));
        } catch (IOException error) {
            if (!OpenFile.isOfThrift(error) && !(error instanceof EOFException)) {
                throw error;
            }
            damaged(error);
        } catch (RuntimeException error) {
            damaged(error);
        }
    }

    private void damaged(Exception error) {
        why = "its row group cannot be read: " + rootOf(error);
    }

    private void release() {
        if (pages != null) {
            pages.close();
            pages = null;
        }
    }

    @Override
    protected byte[] text() throws IOException {
        return json.of(record);
    }

    @Override
    protected String failedAt() {
        return json.place();
    }

    @Override
    public void close() throws IOException {
        release();
        file.close();
    }
}
