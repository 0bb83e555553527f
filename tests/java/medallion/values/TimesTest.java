package medallion.values;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;

/** Dates and times of ISO 8601 text, by the calendar of java.time. */
class TimesTest {
    @ParameterizedTest(name = "of {0}")
    @CsvSource({
        "1970-01-01, 0",
        "2024-02-29, 19782",
        "0001-01-01, -719162",
        "9999-12-31, 2932896",
        "1900-02-28, -25509",
        "0000-12-31, none",
        "2023-02-29, none",
        "1900-02-29, none",
        "2024-04-31, none",
        "2024-13-01, none",
        "2024-00-01, none",
        "2024-01-00, none",
        "2024-2-9, none",
        "24-02-09, none",
        "2024-02-29T00:00:00Z, none",
        "'2024-02-29 ', none",
        "-001-01-01, none",
        "2024/02/29, none",
        "'', none"
    })
    void dates(String text, String expected) {
        Times times = new Times();
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        assertEquals(expected, times.date(bytes, 0, bytes.length) ? "" + times.days : "none");
    }

    @Test
    void everyDayOfFourCenturies() {
        Times times = new Times();
        LocalDate last = LocalDate.of(2000, 12, 31);
        for (LocalDate day = LocalDate.of(1600, 1, 1); !day.isAfter(last); day = day.plusDays(1)) {
            byte[] bytes = day.toString().getBytes(StandardCharsets.UTF_8);
            assertEquals(true, times.date(bytes, 0, bytes.length));
            assertEquals(day.toEpochDay(), times.days);
        }
    }

    @ParameterizedTest(name = "of {0}")
    @CsvSource({
        "2024-02-29T12:00:00Z, 2024-02-29T12:00:00Z",
        "2024-02-29 12:00:00.123456+02:30, 2024-02-29T09:30:00.123456Z",
        "2024-02-29T12:00-05, 2024-02-29T17:00:00Z",
        "2024-02-29T12:00:00.1234560000+0000, 2024-02-29T12:00:00.123456Z",
        "2024-02-29T12:00:00.5-00:01, 2024-02-29T12:01:00.500Z",
        "1969-12-31T23:59:59.999999, 1969-12-31T23:59:59.999999Z local",
        "2024-02-29T12:00, 2024-02-29T12:00:00Z local",
        "2024-02-29T12:00:00.1234567Z, 2024-02-29T12:00:00.123456Z rounded",
        "2024-02-29T12:00:00+18:00, 2024-02-28T18:00:00Z",
        "0001-01-01T00:00:00Z, 0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z, 9999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00+00:01, none",
        "9999-12-31T23:59:59-00:01, none",
        "2024-02-29T12:00:00+18:01, none",
        "2024-02-29T12:00:00+19:00, none",
        "2024-02-29T12:00:00+01:60, none",
        "2024-02-29T12:00:00+1, none",
        "2024-02-29T12:00:00+01:, none",
        "2024-02-29T12:00:00z, none",
        "2024-02-29t12:00:00Z, none",
        "2024-02-29T24:00:00Z, none",
        "2024-02-29T12:60:00Z, none",
        "2024-02-29T12:00:60Z, none",
        "2024-02-29T12:00:00.Z, none",
        "'2024-02-29T12:00:00,5Z', none",
        "2024-02-29T12, none",
        "2024-02-29T1:00:00Z, none",
        "2024-02-29T12:00:00ZZ, none",
        "2024-02-29T12:00:00 Europe/Paris, none",
        "2024-02-30T12:00:00Z, none",
        "2024-02-29, none",
        "yesterday, none",
        "'', none"
    })
    void timestamps(String text, String expected) {
        Times times = new Times();
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        String found = "none";
        if (times.timestamp(bytes, 0, bytes.length)) {
            found = Instant.EPOCH.plus(times.micros, ChronoUnit.MICROS).toString();
            found += times.hasOffset ? "" : " local";
            found += times.isRounded ? " rounded" : "";
        }
        assertEquals(expected, found);
    }
}
