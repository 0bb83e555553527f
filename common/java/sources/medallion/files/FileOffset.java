package medallion.files;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.spark.sql.connector.read.streaming.Offset;

import java.io.IOException;

/**
 * The offset after the last record that was read, in the form of Kafka's source: {@code
 * {"files:history":{"0":1234}}}.
 */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class FileOffset extends Offset {
    private static final ObjectMapper JSON = new ObjectMapper();

    final String topic;
    final long rows;

    FileOffset(String topic, long rows) {
        this.topic = topic;
        this.rows = rows;
    }

    static FileOffset parse(String topic, String json) {
        try {
            return new FileOffset(
                    topic,
                    ((JsonNode) ((JsonNode) JSON.readTree(json).path(topic)).path("0")).asLong());
        } catch (IOException error) {
            throw new IllegalArgumentException("no offset of files: " + json, error);
        }
    }

    @Override
    public String json() {
        ObjectNode node = JSON.createObjectNode();
        node.putObject(topic).put("0", rows);
        return node.toString();
    }
}
