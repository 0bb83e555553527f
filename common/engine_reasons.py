"""The reasons by which the engine itself sets a record aside; those of an author's rules are their names.

Each is given where it is found: by the readers of values (``Reasons.java``), by ``silver.judge`` and by
``silver.read``. docs/records/what-happens-to-a-row.md explains them.
"""

from __future__ import annotations

ENGINE_REASONS = frozenset(
    {
        *("empty_value", "not_utf8", "too_large", "too_deep", "reader_failed", "column_failed", "poison"),
        *("malformed_json", "trailing_data", "not_an_object", "duplicate_key", "bad_unicode"),
        *("wrong_type", "missing_required", "invalid_timestamp", "timestamp_without_offset"),
        *("non_finite_number", "number_out_of_range", "number_rounded"),
        *("malformed_csv", "wrong_field_count", "missing_column", "duplicate_column"),
        *("malformed_protobuf", "unknown_enum_number"),
        *("malformed_avro", "unknown_framing", "unknown_schema_id", "unresolvable_schema"),
        *("unreadable_file", "unreadable_record", "no_json_form"),
        *("null_key", "null_event_time", "future_event_time"),
    }
)
"""Reasons that the engine itself gives for a quarantined row; a rule must not have one of these names."""
