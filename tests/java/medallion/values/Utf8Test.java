package medallion.values;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Random;

/** UTF-8 as Java's own strict decoder takes it. */
class Utf8Test {
    @ParameterizedTest(name = "{1}: {0}")
    @CsvSource({
        "'', nothing, true",
        "7f, the last of one byte, true",
        "c280, the first of two bytes, true",
        "efbfbf, the last of three bytes, true",
        "f48fbfbf, the last character, true",
        "ed9fbf, before the surrogates, true",
        "ee8080, after the surrogates, true",
        "80, a continuation alone, false",
        "c3, cut off, false",
        "f09f8c, cut off, false",
        "c0af, overlong in two bytes, false",
        "c1bf, overlong in two bytes, false",
        "e080af, overlong in three bytes, false",
        "f08080af, overlong in four bytes, false",
        "eda080, half a surrogate, false",
        "edbfbf, half a surrogate, false",
        "f4908080, above the last character, false",
        "f5808080, no first byte, false",
        "ff, no first byte, false",
        "c328, no continuation, false"
    })
    void sequences(String hex, String what, boolean isValid) {
        byte[] sequence = HexFormat.of().parseHex(hex);
        assertEquals(isValid, Utf8.isValid(sequence), what);
        // At every place of a word of eight bytes.
        for (int before = 0; before < 9; before++) {
            byte[] within = new byte[before + sequence.length + 9];
            Arrays.fill(within, (byte) 'a');
            System.arraycopy(sequence, 0, within, before, sequence.length);
            assertEquals(isValid, Utf8.isValid(within), what);
        }
    }

    @Test
    void randomBytesAreJudgedAsJavaJudgesThem() {
        Random chance = new Random(4);
        int valid = 0;
        for (int i = 0; i < 50000; i++) {
            byte[] bytes = new byte[chance.nextInt(6)];
            chance.nextBytes(bytes);
            boolean isValid = true;
            try {
                StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes));
            } catch (CharacterCodingException malformed) {
                isValid = false;
            }
            assertEquals(isValid, Utf8.isValid(bytes), () -> Arrays.toString(bytes));
            valid += isValid ? 1 : 0;
        }
        assertEquals(true, valid > 5000 && valid < 45000);
    }
}
