"""The columns that silver writes: accepted rows with coordinates, rejected rows with raw bytes. Pure.

``silver.<name>``: one row per event; the declared columns and where the row came from.
``silver.<name>__quarantine``: one row per rejected Kafka record; everything bronze has of it, why, and
by which version of the rules. With ``Silver.each`` both have a row per element, with its position.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from common.declare import Silver
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.errors import TableShapeError
from common.rows.expressions import column, is_in, text, when
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from silver.read.column_names import (
    ACCEPT,
    DROP,
    ELEMENT,
    ELEMENT_COLUMN,
    EVENT_TIME,
    KEY,
    META,
    QUARANTINE,
    REASONS,
    VERDICT,
    WARNED,
)

PROPERTIES = {
    # What any reader of Delta can read; a table leaves this only by name.
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 14 days",
}

_CHANGE_FEED = "delta.enableChangeDataFeed"

EACH = "medallion.each"
"""Property of a silver table whose rows are elements: the path of their array."""

_SCRATCH = {META, REASONS, WARNED, VERDICT, KEY, EVENT_TIME}


def properties() -> Mapping[str, str]:
    """Properties of a new silver table: its change data feed has rows that are replaced or deleted.

    A feed costs an append nothing; only commits that remove rows write its files.
    """
    return {**PROPERTIES, "delta.minWriterVersion": "4", _CHANGE_FEED: "true"}


def property_of_each(silver: Silver) -> Mapping[str, str]:
    """The property of a new table whose rows are elements; none for other tables."""
    return {} if silver.each is None else {EACH: silver.each}


def check_each(silver: Silver, path: str) -> None:
    """Refuse a table whose rows are the elements of another array, or records, than the declaration says.

    Raises:
        TableShapeError: Such rows cannot be told apart, and an account of both has no unit.
    """
    have = LogReader(path).properties().get(EACH) if delta_table.exists(path) else silver.each
    if have != silver.each:
        rows, wanted = (
            f"the elements of {each}" if each else "whole records" for each in (have, silver.each)
        )
        raise TableShapeError(
            f"{silver.table} at {path} has rows of {rows}, and is declared with rows of {wanted}. Give the "
            "table with other rows a new name, or move the old table and its checkpoint away and start the "
            "query again."
        )


def check_change_feed(spark: SparkSession, silver: Silver, path: str) -> None:
    """Refuse to replace rows of a table whose readers would not see that.

    Raises:
        TableShapeError: The table keeps no change data feed.
    """
    if silver.keep == "newest" and delta_table.properties(spark, path).get(_CHANGE_FEED) != "true":
        raise TableShapeError(
            f"{silver.table} at {path} keeps no change data feed, so gold would not see rows that are "
            'replaced. Give the table with keep="newest" a new name.'
        )


PLACED = {
    "_kafka_topic": "topic",
    "_kafka_partition": "partition",
    "_kafka_offset": "offset",
    "_kafka_timestamp": "timestamp",
    "_ingested_at": "ingested_at",
}
"""Columns of the silver table beside the declared ones, and their fields in ``META``."""


def placed(rows: Rows) -> Mapping[str, str]:
    """The columns of the silver table beside the declared ones, by their fields in judged rows' ``META``."""
    return {**PLACED, ELEMENT_COLUMN: ELEMENT} if _has_elements(rows) else PLACED


def _has_elements(rows: Rows) -> bool:
    return ELEMENT in rows.schema[META].dataType.names  # type: ignore[attr-defined]


def accepted(rows: Rows, verdict: str = ACCEPT, count: int | None = None) -> Rows:
    """Accepted rows, as the silver table has them; or rows of another verdict.

    Args:
        count: How many rows have it, if that is known.
    """
    declared = {name: column(name) for name in rows.columns if name not in _SCRATCH}
    beside = {name: column(META, field) for name, field in placed(rows).items()}
    return rows.where(is_in(column(VERDICT), [verdict]), count).select(declared | beside)


def accepted_frame(judged: DataFrame) -> DataFrame:
    """``accepted`` of a frame, also of a streaming one."""
    return accepted(SparkRows(judged)).frame


def rejected(rows: Rows, rule_version: str, count: int | None = None) -> Rows:
    """Rejected rows, as the quarantine table has them; of a dropped row neither key, value nor headers.

    Args:
        count: How many rows are rejected, if that is known.
    """
    kept = is_in(column(VERDICT), [QUARANTINE])
    return rows.where(is_in(column(VERDICT), [QUARANTINE, DROP]), count).select(
        {
            "topic": column(META, "topic"),
            "partition": column(META, "partition"),
            "offset": column(META, "offset"),
            "kafka_timestamp": column(META, "timestamp"),
            "kafka_timestamp_type": column(META, "timestamp_type"),
            "ingested_at": column(META, "ingested_at"),
            "reasons": column(REASONS),
            "field": column(META, "fault_field"),
            "verdict": column(VERDICT),
            "rule_version": text(rule_version),
            **{name: when(kept, column(META, name)) for name in ("key", "value", "headers")},
            **({ELEMENT: column(META, ELEMENT)} if _has_elements(rows) else {}),
        }
    )


def rejected_frame(judged: DataFrame, rule_version: str) -> DataFrame:
    """``rejected`` of a frame."""
    return rejected(SparkRows(judged), rule_version).frame
