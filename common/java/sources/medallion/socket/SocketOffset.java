package medallion.socket;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** How many lines were received, those of earlier connections included. */
final class SocketOffset extends Offset {
    final long lines;

    SocketOffset(long lines) {
        this.lines = lines;
    }

    @Override
    public String json() {
        return Long.toString(lines);
    }
}
