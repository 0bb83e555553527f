"""Names of silver's internal columns, and of the metadata columns of its tables. Pure."""

from __future__ import annotations

META = "_kafka"
"""The struct that carries a row's coordinates, raw bytes and parse fault beside its columns."""

PLACE = ("topic", "partition", "offset")
"""The fields of ``META`` that identify a Kafka record."""

KEY, EVENT_TIME = "__key", "__event_time"
"""The text by which two rows are one event, and the time that the watermark follows."""

REASONS, WARNED = "__reasons", "__warned"
"""Lists of all reasons against a row, and of the broken rules that only warn."""

VERDICT = "__verdict"
"""The column that says what becomes of a row: one of the seven values below."""

ACCEPT = "accept"
TOMBSTONE = "tombstone"
QUARANTINE = "quarantine"
DROP = "drop"
FAIL = "fail"
LATE = "late"
"""An accepted row at or before the watermark."""

OTHER = "other"
"""A record for which the table's ``where`` is not true; commits count such records under this name."""

OTHER_RECORD = "(other)"
"""The fault, in ``META``, of a record for which the table's ``where`` is not true; no rule is named so."""

COORDINATES = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The columns of a silver table that identify the Kafka record of a row."""

ARRIVAL = ("_ingested_at", *COORDINATES)
"""The columns of a silver table that order rows by arrival: of one key the first row stays."""

KAFKA_TIMESTAMP = "_kafka_timestamp"
"""The column of a silver table with the time that Kafka has for the record."""

WATERMARK = "_watermark"
"""The column of the table of late rows: the watermark by which a row was late."""
