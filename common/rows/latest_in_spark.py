"""Spark's texts of the comparisons of rows; ``common.rows.latest_in_driver`` has DuckDB's. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.spark.broadcast import broadcast_if_small


def latest_per_key(
    frame: DataFrame, *, key: Sequence[str], order: Sequence[str], earliest: bool = False
) -> DataFrame:
    """The last row of each key in ``order``, or the first; null is lowest, null keys are one key.

    Grain: one row per key. One shuffle and no sort.
    """
    pick = F.min_by if earliest else F.max_by
    row = F.struct(*(F.col(f"`{name}`") for name in frame.columns))
    return (
        frame.groupBy(*(F.col(f"`{name}`").alias(f"__{place}") for place, name in enumerate(key)))
        .agg(pick(row, F.struct(*(F.col(f"`{name}`") for name in order))).alias("__row"))
        .select("__row.*")
    )


def with_orders(
    frame: DataFrame,
    others: Mapping[str, DataFrame | None],
    *,
    key: Sequence[str],
    order: Sequence[str],
    count: int,
) -> DataFrame:
    """Rows, each with the order that other tables' rows of the same key have.

    Args:
        frame: One row per key, with the columns of ``order``.
        others: Tables with at most one row per key, by the name of the struct that is added; null where a
            table lacks the key. ``None``: a table without rows.
        key: Columns that identify a row; compared null-safe.
        count: How many rows the frame has at most; few are broadcast.
    """
    result = frame
    for name, other in others.items():
        if other is None:
            kind = F.struct(*(F.col(f"`{each}`") for each in order))
            result = result.withColumn(name, F.when(F.lit(False), kind))
            continue
        keys = broadcast_if_small(frame.select(*(F.col(f"`{each}`") for each in key)).alias("s"), count)
        same = reduce(and_, (F.col(f"h.`{each}`").eqNullSafe(F.col(f"s.`{each}`")) for each in key))
        theirs = (
            other.alias("h")
            .join(keys, same, "left_semi")
            .select(
                *(F.col(f"h.`{each}`").alias(f"{name}{place}") for place, each in enumerate(key)),
                F.struct(*(F.col(f"h.`{each}`") for each in order)).alias(name),
            )
        )
        same = reduce(
            and_, (F.col(f"`{each}`").eqNullSafe(F.col(f"{name}{place}")) for place, each in enumerate(key))
        )
        result = result.join(broadcast_if_small(theirs, count), same, "left")
        result = result.drop(*(f"{name}{place}" for place in range(len(key))))
    return result


def keys_not_in(
    frame: DataFrame, others: Sequence[DataFrame], *, key: Sequence[str], itself: Sequence[str], count: int
) -> DataFrame:
    """The rows whose key no other row has, in any of the frames.

    Args:
        frame: One row per key; keys are not null.
        others: Frames with ``key`` and ``itself``.
        itself: Columns by which another row is recognised as the very row that is looked up; not null.
        count: How many rows ``frame`` has at most; few are broadcast.
    """
    names = tuple(dict.fromkeys((*key, *itself)))
    mine = broadcast_if_small(
        frame.select(*(F.col(f"`{name}`").alias(f"__mine_{name}") for name in names)), count
    )
    same = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__mine_{name}`") for name in key))
    is_itself = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__mine_{name}`") for name in itself))
    taken = [
        other.select(*(F.col(f"`{name}`") for name in names))
        .join(mine, same & ~is_itself, "left_semi")
        .select(*(F.col(f"`{name}`") for name in key))
        for other in others
    ]
    return frame.join(reduce(DataFrame.union, taken), list(key), "left_anti").select(
        *(F.col(f"`{name}`") for name in frame.columns)
    )
