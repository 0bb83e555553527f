"""The order of a key's rows: what the pipeline declares, and Kafka's coordinates to break ties. Pure."""

from __future__ import annotations

from collections.abc import Sequence

COORDINATES = ("_kafka_timestamp", "_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The columns that say which Kafka record a row was; they order rows that are equal in a declared order."""


def total_order(newest_by: Sequence[str]) -> tuple[str, ...]:
    """Columns that order all versions of a key, the most significant first."""
    return (*newest_by, *(name for name in COORDINATES if name not in newest_by))
