"""Two tables joined as they grow, within bounds of event time (Spark's stream-stream join).

Rows wait in state until the watermark says that nothing can match them any more.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Join, Reading, Within
from common.delta.micro_batch import MicroBatch
from common.rows.spark_rows import SparkRows
from common.streaming.query import Stream
from gold.join.columns import joined, other_path
from gold.source.stream import new_rows, rows_in_order
from gold.table import create
from gold.table.context import Context
from gold.table.results import write_results

_HERE, _THERE = "__at", "__other_at"


def build_query(context: Context, gold: Join) -> Stream:
    """The query of one join of two streams; creates the table where there is none.

    Raises:
        HistoryGoneError: The first commits of one of the tables are gone.
        PipelineError: A text does not fit the columns of the two tables.
        TableMissingError: There is no table to join.
        TableShapeError: The table exists with other columns.
    """
    other = other_path(context, gold)
    left = new_rows(context, gold, in_order=True)
    both = Reading(event_time_order=gold.reading.event_time_order)
    frame = pairs(left, rows_in_order(context, gold, gold.joins, other, both), gold)
    path = context.path(gold.table)
    create.ensure(context, gold.table, frame.schema, gold.storage)

    def write(result: SparkRows, batch: MicroBatch) -> None:
        with result.kept(whole=True) as rows:
            counts = {"rows": rows.count, **batch.late_counts()}
            write_results(rows, path, batch, counts, step="join")

    # A left row without a match comes when the watermark moves, with or without new rows.
    found = context.query(gold, frame, write, without_rows=gold.how == "left")
    return replace(found, watermark_policy=_within(gold).watermark_policy)


def pairs(left: DataFrame, right: DataFrame, gold: Join) -> DataFrame:
    """The join of both tables within the bounds of event time."""
    within = _within(gold)
    left = _timed(left, _HERE, within.on, within.watermark)
    right = _timed(right, _THERE, within.joins_on, within.joins_watermark)
    return joined(left, right, gold, within=_bounds(within))


def _within(gold: Join) -> Within:
    if gold.within is None:
        raise AssertionError(gold.table)
    return gold.within


def _timed(rows: DataFrame, name: str, at: str, watermark: str) -> DataFrame:
    """Rows with their event time as a column; a row without a time matches nothing, and would wait."""
    return (
        rows.withColumn(name, F.col(f"`{at}`")).where(F.col(name).isNotNull()).withWatermark(name, watermark)
    )


def _bounds(within: Within) -> Column:
    after, before = (f"{_HERE} + interval '{text}'" for text in (within.after, within.before))
    return F.expr(f"{_THERE} >= {after} AND {_THERE} <= {before}")
