package medallion.files;

import medallion.streaming.StreamTable;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Spark's entry to the stream of files: {@code readStream.format("medallion.files.FileSource")}.
 */
public final class FileSource extends StreamTable {
    private static final StructType COLUMNS =
            StructType.fromDDL(
                    "key binary, value binary, topic string, partition int, offset bigint, timestamp"
                            + " timestamp, timestampType int, headers array<struct<key: string, value:"
                            + " binary>>");

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return COLUMNS;
    }

    @Override
    protected String described(CaseInsensitiveStringMap options) {
        return "files of " + new FileOptions(options).path;
    }

    @Override
    protected MicroBatchStream stream(CaseInsensitiveStringMap options) {
        Configuration conf = SparkSession.active().sparkContext().hadoopConfiguration();
        return new FileStream(new FileOptions(options), conf);
    }

    /** Makes the readers of tasks. */
    static final class Factory implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        private final FileOptions options;
        private final SerializableConfiguration conf;

        Factory(FileOptions options, Configuration conf) {
            this.options = options;
            this.conf = new SerializableConfiguration(conf);
        }

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition part) {
            return new FileRows((FilePart) part, options, conf.value());
        }
    }
}
