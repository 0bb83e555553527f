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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.config.driver_limits import DriverLimits
from common.declare import Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.checkpoint_match import own_commits
from common.delta.delta_rs import ACTION, INSERTED, UPDATED
from common.delta.micro_batch import MicroBatch
from common.rows.materialized import Settled, settled
from common.spark.broadcast import small_side
from silver.write.table_columns import ARRIVAL, COORDINATES

_KNOWN = "__known"


def newest_order(silver: Silver) -> tuple[str, ...]:
    """The last in this order stays, where the newest is kept: a total order, so any replay ends the same."""
    return (silver.event_time, "_kafka_timestamp", *COORDINATES)


def write_exact(  # noqa: PLR0913, PLR0917  # a write has this many parts
    rows: DataFrame,
    silver: Silver,
    path: str,
    batch: MicroBatch,
    step: str,
    counts: Mapping[str, Any],
    small: DriverLimits,
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
        small: What is worked out in the driver and written from there.
    """
    if (told := _written(path, batch, step)) is not None:
        return told
    if not counts["accepted"]:
        told = {**counts, "replaced": 0}
        delta_table.append_nothing(rows.sparkSession, path, batch, step, told, small)
        return told
    is_newest = silver.keep == "newest"
    order = newest_order(silver) if is_newest else ARRIVAL
    candidates = one_per_key(rows, key=silver.key, order=order, newest=is_newest)
    with (
        settled(candidates, small) as asked,
        settled(_fresh(asked, silver, path, order, small), asked.then(small)) as changes,
    ):
        numbers = delta_merge.counted(changes, ACTION)
        told = {
            **counts,
            "accepted": changes.rows,
            "duplicates": counts["accepted"] - changes.rows,
            "replaced": numbers.get(UPDATED, 0),
        }
        delta_merge.write_changes(
            changes, path, batch.metadata(step, told), key=silver.key, numbers=numbers, small=small
        )
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


def _fresh(
    candidates: Settled, silver: Silver, path: str, order: Sequence[str], small: DriverLimits
) -> DataFrame:
    """Candidates that are to be written, with what is to be done with each: insert or update.

    Of the table only keys and order are read, in the files that may hold the batch's keys.
    """
    key, is_newest = silver.key, silver.keep == "newest"
    names = tuple(dict.fromkeys((*key, *order))) if is_newest else tuple(key)
    found = delta_merge.rows_of(path, candidates, key, small, columns=names)
    known = found.select(*(F.col(f"`{name}`").alias(f"__t_{name}") for name in names), F.lit(1).alias(_KNOWN))
    known = small_side(known, candidates.rows)
    meet = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__t_{name}`") for name in key))
    rows = candidates.frame
    if not is_newest:
        return rows.join(known, meet, "left_anti").withColumn(ACTION, F.lit(INSERTED))
    ours = F.struct(*(F.col(f"`{name}`") for name in order))
    theirs = F.struct(*(F.col(f"`__t_{name}`") for name in order))
    both = rows.join(known, meet, "left").where(F.col(_KNOWN).isNull() | (ours > theirs))
    do = F.when(F.col(_KNOWN).isNull(), INSERTED).otherwise(UPDATED)
    return both.select(*(F.col(f"`{name}`") for name in rows.columns), do.alias(ACTION))


def _written(path: str, batch: MicroBatch, step: str) -> Mapping[str, Any] | None:
    """What the table's own commit of the batch counted, where it has one."""
    if not delta_table.is_written(path, batch, step):
        return None
    for told in own_commits(path, batch.query):
        if told["batch_id"] == batch.batch_id and told.get("step") == step:
            counts: Mapping[str, Any] = told["counts"]
            return counts
    return {}
