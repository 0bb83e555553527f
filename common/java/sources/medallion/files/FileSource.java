package medallion.files;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.SerializableConfiguration;

import java.util.Collections;
import java.util.Map;
import java.util.Set;

/**
 * Spark's entry to the stream of files: {@code readStream.format("medallion.files.FileSource")}.
 */
public final class FileSource implements TableProvider {
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
    public Table getTable(
            StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Files();
    }

    private static final class Files implements SupportsRead {
        @Override
        public String name() {
            return "files";
        }

        @Override
        public Column[] columns() {
            return CatalogV2Util.structTypeToV2Columns(COLUMNS);
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Collections.singleton(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new Builder(new FileOptions(options));
        }
    }

    private static final class Builder implements ScanBuilder, Scan {
        private final FileOptions options;

        Builder(FileOptions options) {
            this.options = options;
        }

        @Override
        public Scan build() {
            return this;
        }

        @Override
        public StructType readSchema() {
            return COLUMNS;
        }

        @Override
        public String description() {
            return "files of " + options.path;
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            Configuration conf = SparkSession.active().sparkContext().hadoopConfiguration();
            return new FileStream(options, conf);
        }
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
