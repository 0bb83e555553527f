"""The rows that may belong to some groups, by literals that have files skipped. Pure but for one small look.

What is left is a few rows too many: a join with the groups decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from operator import and_, or_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from common.delta.merge import bounds
from common.errors import SqlError
from common.rows.materialized import Settled
from common.spark.literals import as_python_value, literal
from common.sql.expression import analyze

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

_MOST_LOOKED_AT = 10_000
"""Up to here stretches of time are looked at one by one; of more, their ends alone."""

_MOST_STRETCHES = 64
"""Ranges in one condition; planning takes longer with each."""


STORED = "nullif(({}), '')"
"""Of a text that a table is partitioned by: what it is in the table."""

_STORED = re.compile(re.escape(STORED).replace(r"\{\}", "(.*)"), re.DOTALL)


def near_keys(rows: DataFrame, groups: Settled, by: Mapping[str, str]) -> DataFrame:
    """Rows that may have one of the groups' values, by those of ``by`` that are columns as they are.

    Args:
        rows: Rows of the source.
        groups: Has a column per name in ``by``.
        by: SQL text over the source's columns by name.
    """
    own = {column.lower(): column for column in rows.columns}
    stored = {name: found[1] for name, sql in by.items() if (found := _STORED.fullmatch(sql)) is not None}
    # Where none of the groups is null, none is the empty text.
    texts = {**by, **{name: sql for name, sql in stored.items() if not groups.nulls(name)}}
    plain = {own[path]: name for name, sql in texts.items() if (path := _path(sql)) in own}
    keys = groups.renamed({name: column for column, name in plain.items()})
    return rows.where(reduce(and_, bounds(keys, [*plain]), F.lit(True))) if plain else rows


def stretches(spans: Settled, low: str, high: str) -> list[tuple[Column, Column]]:
    """Literal stretches of time that together hold all given ones; both ends are in them.

    Args:
        spans: Has stretches of time.
        low: The column of their beginnings.
        high: The column of their ends.
    """
    kind = TimestampType()
    if spans.arrow is not None:
        both = (spans.arrow[name].cast(pa.int64()).to_pylist() for name in (low, high))
        found = list(zip(*both, strict=True))
    else:
        ends = spans.frame.select(as_python_value(F.col(low), kind), as_python_value(F.col(high), kind)).toDF(
            "low", "high"
        )
        rows = ends.distinct().limit(_MOST_LOOKED_AT + 1).collect()
        if len(rows) > _MOST_LOOKED_AT:
            rows = ends.agg(F.min("low"), F.max("high")).collect()
        found = [(row[0], row[1]) for row in rows]
    closed = joined(found, _MOST_STRETCHES)
    return [(literal(first, kind), literal(last, kind)) for first, last in closed]


def joined(spans: Iterable[tuple[int, int]], most: int) -> Sequence[tuple[int, int]]:
    """At most so many stretches that hold all the given ones, with the widest gaps left between them."""
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


def within(column: Column, spans: Sequence[tuple[Column, Column]]) -> Column:
    """Whether a time is in one of the stretches."""
    return overlapping(column, column, spans)


def overlapping(first: Column, last: Column, spans: Sequence[tuple[Column, Column]]) -> Column:
    """Whether what goes from ``first`` to ``last`` meets one of the stretches."""
    return reduce(or_, ((last >= low) & (first <= high) for low, high in spans), F.lit(False))


def _path(sql: str) -> str:
    """The column that a SQL text is, in lower case; empty where it is more than that."""
    try:
        path = analyze(sql).path
    except SqlError:
        return ""
    return path[0].lower() if path is not None and len(path) == 1 else ""
