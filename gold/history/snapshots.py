"""Full snapshots: a key ends where one lacks it.

A snapshot is all versions of one time. It is complete when a later one has begun (``followed``), or with its
first version (``arrived``); only a complete one ends keys. So each key of the newest snapshot has an open
row, whose ``last_at`` says which snapshot that is; one that comes after it needs the open rows alone. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from common.declare import History
from common.declare.row_order import COORDINATES
from gold.history.intervals import LATE, PLACED, REMOVED_ROW, TO, end_at, versions

_AT, _NEXT = "__snapshot", "__next"
_RECORDS = "__records"

_OPEN = "valid_to IS NULL"


def newest(table: DataFrame) -> DataFrame:
    """The snapshots of the table's open rows: the newest, and the one before it while keys may be to come."""
    return table.where(_OPEN).select(F.col("last_at").alias(_AT)).distinct()


def marked(new: DataFrame, known: DataFrame) -> DataFrame:
    """New versions, each with whether it is ``LATE``: of a snapshot before the newest."""
    latest = F.broadcast(known.agg(F.max(_AT).alias(_AT)))
    late = F.coalesce(F.col("valid_from") < F.col(_AT), F.lit(False))
    return new.crossJoin(latest).withColumn(LATE, late).drop(_AT)


def doubtful(new: DataFrame) -> DataFrame:
    """The snapshots of which the table does not say whether they were there before, or are there now."""
    return new.where(F.col(LATE) | F.col(REMOVED_ROW)).select(F.col("valid_from").alias(_AT)).distinct()


def of_silver(silver: DataFrame, asked: DataFrame, gold: History) -> DataFrame:
    """All snapshots; those that are asked for with the number of their records, others with 0."""
    wanted = F.broadcast(asked.withColumn("__asked", F.lit(True)))
    found = versions(silver, gold).where(PLACED).withColumnRenamed("valid_from", _AT)
    counted = F.count_distinct(F.when(F.col("__asked"), _record()))
    return found.join(wanted, _AT, "left").groupBy(_AT).agg(counted.alias(_RECORDS))


def come_or_gone(asked: DataFrame, every: DataFrame, new: DataFrame) -> bool:
    """Whether a snapshot has come with the new versions, or has lost its last one; true in doubt.

    Args:
        every: All snapshots, out of ``of_silver``.
    """
    added = new.where(~F.col(REMOVED_ROW)).groupBy(F.col("valid_from").alias(_AT))
    brought = added.agg(F.count_distinct(_record()).alias("__brought"))
    held = F.coalesce(F.col(_RECORDS), F.lit(0))
    # A snapshot that has other records than those that the micro-batch brings was there before.
    has_others = held > F.coalesce(F.col("__brought"), F.lit(0))
    found = asked.join(every, _AT, "left").join(brought, _AT, "left")
    return not found.where(~has_others).isEmpty()


def added(known: DataFrame, new: DataFrame) -> DataFrame:
    """The newest snapshots that the table knows, and those of new versions that are not before them."""
    came = new.where(~F.col(LATE) & ~F.col(REMOVED_ROW)).select(F.col("valid_from").alias(_AT))
    return known.select(_AT).unionByName(came).distinct()


def followed(snapshots: DataFrame, gold: History) -> DataFrame:
    """Each snapshot with the one after it, or null where that one is not complete.

    Args:
        snapshots: Each snapshot once; further columns are left out.
    """
    in_time = Window.orderBy(_AT)
    following = F.lead(_AT).over(in_time)
    if gold.snapshots == "followed":
        following = F.when(F.lead(_AT, 2).over(in_time).isNotNull(), following)
    return snapshots.select(_AT, following.alias(_NEXT))


def ended(table: DataFrame, listed: DataFrame, key: Sequence[str]) -> DataFrame:
    """The keys of the table's open rows that a complete snapshot lacks, unless new versions have them."""
    over = listed.where(F.col(_NEXT).isNotNull()).select(F.col(_AT).alias("last_at"))
    return table.where(_OPEN).join(F.broadcast(over), "last_at", "left_semi").select(*key)


def with_absences(found: DataFrame, listed: DataFrame, key: Sequence[str]) -> DataFrame:
    """Versions and runs of some keys, with an end at each first snapshot that lacks the key.

    Args:
        found: Versions, and runs of the table; a run that has ended ended at the next snapshot.
        listed: Each snapshot with the next one, out of ``followed``; at least those from the newest before
            the versions on.
    """
    after = F.broadcast(listed.select(F.col(_AT).alias("last_at"), _NEXT))
    in_time = Window.partitionBy(*(F.col(f"`{name}`") for name in key)).orderBy("valid_from")
    steps = found.join(after, "last_at", "left").withColumn("__own", F.lead("valid_from").over(in_time))
    end = F.coalesce(F.col(TO), F.col(_NEXT)) if TO in found.columns else F.col(_NEXT)
    is_absent = end.isNotNull() & (F.col("__own").isNull() | (F.col("__own") > end))
    own = (F.col(f"`{name}`") for name in found.columns)
    return found.unionByName(end_at(steps.where(is_absent), end).select(*own))


def with_all_absences(found: DataFrame, gold: History) -> DataFrame:
    """All versions, with an end at each first snapshot that lacks a key."""
    every = found.select(F.col("valid_from").alias(_AT)).distinct()
    return with_absences(found, followed(every, gold), gold.key)


def _record() -> Column:
    return F.struct(*COORDINATES)
