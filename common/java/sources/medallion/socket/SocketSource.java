package medallion.socket;

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

/**
 * Spark's entry to the lines of a server, with the columns of Spark's own source {@code socket},
 * which cannot go on from a checkpoint.
 */
public final class SocketSource implements TableProvider {
    private static boolean hasTime(CaseInsensitiveStringMap options) {
        return Boolean.parseBoolean(options.get("includeTimestamp"));
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return StructType.fromDDL(
                hasTime(options) ? "value string, timestamp timestamp" : "value string");
    }

    @Override
    public Table getTable(
            StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Server(schema);
    }

    private static final class Server implements SupportsRead {
        private final StructType schema;

        Server(StructType schema) {
            this.schema = schema;
        }

        @Override
        public String name() {
            return "socket";
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
            return new Builder(options, schema);
        }
    }

    private static final class Builder implements ScanBuilder, Scan {
        private final CaseInsensitiveStringMap options;
        private final StructType schema;

        Builder(CaseInsensitiveStringMap options, StructType schema) {
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
            return "lines of " + options.get("host") + ":" + options.get("port");
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            int port = Integer.parseInt(options.get("port"));
            return new SocketStream(options.get("host"), port, hasTime(options));
        }
    }
}
