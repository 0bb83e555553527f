"""Names of silver's internal columns, and of the metadata columns of its tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable

META = "_kafka"
"""The struct that carries a row's coordinates, raw bytes and parse fault beside its columns."""

PLACE = ("topic", "partition", "offset")
"""The fields of ``META`` that identify a Kafka record."""

KEY, EVENT_TIME = "__key", "__event_time"
"""The text by which two rows are one event, and the time that the watermark follows."""

REASONS, WARNED = "__reasons", "__warned"
"""Lists of all reasons against a row, and of the broken rules that only warn."""

VERDICT = "__verdict"
"""The column that says what becomes of a row: one of the values below."""

ACCEPT = "accept"
TOMBSTONE = "tombstone"
QUARANTINE = "quarantine"
DROP = "drop"
FAIL = "fail"
LATE = "late"
"""An accepted row at or before the watermark."""

OTHER = "other"
"""A record for which the table's ``where`` is not true; commits count such records under this name."""

EMPTY = "empty"
"""A record without an element, of a table with a row per element; commits count it under this name."""

OTHER_RECORD = "(other)"
"""The fault, in ``META``, of a record for which the table's ``where`` is not true; no rule is named so."""

COORDINATES = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The columns of a silver table that identify the Kafka record of a row."""

ELEMENT = "element"
"""The field of ``META`` with an element's position in its record, of a table with a row per element; null in
the row of a record that has none or cannot be read. The column of quarantine has the same name."""

ELEMENT_COLUMN = "_element"
"""The column of a silver table with a row per element: the element's position in its record."""

INGESTED_AT = "_ingested_at"
"""The column of a silver table with the time at which bronze read the record."""


def row_coordinates(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that identify a row of a silver table with these columns: its record, and its element."""
    return (*COORDINATES, ELEMENT_COLUMN) if ELEMENT_COLUMN in columns else COORDINATES


def arrival(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that order a silver table's rows by arrival: of one key the first row stays."""
    return (INGESTED_AT, *row_coordinates(columns))


def row_place(fields: Iterable[str]) -> tuple[str, ...]:
    """The fields of a ``META`` with these fields that identify a row: its record, and its element."""
    return (*PLACE, ELEMENT) if ELEMENT in fields else PLACE


KAFKA_TIMESTAMP = "_kafka_timestamp"
"""The column of a silver table with the time that Kafka has for the record."""

WATERMARK = "_watermark"
"""The column of the table of late rows: the watermark by which a row was late."""
