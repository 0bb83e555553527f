"""One row per key, by a total order. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

COORDINATES = ("_kafka_timestamp", "_kafka_topic", "_kafka_partition", "_kafka_offset")
"""Where a row came from: decides between rows that a declared order calls equal."""


def total_order(newest_by: Sequence[str]) -> tuple[str, ...]:
    """Columns that order all versions of a key, from the most telling on."""
    return (*newest_by, *(name for name in COORDINATES if name not in newest_by))


def newest_per_key(frame: DataFrame, *, key: Sequence[str], order: Sequence[str]) -> DataFrame:
    """The last row of each key in ``order``; null is lowest, null keys are one key.

    Grain: one row per key. One shuffle and no sort.
    """
    row = F.struct(*frame.columns)
    return (
        frame.groupBy(*(F.col(f"`{name}`").alias(f"__{name}") for name in key))
        .agg(F.max_by(row, F.struct(*order)).alias("__newest"))
        .select("__newest.*")
    )
