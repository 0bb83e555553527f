package medallion.avro;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.avro.Schema;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Schema changes that Avro would let pass, and that would not give the value that was written. */
class AvroRulesTest {
    private static boolean forbids(String writer, String reader) {
        return AvroRules.isForbidden(record(type(writer)), record(type(reader)));
    }

    private static Schema record(String type) {
        return new Schema.Parser()
                .parse(
                        "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":"
                                + type
                                + "}]}");
    }

    /** {@code long timestamp-millis}, {@code fixed/5 decimal/9/2}, {@code null|int date}. */
    private static String type(String text) {
        if (text.contains("|")) {
            StringBuilder branches = new StringBuilder("[");
            for (String branch : text.split("[|]")) {
                branches.append(branches.length() == 1 ? "" : ",").append(type(branch));
            }
            return branches.append("]").toString();
        }
        String[] words = text.split(" ");
        String[] base = words[0].split("/");
        String json = "\"type\":\"" + base[0] + "\"";
        if (base.length == 2) {
            json += ",\"name\":\"F\",\"size\":" + base[1];
        }
        if (words.length == 2) {
            String[] logical = words[1].split("/");
            json += ",\"logicalType\":\"" + logical[0] + "\"";
            if (logical.length == 3) {
                json += ",\"precision\":" + logical[1] + ",\"scale\":" + logical[2];
            }
        }
        return "{" + json + "}";
    }

    @ParameterizedTest(name = "{0} read as {1}")
    @CsvSource({
        "string, bytes decimal/10/2",
        "bytes, bytes decimal/10/2",
        "bytes decimal/10/2, bytes",
        "bytes decimal/10/2, string",
        "fixed/5, fixed/5 decimal/9/2",
        "fixed/5 decimal/9/2, fixed/5",
        "fixed/16, fixed/16 uuid",
        "fixed/16 uuid, fixed/16",
        "string uuid, bytes decimal/10/2",
        "int, int date",
        "int date, int",
        "int date, long",
        "int date, double",
        "int, long timestamp-millis",
        "int time-millis, int",
        "int time-millis, long time-micros",
        "long, long timestamp-millis",
        "long, long timestamp-micros",
        "long, long timestamp-nanos",
        "long, long local-timestamp-millis",
        "long timestamp-millis, long",
        "long timestamp-micros, float",
        "long timestamp-micros, double",
        "long timestamp-millis, long timestamp-micros",
        "long timestamp-millis, long local-timestamp-millis",
        "bytes decimal/10/2, bytes decimal/10/3",
        "null|long, null|long timestamp-millis",
        "long, null|long timestamp-millis",
        "null|long timestamp-millis, long",
        "null|string|bytes, null|bytes decimal/10/2"
    })
    void aLogicalTypeOfOneSideOnlyIsForbidden(String writer, String reader) {
        assertEquals(true, forbids(writer, reader));
    }

    @ParameterizedTest(name = "{0} read as {1}")
    @CsvSource({
        "long timestamp-millis, long timestamp-millis",
        "long timestamp-millis, null|long timestamp-millis",
        "null|long timestamp-millis, null|long timestamp-millis",
        "null|string|long timestamp-millis, null|long timestamp-millis",
        "null|int date, null|int date",
        "bytes decimal/10/2, bytes decimal/12/2",
        "fixed/16 uuid, fixed/16 uuid",
        "string uuid, string",
        "string, string uuid",
        "string, bytes",
        "bytes, string",
        "int, long",
        "int, null|double",
        "long epoch-of-our-own, long"
    })
    void whatKeepsItsValueIsNot(String writer, String reader) {
        assertEquals(false, forbids(writer, reader));
    }

    @Test
    void itemsOfNoBytesAreForbidden() {
        Schema items = record("{\"type\":\"array\",\"items\":\"null\"}");
        assertEquals(true, AvroRules.isForbidden(items, items));
    }

    @Test
    void aNestedChangeIsForbidden() {
        String millis = type("long timestamp-millis");
        for (String around :
                new String[] {
                    "{\"type\":\"array\",\"items\":%s}",
                    "{\"type\":\"map\",\"values\":%s}",
                    "{\"type\":\"record\",\"name\":\"In\",\"fields\":[{\"name\":\"b\",\"type\":%s}]}"
                }) {
            Schema plain = record(String.format(around, "\"long\""));
            Schema logical = record(String.format(around, millis));
            assertEquals(true, AvroRules.isForbidden(plain, logical));
            assertEquals(true, AvroRules.isForbidden(logical, plain));
            assertEquals(false, AvroRules.isForbidden(logical, logical));
        }
    }
}
