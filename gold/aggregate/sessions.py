"""Which sessions a change of rows may join, split, move or end, and which rows recompute them.

Sessions of a group lie more than a gap apart. A row that is added or removed concerns the sessions of its
group that reach to within a gap of it, and no others: sessions further away stay a gap away from all that is
recomputed. So the rows to be read are those of these sessions, and those where the changed rows were or are.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.rows.rows import Rows
from common.spark.broadcast import broadcast_if_small
from gold.aggregate.file_pruning import overlapping, time_ranges
from gold.aggregate.windows import END, START

LOW, HIGH = "__low", "__high"
"""A range of event time; both ends belong to it."""


def spans(touched: DataFrame, by: tuple[str, ...], gap: str) -> DataFrame:
    """Changed rows as ranges from ``LOW`` to ``HIGH`` without a pause of a gap inside.

    Args:
        touched: The groups ``by`` of changed rows, and their times as ``START``.
    """
    found = touched.groupBy(*_columns(by), F.session_window(START, gap).alias("__span"))
    return found.agg(F.min(START).alias(LOW), F.max(START).alias(HIGH)).drop("__span")


def may_link(spans: Rows, gap: str) -> Column:
    """By literals alone: whether a session may be within a gap of a span of any group."""
    pause = F.expr(f"interval '{gap}'")
    until = [(low, high + pause) for low, high in time_ranges(spans, LOW, HIGH)]
    return overlapping(F.col(START), F.col(END), until)


def linked(table: DataFrame, spans: Rows, by: tuple[str, ...], gap: str) -> DataFrame:
    """The table's sessions that are within a gap of a span of their group: ``by``, ``START`` and ``END``."""
    is_near = [
        F.col(f"t.{START}") <= F.col(f"s.{HIGH}") + F.expr(f"interval '{gap}'"),
        F.col(f"t.{END}") >= F.col(f"s.{LOW}"),
    ]
    same = (F.col(f"t.`{n}`").eqNullSafe(F.col(f"s.`{n}`")) for n in by)
    sessions = table.select(*_columns(by), START, END).alias("t")
    return sessions.join(
        broadcast_if_small(spans.frame.alias("s"), spans.count), reduce(and_, [*same, *is_near]), "left_semi"
    )


def reach(spans: DataFrame, linked: DataFrame, by: tuple[str, ...], gap: str) -> DataFrame:
    """Ranges of event time, from ``LOW`` to ``HIGH`` per group, whose rows are to be read."""
    last = F.col(END) - F.expr(f"interval '{gap}'")
    return spans.select(*_columns(by), LOW, HIGH).unionByName(
        linked.select(*_columns(by), F.col(START).alias(LOW), last.alias(HIGH))
    )


def touched_sessions(linked: DataFrame, result: DataFrame, by: tuple[str, ...]) -> DataFrame:
    """The sessions that are replaced by ``result``: the existing ones, and the new ones."""
    key = [*_columns(by), F.col(START)]
    return linked.select(*key).unionByName(result.select(*key)).distinct()


def _columns(names: tuple[str, ...]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]
