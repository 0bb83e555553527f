"""Duplicates found in the table itself: rows of one key are one event, however far apart.

No state is kept: a micro-batch asks the table for its keys. A row is written where the table lacks its
key, or, where the newest is kept, has an older row of it. Rows of one key within a micro-batch are
reduced to one before: to the first that was read, or to the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common import delta, delta_merge
from common.broadcast import small_side
from common.declare import Silver
from common.delta import MicroBatch
from common.identity import own_commits
from silver.tables import ARRIVAL, COORDINATES

_KNOWN = "__known"


def newest_order(silver: Silver) -> tuple[str, ...]:
    """The last in this order stays, where the newest is kept: a total order, so any replay ends the same."""
    return (silver.event_time, "_kafka_timestamp", *COORDINATES)


def write_exact(  # noqa: PLR0913, PLR0917  # a write has this many parts
    rows: DataFrame, silver: Silver, path: str, batch: MicroBatch, step: str, counts: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Write a batch's accepted rows, each key once; returns the counts that the commit has.

    ``accepted`` are rows that were written; ``replaced`` of them took the place of an older row, which
    makes that one a duplicate; all others are ``duplicates``. So silver has the sum of ``accepted`` less
    the sum of ``replaced``.

    Args:
        rows: Accepted rows with silver's columns, any number per key.
        silver: The declaration.
        path: The silver table.
        batch: The batch's identity; one whose step the table has is skipped.
        step: What the write is to its query.
        counts: What became of all rows, ``accepted`` those that are handed in.
    """
    if (told := _written(path, batch, step)) is not None:
        return told
    is_newest = silver.keep == "newest"
    order = newest_order(silver) if is_newest else ARRIVAL
    candidates = one_per_key(rows, key=silver.key, order=order, newest=is_newest)
    candidates = candidates.persist(StorageLevel.MEMORY_AND_DISK)
    fresh = None
    try:
        if keys := candidates.count():
            fresh = _fresh(candidates, silver, path, order, keys)
            fresh = fresh.persist(StorageLevel.MEMORY_AND_DISK)
        total, replaced = _sums(fresh)
        told = {**counts, "accepted": total, "duplicates": counts["accepted"] - total, "replaced": replaced}
        if fresh is None or not total:
            delta.append(rows.limit(0), path, batch, step, told)
        elif is_newest:
            written = fresh.drop(_KNOWN)
            delta_merge.merge_newest(written, path, batch, told, key=silver.key, order=order, step=step)
        else:
            delta_merge.merge_new(fresh.drop(_KNOWN), path, batch, step, told, key=silver.key)
    finally:
        candidates.unpersist()
        if fresh is not None:
            fresh.unpersist()
    return told


def one_per_key(rows: DataFrame, *, key: Sequence[str], order: Sequence[str], newest: bool) -> DataFrame:
    """The first row of each key in ``order``, or the last; keys are not null."""
    pick = F.max_by if newest else F.min_by
    row = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
    return (
        rows.groupBy(*(F.col(f"`{name}`").alias(f"__{place}") for place, name in enumerate(key)))
        .agg(pick(row, F.struct(*(F.col(f"`{name}`") for name in order))).alias("__row"))
        .select("__row.*")
    )


def _fresh(candidates: DataFrame, silver: Silver, path: str, order: Sequence[str], keys: int) -> DataFrame:
    """Candidates that are to be written, with ``__known``: whether the table has an older row of the key.

    Of the table only keys and order are read, in the files that may hold the batch's keys.
    """
    key, is_newest = silver.key, silver.keep == "newest"
    table = candidates.sparkSession.read.format("delta").load(path)
    near = table.where(reduce(and_, delta_merge.bounds(candidates, key), F.lit(True)))
    names = tuple(dict.fromkeys((*key, *order))) if is_newest else tuple(key)
    asked = small_side(candidates.select(*(F.col(f"`{name}`").alias(f"__k_{name}") for name in key)), keys)
    same = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__k_{name}`") for name in key))
    found = near.select(*(F.col(f"`{name}`") for name in names)).join(asked, same, "left_semi")
    known = found.select(*(F.col(f"`{name}`").alias(f"__t_{name}") for name in names), F.lit(1).alias(_KNOWN))
    known = small_side(known, keys)
    meet = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__t_{name}`") for name in key))
    if not is_newest:
        return candidates.join(known, meet, "left_anti").withColumn(_KNOWN, F.lit(0))
    ours = F.struct(*(F.col(f"`{name}`") for name in order))
    theirs = F.struct(*(F.col(f"`__t_{name}`") for name in order))
    both = candidates.join(known, meet, "left").where(F.col(_KNOWN).isNull() | (ours > theirs))
    return both.select(
        *(F.col(f"`{name}`") for name in candidates.columns), F.coalesce(_KNOWN, F.lit(0)).alias(_KNOWN)
    )


def _sums(fresh: DataFrame | None) -> tuple[int, int]:
    if fresh is None:
        return 0, 0
    row = fresh.agg(F.count("*"), F.coalesce(F.sum(_KNOWN), F.lit(0))).collect()[0]
    return int(row[0]), int(row[1])


def _written(path: str, batch: MicroBatch, step: str) -> Mapping[str, Any] | None:
    """What the table's own commit of the batch counted, where it has one."""
    if not delta.is_written(path, batch, step):
        return None
    for told in own_commits(path, batch.query):
        if told["batch_id"] == batch.batch_id and told.get("step") == step:
            counts: Mapping[str, Any] = told["counts"]
            return counts
    return {}
