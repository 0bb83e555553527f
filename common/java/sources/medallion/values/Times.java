package medallion.values;

/**
 * Dates and times of ISO 8601 text: four-digit years, months, days, {@code T} or a blank, hours and
 * minutes, seconds and a fraction where they are there, {@code Z} or an offset. Not thread-safe: it
 * keeps its result.
 */
public final class Times {
    private static final int[] DAYS = new int[] {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    /** Of 0001-01-01T00:00:00Z, and of 9999-12-31T23:59:59Z. */
    private static final long LEAST_SECOND = -62135596800L;

    private static final long LAST_SECOND = 253402300799L;

    /** Days since 1970-01-01, after a date. */
    public int days;

    /**
     * Microseconds since 1970-01-01T00:00Z, or of the clock on the wall where no offset is there.
     */
    public long micros;

    public boolean hasOffset;

    /** Whether digits other than 0 stand after the sixth of the fraction. */
    public boolean isRounded;

    private byte[] text;
    private int at;
    private int end;

    public boolean date(byte[] source, int from, int to) {
        text = source;
        at = from;
        end = to;
        return day() && at == end;
    }

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
        return seconds >= LEAST_SECOND && seconds <= LAST_SECOND;
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
     * Days since 1970-01-01 in the proleptic Gregorian calendar; years begin in March, so February
     * ends them.
     */
    private static int days(int year, int month, int day) {
        int y = month <= 2 ? year - 1 : year;
        int era = Math.floorDiv(y, 400);
        int ofEra = y - era * 400;
        int ofYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
        return era * 146097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719468;
    }

    /** Microseconds of a fraction; -1 where no digit is there. */
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

    /** Seconds east of Greenwich; the least int where no offset is there. */
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

    /** Two digits; -1 where they are not there. */
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
