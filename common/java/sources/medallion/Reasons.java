package medallion;

/** The names of the faults, as they stand in a quarantined row's reasons. */
final class Reasons {
    static final String EMPTY_VALUE = "empty_value";
    static final String NOT_UTF8 = "not_utf8";
    static final String TOO_LARGE = "too_large";
    static final String TOO_DEEP = "too_deep";
    static final String MALFORMED_JSON = "malformed_json";
    static final String TRAILING_DATA = "trailing_data";
    static final String NOT_AN_OBJECT = "not_an_object";
    static final String DUPLICATE_KEY = "duplicate_key";
    static final String BAD_UNICODE = "bad_unicode";
    static final String WRONG_TYPE = "wrong_type";
    static final String MISSING_REQUIRED = "missing_required";
    static final String NON_FINITE_NUMBER = "non_finite_number";
    static final String NUMBER_OUT_OF_RANGE = "number_out_of_range";
    static final String NUMBER_ROUNDED = "number_rounded";
    static final String INVALID_TIMESTAMP = "invalid_timestamp";
    static final String TIMESTAMP_WITHOUT_OFFSET = "timestamp_without_offset";
    static final String MALFORMED_CSV = "malformed_csv";
    static final String WRONG_FIELD_COUNT = "wrong_field_count";
    static final String MALFORMED_AVRO = "malformed_avro";
    static final String UNKNOWN_FRAMING = "unknown_framing";
    static final String UNKNOWN_SCHEMA_ID = "unknown_schema_id";
    static final String UNRESOLVABLE_SCHEMA = "unresolvable_schema";
    static final String READER_FAILED = "reader_failed";

    private Reasons() {
    }
}
