"""Rows that are in no table: tombstones, and duplicates with the row of silver that stands for them.

Only these few are read from bronze with their values and parsed; of silver, only the key's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from common.declare import Silver
from common.rows.rows import SparkRows
from orchestration.audit.row_places import KAFKA, PLACE
from silver.judge.dedupe import event_key, key_text
from silver.judge.judge import read
from silver.read.columns import META

KEY = "key_text"
IS_TOMBSTONE = "is_tombstone"
HAS_KEY = "has_key"


def looked_up(bronze: DataFrame, rest: DataFrame, silver: Silver) -> DataFrame:
    """Bronze's rows at some coordinates, as their key: coordinates, key columns, key text, tombstone or not.

    The key is that of the columns as they are read today, whatever today's rules say of the row.
    """
    names = event_key(silver)
    typed = read(bronze.join(rest.select(*PLACE), list(PLACE), "left_semi"), silver)
    return typed.select(
        *(F.col(f"{META}.{name}").alias(name) for name in PLACE),
        F.col(f"{META}.value").isNull().alias(IS_TOMBSTONE),
        reduce(and_, (F.col(name).isNotNull() for name in names)).alias(HAS_KEY),
        key_text(typed, names).alias(KEY),
        F.struct(*names).alias("columns"),
    )


def late_keys(late: DataFrame, only: DataFrame, silver: Silver) -> DataFrame:
    """The late table's rows at some coordinates, as ``looked_up`` gives those of bronze."""
    names = event_key(silver)
    named = late.select(
        *(F.col(name).alias(alias) for name, alias in zip(KAFKA, PLACE, strict=True)),
        F.lit(False).alias(IS_TOMBSTONE),
        F.lit(True).alias(HAS_KEY),
        key_text(late, names).alias(KEY),
        F.struct(*names).alias("columns"),
    )
    return named.join(only.select(*PLACE), list(PLACE), "left_semi")


def unwitnessed(found: DataFrame, accepted: Sequence[DataFrame | None], silver: Silver) -> DataFrame:
    """Those of ``found`` whose key no row of silver has.

    Args:
        found: As ``looked_up`` gives it.
        accepted: Rows of silver, in the order in which they are asked: a part of them, then all. They are
            read within the literal bounds of the keys, so that files which cannot hold one are skipped.
        silver: The declaration.
    """
    names = event_key(silver)
    left = found
    for place, each in enumerate(accepted):
        if each is None or (place > 0 and left.isEmpty()):
            continue
        witnesses = each.where(
            reduce(and_, SparkRows(left.select("columns.*")).bounds(names), F.lit(True))
        ).select(key_text(each, names).alias(KEY))
        left = left.join(witnesses, KEY, "left_anti")
    return left


def alone(frame: DataFrame) -> DataFrame:
    """``is_first``: whether a row is the first of those with its key, the others being its duplicates.

    Of rows that are missing together, one should have been in silver, and the rest have lost their witness.
    """
    first = F.row_number().over(Window.partitionBy(KEY).orderBy(*PLACE)) == 1
    return frame.withColumn("is_first", first | ~F.col(HAS_KEY))
