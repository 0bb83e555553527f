package bench;

import java.io.IOException;
import java.time.DateTimeException;
import java.time.Instant;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonToken;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.TypeInference;
import org.apache.flink.table.types.inference.TypeStrategies;
import org.apache.flink.types.Row;

/** An event of a message's bytes, read strictly and in one pass; null where it cannot be read. */
public class Event extends ScalarFunction {
    private static final String TYPE =
            "ROW<event_id STRING, event_time TIMESTAMP_LTZ(6), sent_at BIGINT, kind STRING, product STRING, "
                    + "cents BIGINT, quantity INT, user_id BIGINT, country STRING>";
    private static final JsonFactory JSON =
            new JsonFactory().enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION);

    public TypeInference getTypeInference(DataTypeFactory types) {
        return TypeInference.newBuilder()
                .typedArguments(new DataType[] {DataTypes.BYTES()})
                .outputTypeStrategy(TypeStrategies.explicit(types.createDataType(TYPE)))
                .build();
    }

    public Row eval(byte[] value) {
        if (value == null) {
            return null;
        }
        Row event = new Row(9);
        try {
            JsonParser parser = JSON.createParser(value);
            if (parser.nextToken() != JsonToken.START_OBJECT) {
                return null;
            }
            object(parser, event, "");
            return parser.nextToken() == null && isWhole(event) ? event : null;
        } catch (IOException e) {
            return null;
        } catch (DateTimeException e) {
            return null;
        } catch (ArithmeticException e) {
            return null;
        }
    }

    private static void object(JsonParser parser, Row event, String before) throws IOException {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = before + parser.getCurrentName();
            JsonToken token = parser.nextToken();
            if (token == JsonToken.START_OBJECT && name.equals("user")) {
                object(parser, event, "user.");
            } else if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) {
                parser.skipChildren();
            } else if (token != JsonToken.VALUE_NULL) {
                field(parser, event, name);
            }
        }
    }

    private static void field(JsonParser parser, Row event, String name) throws IOException {
        if (name.equals("event_id")) {
            event.setField(0, text(parser));
        } else if (name.equals("event_time")) {
            event.setField(1, Instant.parse(text(parser)));
        } else if (name.equals("sent_at")) {
            event.setField(2, Long.valueOf(whole(parser)));
        } else if (name.equals("kind")) {
            event.setField(3, text(parser));
        } else if (name.equals("product")) {
            event.setField(4, text(parser));
        } else if (name.equals("cents")) {
            event.setField(5, Long.valueOf(whole(parser)));
        } else if (name.equals("quantity")) {
            event.setField(6, Integer.valueOf(Math.toIntExact(whole(parser))));
        } else if (name.equals("user.id")) {
            event.setField(7, Long.valueOf(whole(parser)));
        } else if (name.equals("user.country")) {
            event.setField(8, text(parser));
        }
    }

    private static boolean isWhole(Row event) {
        return event.getField(0) != null
                && event.getField(1) != null
                && event.getField(5) != null
                && event.getField(7) != null;
    }

    private static String text(JsonParser parser) throws IOException {
        if (parser.getCurrentToken() != JsonToken.VALUE_STRING) {
            throw new IOException("no text");
        }
        return parser.getText();
    }

    private static long whole(JsonParser parser) throws IOException {
        if (parser.getCurrentToken() != JsonToken.VALUE_NUMBER_INT) {
            throw new IOException("no whole number");
        }
        return parser.getLongValue();
    }
}
