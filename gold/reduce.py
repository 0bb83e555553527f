"""One row per key, by a total order. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.broadcast import small_side

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
        frame.groupBy(*(F.col(name).alias(f"__{name}") for name in key))
        .agg(F.max_by(row, F.struct(*order)).alias("__newest"))
        .select("__newest.*")
    )


def changed(
    newest: DataFrame, table: DataFrame, *, key: Sequence[str], order: Sequence[str], keys: int
) -> DataFrame:
    """Rows of ``newest`` whose key the table lacks, or has an older row of.

    MERGE rewrites every file in which a key matches, even where it then changes nothing: what is not
    newer must not reach it. A small batch is broadcast, so of the table only key and order are read.
    Grain: one row per key in both, and so in the result.
    """
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in key)
    earlier = "NOT struct({}) > struct({})".format(
        *(", ".join(f"{side}.`{c}`" for c in order) for side in "st")
    )
    batch = small_side(newest.select(*dict.fromkeys((*key, *order))).alias("s"), keys)
    kept = (
        table.alias("t").join(batch, F.expr(f"{same} AND {earlier}")).select(*(f"t.{name}" for name in key))
    )
    return newest.alias("s").join(small_side(kept.alias("t"), keys), F.expr(same), "left_anti")
