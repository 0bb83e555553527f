package medallion.socket;

import medallion.streaming.StreamTable;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's entry to the lines of a server, with the columns of Spark's own source {@code socket},
 * which cannot go on from a checkpoint.
 */
public final class SocketSource extends StreamTable {
    private static boolean hasTime(CaseInsensitiveStringMap options) {
        return Boolean.parseBoolean(options.get("includeTimestamp"));
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return StructType.fromDDL(
                hasTime(options) ? "value string, timestamp timestamp" : "value string");
    }

    @Override
    protected String described(CaseInsensitiveStringMap options) {
        return "lines of " + options.get("host") + ":" + options.get("port");
    }

    @Override
    protected MicroBatchStream stream(CaseInsensitiveStringMap options) {
        int port = Integer.parseInt(options.get("port"));
        return new SocketStream(options.get("host"), port, hasTime(options));
    }
}
