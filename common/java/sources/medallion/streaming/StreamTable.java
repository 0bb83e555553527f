package medallion.streaming;

import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import java.util.Collections;
import java.util.Map;
import java.util.Set;

/** Spark's entry to a source that is read as a stream alone: what its options say. */
public abstract class StreamTable implements TableProvider {
    /** What the source gives, in messages. */
    protected abstract String described(CaseInsensitiveStringMap options);

    protected abstract MicroBatchStream stream(CaseInsensitiveStringMap options);

    @Override
    public final Table getTable(
            StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Streamed(this, schema);
    }

    private static final class Streamed implements SupportsRead {
        private final StreamTable source;
        private final StructType schema;

        Streamed(StreamTable source, StructType schema) {
            this.source = source;
            this.schema = schema;
        }

        @Override
        public String name() {
            return source.getClass().getSimpleName();
        }

        @Override
        public Column[] columns() {
            return CatalogV2Util.structTypeToV2Columns(schema);
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Collections.singleton(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new Builder(source, options, schema);
        }
    }

    private static final class Builder implements ScanBuilder, Scan {
        private final StreamTable source;
        private final CaseInsensitiveStringMap options;
        private final StructType schema;

        Builder(StreamTable source, CaseInsensitiveStringMap options, StructType schema) {
            this.source = source;
            this.options = options;
            this.schema = schema;
        }

        @Override
        public Scan build() {
            return this;
        }

        @Override
        public StructType readSchema() {
            return schema;
        }

        @Override
        public String description() {
            return source.described(options);
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return source.stream(options);
        }
    }
}
