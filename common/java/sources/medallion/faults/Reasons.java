package medallion.faults;

/** Names of the faults, as written in the reasons of a quarantined row. */
public final class Reasons {
    public static final String EMPTY_VALUE = "empty_value";
    public static final String NOT_UTF8 = "not_utf8";
    public static final String TOO_LARGE = "too_large";
    public static final String TOO_DEEP = "too_deep";
    public static final String MALFORMED_JSON = "malformed_json";
    public static final String TRAILING_DATA = "trailing_data";
    public static final String NOT_AN_OBJECT = "not_an_object";
    public static final String DUPLICATE_KEY = "duplicate_key";
    public static final String BAD_UNICODE = "bad_unicode";
    public static final String WRONG_TYPE = "wrong_type";
    public static final String MISSING_REQUIRED = "missing_required";
    public static final String NON_FINITE_NUMBER = "non_finite_number";
    public static final String NUMBER_OUT_OF_RANGE = "number_out_of_range";
    public static final String NUMBER_ROUNDED = "number_rounded";
    public static final String INVALID_TIMESTAMP = "invalid_timestamp";
    public static final String TIMESTAMP_WITHOUT_OFFSET = "timestamp_without_offset";
    public static final String MALFORMED_CSV = "malformed_csv";
    public static final String WRONG_FIELD_COUNT = "wrong_field_count";
    public static final String MISSING_COLUMN = "missing_column";
    public static final String DUPLICATE_COLUMN = "duplicate_column";
    public static final String MALFORMED_AVRO = "malformed_avro";
    public static final String MALFORMED_PROTOBUF = "malformed_protobuf";
    public static final String UNKNOWN_ENUM_NUMBER = "unknown_enum_number";
    public static final String UNKNOWN_FRAMING = "unknown_framing";
    public static final String UNKNOWN_SCHEMA_ID = "unknown_schema_id";
    public static final String UNRESOLVABLE_SCHEMA = "unresolvable_schema";
    public static final String NO_JSON_FORM = "no_json_form";
    public static final String UNREADABLE_FILE = "unreadable_file";
    public static final String UNREADABLE_RECORD = "unreadable_record";
    public static final String READER_FAILED = "reader_failed";

    private Reasons() {}
}
