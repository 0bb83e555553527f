package medallion.avro;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import medallion.faults.Fault;

import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.Decoder;
import org.apache.avro.io.DecoderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.HexFormat;
import java.util.Random;

/** Avro's binary encoding to the letter, beside Avro's own decoder. */
class AvroBytesTest {
    private static Object read(String kind, Decoder from) throws IOException {
        switch (kind) {
            case "boolean":
                return from.readBoolean();
            case "int":
                return from.readInt();
            case "long":
                return from.readLong();
            case "float":
                return from.readFloat();
            case "double":
                return from.readDouble();
            case "string":
                return from.readString(null).toString();
            case "bytes":
                return HexFormat.of().formatHex(from.readBytes(null).array());
            case "enum":
                return from.readEnum();
            case "union":
                return from.readIndex();
            case "array":
                return from.readArrayStart();
            case "map":
                return from.readMapStart();
            case "skipped string":
                from.skipString();
                return "";
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    @ParameterizedTest(name = "{0} of {1}")
    @CsvSource({
        "boolean, 00, false",
        "boolean, 01, true",
        "int, 00, 0",
        "int, 01, -1",
        "int, feffffff0f, 2147483647",
        "int, ffffffff0f, -2147483648",
        "long, feffffffffffffffff01, 9223372036854775807",
        "long, ffffffffffffffffff01, -9223372036854775808",
        "float, 0000803f, 1.0",
        "double, 000000000000f03f, 1.0",
        "string, 06616263, abc",
        "bytes, 0401ff, 01ff",
        "enum, 02, 1",
        "union, 02, 1",
        "array, 0402020202, 2",
        "array, 03040202, 2",
        "map, 00, 0"
    })
    void whatAvroWritesIsRead(String kind, String hex, String expected) throws IOException {
        assertEquals(expected, read(kind, ours(hex)).toString());
        assertEquals(expected, read(kind, avros(hex)).toString());
    }

    @ParameterizedTest(name = "{0}: {1} of {2}")
    @CsvSource({
        "a boolean of another byte, boolean, 02, false",
        "a boolean of another byte, boolean, ff, false",
        "an int of more than 32 bits, int, ffffffff7f, -2147483648",
        "an int whose fifth byte has bits of no int, int, 8080808010, 0",
        "a long whose tenth byte has bits of no long, long, 80808080808080808002, 0",
        "a long whose tenth byte has bits of no long, long, feffffffffffffffff7f,"
                + " 9223372036854775807",
        "a negative place in an enum, enum, 01, -1",
        "a negative place in a union, union, 01, -1",
        "a block of more items than bytes, array, fe01, 127",
        "a block of more items than bytes, map, eeffffff0f, 2147483639",
        "a block whose size is more than is left, array, 03feffff07, 2"
    })
    void whatAvrosDecoderLetsThroughIsRefused(String what, String kind, String hex, String avros)
            throws IOException {
        assertEquals(avros, read(kind, avros(hex)).toString(), what);
        assertEquals("malformed_avro", reason(kind, hex), what);
    }

    @ParameterizedTest(name = "{0} of {1}")
    @CsvSource({
        "boolean, ''",
        "int, 80",
        "int, ffffffffff01",
        "long, ffffffffffffffffffff01",
        "float, 000000",
        "double, 00000000000000",
        "string, 06",
        "string, 0661",
        "string, 01",
        "bytes, 03",
        "bytes, feffffff0f",
        "skipped string, fe01"
    })
    void whatBothRefuse(String kind, String hex) {
        assertThrows(Exception.class, () -> read(kind, avros(hex)));
        assertEquals("malformed_avro", reason(kind, hex));
    }

    @Test
    void numbersOfManySizesAreAsAvroReadsThem() throws IOException {
        Random chance = new Random(5);
        for (int i = 0; i < 20000; i++) {
            long value = chance.nextLong() >> chance.nextInt(64);
            byte[] encoded = encoded(value);
            AvroBytes bytes = new AvroBytes();
            bytes.set(encoded, 0);
            assertEquals(value, bytes.readLong());
            assertTrue(bytes.isAtEnd() && bytes.hasWhole && bytes.whole == value);
            BinaryDecoder avro = DecoderFactory.get().binaryDecoder(encoded, null);
            assertEquals(value, avro.readLong());
        }
    }

    @Test
    void aLengthThatIsNotThereAllocatesNothing() {
        // 2^31 - 1 bytes, of which three are there.
        byte[] value = HexFormat.of().parseHex("feffffff0f616263");
        AvroBytes bytes = new AvroBytes();
        for (int i = 0; i < 10000; i++) {
            bytes.set(value, 0);
            assertThrows(Fault.class, () -> bytes.readBytes(null));
        }
    }

    private static byte[] encoded(long value) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        long left = value << 1 ^ value >> 63;
        while ((left & ~0x7FL) != 0) {
            out.write((int) (left & 0x7F | 0x80));
            left >>>= 7;
        }
        out.write((int) left);
        return out.toByteArray();
    }

    private static String reason(String kind, String hex) {
        return assertThrows(Fault.class, () -> read(kind, ours(hex))).reason;
    }

    private static AvroBytes ours(String hex) {
        AvroBytes bytes = new AvroBytes();
        bytes.set(HexFormat.of().parseHex(hex), 0);
        return bytes;
    }

    private static Decoder avros(String hex) {
        return DecoderFactory.get().binaryDecoder(HexFormat.of().parseHex(hex), null);
    }
}
