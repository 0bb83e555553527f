package medallion.values;

/**
 * Parses dates and timestamps in ISO 8601: a four-digit year, month and day; for a timestamp,
 * {@code T} or a blank, hours and minutes, optionally seconds with a fraction, and optionally
 * {@code Z} or an offset. Not thread-safe: an object holds the result parsed last.
 */
public final class Times {
    private static final int[] DAYS = new int[] {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    /** 0001-01-01T00:00:00Z, in seconds since 1970-01-01T00:00Z. */
    private static final long FIRST_SECOND = -62135596800L;

    /** 9999-12-31T23:59:59Z, in seconds since 1970-01-01T00:00Z. */
    private static final long LAST_SECOND = 253402300799L;

    /** Days since 1970-01-01 of the date parsed last. */
    public int days;

    /**
     * Microseconds since 1970-01-01T00:00Z of the timestamp parsed last; since 1970-01-01T00:00
     * local time if the timestamp has no offset.
     */
    public long micros;

    /** Whether the timestamp parsed last ends with {@code Z} or an offset. */
    public boolean hasOffset;

    /** Whether a digit after the sixth of the fraction is not 0. */
    public boolean isRounded;

    private byte[] text;
    private int at;
    private int end;

    /** Parses a date into {@code days}; returns false if the text is not a date. */
    public boolean date(byte[] source, int from, int to) {
        text = source;
        at = from;
        end = to;
        return day() && at == end;
    }

    /** Parses a timestamp into {@code micros}; returns false if the text is not a timestamp. */
    public boolean timestamp(byte[] source, int from, int to) {
        text = source;
        at = from;
        end = to;
        hasOffset = false;
        isRounded = false;
        if (!day() || at == end || (text[at] != 'T' && text[at] != ' ')) {
            return false;
        }
        at++;
        int hour = two();
        if (hour < 0 || hour > 23 || !colon()) {
            return false;
        }
        int minute = two();
        if (minute < 0 || minute > 59) {
            return false;
        }
        int second = 0;
        int fraction = 0;
        if (at < end && text[at] == ':') {
            at++;
            second = two();
            if (second < 0 || second > 59) {
                return false;
            }
            if (at < end && text[at] == '.') {
                at++;
                fraction = fraction();
                if (fraction < 0) {
                    return false;
                }
            }
        }
        long seconds = (long) days * 86400L + hour * 3600L + minute * 60L + second;
        if (at < end) {
            int offset = offset();
            if (offset == Integer.MIN_VALUE || at != end) {
                return false;
            }
            hasOffset = true;
            seconds -= offset;
        }
        micros = seconds * 1000000L + fraction;
        return seconds >= FIRST_SECOND && seconds <= LAST_SECOND;
    }

    private boolean day() {
        int high = two();
        int low = two();
        if (high < 0 || low < 0 || !dash()) {
            return false;
        }
        int year = high * 100 + low;
        int month = two();
        if (year < 1 || month < 1 || month > 12 || !dash()) {
            return false;
        }
        int day = two();
        boolean isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        if (day < 1 || day > DAYS[month - 1] + (month == 2 && isLeap ? 1 : 0)) {
            return false;
        }
        days = days(year, month, day);
        return true;
    }

    /**
     * Days since 1970-01-01 in the proleptic Gregorian calendar. The computation counts years from
     * March to February, so that a leap day is the last day of its year.
     */
    private static int days(int year, int month, int day) {
        int y = month <= 2 ? year - 1 : year;
        int era = Math.floorDiv(y, 400);
        int yearOfEra = y - era * 400;
        int dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
        return era * 146097
                + yearOfEra * 365
                + yearOfEra / 4
                - yearOfEra / 100
                + dayOfYear
                - 719468;
    }

    /** Reads a fraction of a second in microseconds; -1 if there is no digit. */
    private int fraction() {
        int first = at;
        int value = 0;
        while (at < end && text[at] >= '0' && text[at] <= '9') {
            int place = at - first;
            if (place < 6) {
                value = value * 10 + (text[at] - '0');
            } else if (text[at] != '0') {
                isRounded = true;
            }
            at++;
        }
        if (at == first) {
            return -1;
        }
        for (int place = at - first; place < 6; place++) {
            value *= 10;
        }
        return value;
    }

    /**
     * Reads {@code Z} or an offset, in seconds east of Greenwich; {@code Integer.MIN_VALUE} if
     * malformed.
     */
    private int offset() {
        int sign = text[at];
        at++;
        if (sign == 'Z') {
            return 0;
        }
        if (sign != '+' && sign != '-') {
            return Integer.MIN_VALUE;
        }
        int hours = two();
        int minutes = 0;
        if (hours >= 0 && at < end) {
            if (text[at] == ':') {
                at++;
            }
            minutes = two();
        }
        if (hours < 0 || minutes < 0 || minutes > 59 || hours * 60 + minutes > 1080) {
            return Integer.MIN_VALUE;
        }
        int seconds = hours * 3600 + minutes * 60;
        return sign == '-' ? -seconds : seconds;
    }

    private boolean dash() {
        return at < end && text[at++] == '-';
    }

    private boolean colon() {
        return at < end && text[at++] == ':';
    }

    /** Reads two digits; -1 if the next two bytes are not digits. */
    private int two() {
        if (at + 2 > end) {
            return -1;
        }
        int tens = text[at] - '0';
        int ones = text[at + 1] - '0';
        if (tens < 0 || tens > 9 || ones < 0 || ones > 9) {
            return -1;
        }
        at += 2;
        return tens * 10 + ones;
    }
}
