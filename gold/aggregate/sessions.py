"""Which sessions a change of rows may join, split, move or end, and which rows make them anew.

Sessions of a group lie more than a gap apart. A row that comes or goes concerns those of its group that
reach to within a gap of it, and no others: what lies beyond stays a gap away from all that is computed
anew. So the rows to be read are those of these sessions, and those where the changed rows were or are.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.rows.materialized import Settled
from common.spark.broadcast import broadcast_if_small
from gold.aggregate.file_pruning import overlapping, stretches
from gold.aggregate.windows import END, START

LOW, HIGH = "__low", "__high"
"""A stretch of event time, both ends in it."""


def spans(touched: DataFrame, by: tuple[str, ...], gap: str) -> DataFrame:
    """Changed rows as stretches from ``LOW`` to ``HIGH`` that have no pause of a gap within.

    Args:
        touched: The groups ``by`` of changed rows, and their times as ``START``.
        by: The group's columns.
        gap: The pause that ends a session.
    """
    found = touched.groupBy(*_columns(by), F.session_window(START, gap).alias("__span"))
    return found.agg(F.min(START).alias(LOW), F.max(START).alias(HIGH)).drop("__span")


def may_link(spans: Settled, gap: str) -> Column:
    """By literals alone: whether a session may be within a gap of a span of any group."""
    pause = F.expr(f"interval '{gap}'")
    until = [(low, high + pause) for low, high in stretches(spans, LOW, HIGH)]
    return overlapping(F.col(START), F.col(END), until)


def linked(table: DataFrame, spans: Settled, by: tuple[str, ...], gap: str) -> DataFrame:
    """The table's sessions that are within a gap of a span of their group: ``by``, ``START`` and ``END``.

    Args:
        table: The sessions that there are.
        spans: Stretches of changed rows.
        by: The group's columns.
        gap: The pause that ends a session.
    """
    near = [
        F.col(f"t.{START}") <= F.col(f"s.{HIGH}") + F.expr(f"interval '{gap}'"),
        F.col(f"t.{END}") >= F.col(f"s.{LOW}"),
    ]
    same = (F.col(f"t.`{n}`").eqNullSafe(F.col(f"s.`{n}`")) for n in by)
    sessions = table.select(*_columns(by), START, END).alias("t")
    return sessions.join(
        broadcast_if_small(spans.frame.alias("s"), spans.rows), reduce(and_, [*same, *near]), "left_semi"
    )


def reach(spans: DataFrame, linked: DataFrame, by: tuple[str, ...], gap: str) -> DataFrame:
    """Stretches of event time, from ``LOW`` to ``HIGH`` per group, whose rows are to be read."""
    last = F.col(END) - F.expr(f"interval '{gap}'")
    return spans.select(*_columns(by), LOW, HIGH).unionByName(
        linked.select(*_columns(by), F.col(START).alias(LOW), last.alias(HIGH))
    )


def concerned(linked: DataFrame, result: DataFrame, by: tuple[str, ...]) -> DataFrame:
    """The sessions that are to be as in ``result``: those that were there, and those that are to be."""
    key = [*_columns(by), F.col(START)]
    return linked.select(*key).unionByName(result.select(*key)).distinct()


def _columns(names: tuple[str, ...]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]
