"""Exact dedupe by the table itself: rows of one key are one event, however far apart.

There is no state: each micro-batch looks up its keys in the table. A row is written where the table lacks its
key, or, where the newest row is kept, has an older row of the key. Rows of one key within a micro-batch are
reduced to one before: to the first that arrived, or to the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.delta_rs import ACTION, INSERTED, UPDATED
from common.delta.match.checkpoint_match import commits_metadata
from common.delta.micro_batch import MicroBatch
from common.delta.written_once import is_written
from common.rows.rows import Rows
from common.spark.broadcast import broadcast_if_small
from silver.read.column_names import arrival, row_coordinates

_KNOWN = "__known"


def newest_order(silver: Silver, columns: Iterable[str]) -> tuple[str, ...]:
    """The columns by whose order the newest row of a key is found; total, so that a replay ends the same."""
    return (silver.event_time, "_kafka_timestamp", *row_coordinates(columns))


def write_exact(  # noqa: PLR0913, PLR0917  # a write has this many parts
    rows: Rows,
    silver: Silver,
    path: str,
    batch: MicroBatch,
    step: str,
    counts: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Write a batch's accepted rows, each key once; returns the counts that the commit has.

    ``accepted`` are rows that were written; ``replaced`` of them replaced an older row, which becomes a
    duplicate by that; all others are ``duplicates``. So silver has the sum of ``accepted`` less the sum of
    ``replaced``.

    Args:
        rows: Accepted rows with silver's columns, any number per key.
        batch: The batch's identity; one whose step the table has is skipped.
        step: Names the write among the query's writes.
        counts: What became of all rows; ``accepted`` are those that are handed in.
    """
    if (written := _written_counts(path, batch, step)) is not None:
        return written
    if not counts["accepted"]:
        final = {**counts, "replaced": 0}
        delta_table.append_nothing(rows, path, batch, step, final)
        return final
    is_newest = silver.keep == "newest"
    order = newest_order(silver, rows.columns) if is_newest else arrival(rows.columns)
    one_per_key = rows.latest_per_key(key=silver.key, order=order, earliest=not is_newest)
    with (
        one_per_key.kept() as candidates,
        candidates.derive(_changes(candidates, silver, path, order)).kept() as changes,
    ):
        numbers = changes.count_by(ACTION)
        final = {
            **counts,
            "accepted": changes.count,
            "duplicates": counts["accepted"] - changes.count,
            "replaced": numbers.get(UPDATED, 0),
        }
        metadata = batch.metadata(step, final)
        delta_merge.write_changes(changes, path, metadata, key=silver.key, numbers=numbers)
    return final


def _changes(candidates: Rows, silver: Silver, path: str, order: Sequence[str]) -> DataFrame:
    """Candidates that are written, with the action of each: insert or update.

    Of the table only keys and order are read, in the files that may hold the batch's keys.
    """
    key, is_newest = silver.key, silver.keep == "newest"
    names = tuple(dict.fromkeys((*key, *order))) if is_newest else tuple(key)
    known = delta_merge.rows_with_keys(path, candidates, key, names).frame
    known = known.select(*(F.col(f"`{name}`").alias(f"__t_{name}") for name in names), F.lit(1).alias(_KNOWN))
    known = broadcast_if_small(known, candidates.count)
    same = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__t_{name}`") for name in key))
    rows = candidates.frame
    if not is_newest:
        return rows.join(known, same, "left_anti").withColumn(ACTION, F.lit(INSERTED))
    ours = F.struct(*(F.col(f"`{name}`") for name in order))
    theirs = F.struct(*(F.col(f"`__t_{name}`") for name in order))
    both = rows.join(known, same, "left").where(F.col(_KNOWN).isNull() | (ours > theirs))
    action = F.when(F.col(_KNOWN).isNull(), INSERTED).otherwise(UPDATED)
    return both.select(*(F.col(f"`{name}`") for name in rows.columns), action.alias(ACTION))


def _written_counts(path: str, batch: MicroBatch, step: str) -> Mapping[str, Any] | None:
    """The counts of the table's own commit of the batch, where it has one."""
    if not is_written(path, batch, step):
        return None
    for metadata in commits_metadata(path, batch.query):
        if metadata["batch_id"] == batch.batch_id and metadata.get("step") == step:
            counts: Mapping[str, Any] = metadata["counts"]
            return counts
    return {}
