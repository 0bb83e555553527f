"""Aggregates that Spark keeps in state: replaced, merged, or appended window by window.

``complete`` replaces the whole table in every micro-batch. ``update`` merges the groups that changed.
``append`` writes a window once, in the micro-batch whose watermark closes it; where no further rows come, a
micro-batch without rows follows, so that closed windows do not wait for the next rows. Windows that no
watermark has closed stay in state: the end of a run does not close them.

The watermark is Spark's: after each micro-batch the latest event time minus the declared delay. From the next
micro-batch on it closes windows, and from the one after that it makes rows late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from common.declare import Aggregate, Session
from common.declare.declared import source_of
from common.declare.field_types import named
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.rows.spark_rows import SparkRows
from common.streaming.query import Stream
from gold.aggregate import windows
from gold.source.stream import new_rows
from gold.table import create
from gold.table.context import Context
from gold.table.identity import group
from gold.table.results import write_results
from gold.table.sql_columns import each, meeting, misfit


def build_query(context: Context, gold: Aggregate) -> Stream:
    """The query of one aggregate; creates the table where there is none.

    Raises:
        HistoryGoneError: It has a watermark, and silver's first commits are gone.
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    rows = new_rows(context, gold, in_order=gold.watermark is not None)
    windows.refuse_floats(rows, gold)
    frame = grouped(rows, gold)
    if (stored := create.by_as_stored(gold, rows)) is not gold:
        gold, frame = stored, grouped(rows, stored)
    is_replaced = gold.mode == "complete" and not gold.storage.change_feed
    create.ensure(context, gold.table, frame.schema, gold.storage, is_replaced=is_replaced)
    mode = cast("Literal['complete', 'update', 'append']", gold.mode)
    write = _Writer(gold, context.path(gold.table), mode)
    return context.query(gold, frame, write, output_mode=mode, without_rows=mode == "append")


def groups_of(rows: DataFrame, gold: Aggregate) -> DataFrame:
    """The groups of a table that rows of its source belong to, each once; of sessions their ``by`` alone."""
    found = windows.keyed(meeting(rows, gold.where), create.by_as_stored(gold, rows))
    names = named(gold.by or ()) if isinstance(gold.window, Session) else group(gold)
    return found.select(*(f"`{name}`" for name in names)).distinct()


CLOSED = "closed_ms"
"""In the counts of a commit of mode append: up to which end windows are closed, milliseconds since 1970."""


@dataclass
class _Writer:
    """Writes the groups that Spark hands out in each micro-batch."""

    gold: Aggregate
    path: str  # the table
    mode: str  # the output mode, and the step of the commits
    last_count: int | None = None  # groups of the micro-batch before, if there was one

    def __call__(self, result: SparkRows, batch: MicroBatch) -> None:
        """Write one micro-batch."""
        with result.kept(whole=True, expected=self.last_count, before_retry=batch.forget_dropped) as groups:
            self.last_count = groups.count
            counts: dict[str, Any] = {"groups": groups.count}
            if self.gold.watermark is not None:
                counts |= batch.late_counts()
            if self.mode == "append" and (closed := batch.closing_watermark_ms()) is not None:
                counts[CLOSED] = closed
            if self.mode == "complete":
                delta_table.append(groups, self.path, batch, self.mode, counts, mode="overwrite")
            else:
                key = group(self.gold) if self.mode == "update" else None
                write_results(groups, self.path, batch, counts, step=self.mode, key=key)


def grouped(silver: DataFrame, gold: Aggregate) -> DataFrame:
    """The aggregate's result over silver rows. Grain: one row per group and window; null is a group.

    Raises:
        PipelineError: Names the group, the measure or the condition that does not fit.
    """
    by = named(gold.by or ())
    try:
        timed = windows.timed(meeting(silver, gold.where), gold)
        rows, groups, measures = windows.measures(timed, gold)
        return windows.unpacked(rows.groupBy(*groups).agg(*measures), gold)
    except PySparkException as error:
        trials = each(by, "by", silver.select)
        trials += each(named(gold.measures), "measure", silver.groupBy().agg)
        trials.append(("where", lambda: meeting(silver, gold.where)))
        raise misfit(error, trials, gold.table, source_of(gold)) from error
