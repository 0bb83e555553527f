"""The columns silver writes: accepted rows with their coordinates, rejected rows with their raw bytes. Pure.

``silver.<name>``: one row per event; the declared columns and where the row came from.
``silver.<name>__quarantine``: one row per rejected Kafka record; everything bronze has of it, why, and
by which version of the rules.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common.declare import Silver
from common.delta import table as delta_table
from common.errors import TableShapeError
from silver.judge.dedupe import EVENT_TIME, KEY
from silver.judge.rules import ACCEPT, DROP, QUARANTINE, REASONS, VERDICT, WARNED
from silver.read.parse import META

COORDINATES = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The columns of a silver row that say which Kafka record it was."""

ARRIVAL = ("_ingested_at", *COORDINATES)
"""By this the first of several rows of one key is told from the others."""

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

_SCRATCH = {META, REASONS, WARNED, VERDICT, KEY, EVENT_TIME}


def properties() -> Mapping[str, str]:
    """Properties of a new silver table: it tells its readers of rows that are replaced or deleted.

    A feed costs an append nothing; only commits that take rows out write its files.
    """
    return {**PROPERTIES, "delta.minWriterVersion": "4", _CHANGE_FEED: "true"}


def check_change_feed(spark: SparkSession, silver: Silver, path: str) -> None:
    """Refuse to replace rows of a table that does not tell its readers.

    Raises:
        TableShapeError: The table keeps no change data feed.
    """
    if silver.keep == "newest" and delta_table.properties(spark, path).get(_CHANGE_FEED) != "true":
        raise TableShapeError(
            f"{silver.table} at {path} keeps no change data feed, and so does not tell gold of rows that are "
            'replaced. Give the table with keep="newest" a new name.'
        )


_PLACED = {
    "_kafka_topic": "topic",
    "_kafka_partition": "partition",
    "_kafka_offset": "offset",
    "_kafka_timestamp": "timestamp",
    "_ingested_at": "ingested_at",
}
"""Columns of the silver table beside the declared ones, and what they are in ``_kafka``."""


WATERMARK = "_watermark"
"""The column of a late row that says by which watermark it was late."""


def accepted(frame: DataFrame, verdict: str = ACCEPT) -> DataFrame:
    """Rows without a reason, as the silver table has them; or those of another verdict."""
    declared = [name for name in frame.columns if name not in _SCRATCH]
    placed = [F.col(f"{META}.{field}").alias(name) for name, field in _PLACED.items()]
    return frame.where(F.col(VERDICT) == verdict).select(*declared, *placed)


def accepted_rows(rows: pa.Table, verdict: str = ACCEPT) -> pa.Table:
    """``accepted`` of rows in the driver."""
    rows = rows.filter(pc.equal(rows[VERDICT], verdict))
    columns = {name: rows[name] for name in rows.column_names if name not in _SCRATCH}
    return pa.table(columns | {name: _field(rows, field) for name, field in _PLACED.items()})


def rejected(frame: DataFrame, rule_version: str) -> DataFrame:
    """Rows set aside, as the quarantine table has them; of a dropped row neither key, value nor headers.

    ``rule_version`` names the rules that judged them.
    """
    kept = F.col(VERDICT) == QUARANTINE
    return frame.where(F.col(VERDICT).isin(QUARANTINE, DROP)).select(
        F.col(f"{META}.topic").alias("topic"),
        F.col(f"{META}.partition").alias("partition"),
        F.col(f"{META}.offset").alias("offset"),
        F.col(f"{META}.timestamp").alias("kafka_timestamp"),
        F.col(f"{META}.timestamp_type").alias("kafka_timestamp_type"),
        F.col(f"{META}.ingested_at").alias("ingested_at"),
        F.col(REASONS).alias("reasons"),
        F.col(f"{META}.fault_field").alias("field"),
        F.col(VERDICT).alias("verdict"),
        # Not a bare literal: its column would be NOT NULL in the table.
        F.when(F.col(VERDICT).isNotNull(), rule_version).alias("rule_version"),
        F.when(kept, F.col(f"{META}.key")).alias("key"),
        F.when(kept, F.col(f"{META}.value")).alias("value"),
        F.when(kept, F.col(f"{META}.headers")).alias("headers"),
    )


def rejected_rows(rows: pa.Table, rule_version: str) -> pa.Table:
    """``rejected`` of rows in the driver."""
    rows = rows.filter(pc.is_in(rows[VERDICT], pa.array([QUARANTINE, DROP])))
    kept = pc.equal(rows[VERDICT], QUARANTINE)
    columns = {
        "topic": _field(rows, "topic"),
        "partition": _field(rows, "partition"),
        "offset": _field(rows, "offset"),
        "kafka_timestamp": _field(rows, "timestamp"),
        "kafka_timestamp_type": _field(rows, "timestamp_type"),
        "ingested_at": _field(rows, "ingested_at"),
        "reasons": rows[REASONS],
        "field": _field(rows, "fault_field"),
        "verdict": rows[VERDICT],
        "rule_version": pa.repeat(rule_version, rows.num_rows),
    }
    raw = ("key", "value", "headers")
    return pa.table(columns | {name: _where(kept, _field(rows, name)) for name in raw})


def _field(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.struct_field(rows[META], name)


def _where(kept: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values, and null where they are not kept."""
    places = pa.array(range(len(values)), pa.int64())
    return values.take(pc.if_else(kept, places, None))
