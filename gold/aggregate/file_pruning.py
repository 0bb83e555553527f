"""Filters source rows by literal bounds of the touched groups, so that Delta skips files. May run one small
Spark job.

The bounds let some rows of other groups through; a join with the groups decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from common.rows.rows import Rows
from common.spark.literals import literal
from gold.table.pruning import within_bounds
from gold.table.stored_text import source_of_stored

if TYPE_CHECKING:
    from pyspark.sql import Column

_MAX_RANGES = 64
"""Ranges in one condition; planning takes longer with each."""


def prune_by_keys(rows: DataFrame, groups: Rows, by: Mapping[str, str]) -> DataFrame:
    """Rows that may belong to one of the groups, by those of ``by`` that are columns of the source or fields.

    Args:
        groups: Has a column per name in ``by``.
        by: SQL text over the source's columns by name.
    """
    stored = {name: text for name, sql in by.items() if (text := source_of_stored(sql)) is not None}
    # Where no group has null, none has the empty text.
    return within_bounds(
        rows, groups, {**by, **{name: sql for name, sql in stored.items() if not groups.null_count(name)}}
    )


def time_ranges(spans: Rows, low: str, high: str) -> list[tuple[Column, Column]]:
    """Literal ranges of time that together contain all given ones; both ends belong to a range.

    Args:
        spans: Has ranges of time.
        low: The column of their beginnings.
        high: The column of their ends.
    """
    kind = TimestampType()
    merged = merge_ranges(spans.time_ranges(low, high), _MAX_RANGES)
    return [(literal(first, kind), literal(last, kind)) for first, last in merged]


def merge_ranges(spans: Iterable[tuple[int, int]], most: int) -> Sequence[tuple[int, int]]:
    """At most so many ranges that contain all the given ones; the widest gaps between them stay."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    gaps = sorted((after[0] - before[1] for before, after in pairwise(merged)), reverse=True)
    least = gaps[most - 1] if len(gaps) >= most else 0
    kept: list[tuple[int, int]] = []
    for low, high in merged:
        if kept and low - kept[-1][1] <= least:
            kept[-1] = (kept[-1][0], high)
        else:
            kept.append((low, high))
    return kept


def within(column: Column, ranges: Sequence[tuple[Column, Column]]) -> Column:
    """Whether a time is in one of the ranges."""
    return overlapping(column, column, ranges)


def overlapping(first: Column, last: Column, ranges: Sequence[tuple[Column, Column]]) -> Column:
    """Whether the time from ``first`` to ``last`` overlaps one of the ranges."""
    return reduce(or_, ((last >= low) & (first <= high) for low, high in ranges), F.lit(False))
