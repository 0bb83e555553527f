"""Aggregates that Spark keeps in state: written anew, merged, or appended window by window.

``complete`` writes the whole result by every micro-batch. ``update`` merges the groups that changed.
``append`` writes a window once, by the micro-batch whose watermark closes it; a micro-batch without rows
follows where none with rows does, so what one closes is not held up until more comes. Windows that no
watermark has closed stay in state: no run ends them.

A watermark is Spark's: after each micro-batch the latest event time less the declared delay. By it windows
close from the next micro-batch on, and by the same one rows are late from the one after that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Aggregate
from common.declare.declared import source_of
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.rows.materialized import of_batch, settled
from common.streaming.query import Stream
from gold.aggregate import windows
from gold.source.stream import new_rows
from gold.table import create as tables
from gold.table.context import Context
from gold.table.sql_columns import columns, each, misfit, named


def stream(context: Context, gold: Aggregate) -> Stream:
    """The query of one aggregate; makes the table where there is none.

    Raises:
        HistoryGoneError: It has a watermark, and silver's first commits are gone.
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    rows = new_rows(context, gold, in_order=gold.watermark is not None)
    windows.refuse_floats(rows, gold)
    frame = grouped(rows, gold)
    if (stored := tables.by_as_stored(gold, rows)) is not gold:
        gold, frame = stored, grouped(rows, stored)
    path = context.path(gold.table)
    tables.ensure(context, gold.table, frame.schema, gold.storage)
    small = context.limits
    mode = cast("Literal['complete', 'update', 'append']", gold.mode)
    before = _Before()

    def write(result: DataFrame, batch: MicroBatch) -> None:
        few = of_batch(result, small).rows
        anew = batch.forget_dropped if few and before.rows <= few else None
        with settled(result, small, once=True, anew=anew) as rows:
            before.rows = rows.rows
            counts = {"groups": rows.rows}
            if gold.watermark is not None:
                counts["late"] = batch.dropped()["late"]
            if mode == "complete" or batch.batch_id == 0:
                # The first one takes the place of what a lost checkpoint has left behind.
                delta_table.append(rows, path, batch, mode, counts, mode="overwrite", small=small)
            elif mode == "append":
                delta_table.append(rows, path, batch, mode, counts, small=small)
            else:
                group = windows.group(gold)
                delta_merge.replace_groups(
                    rows.frame,
                    path,
                    batch,
                    counts,
                    touched=rows,
                    group=group,
                    key=group,
                    step=mode,
                    small=small,
                )

    return Stream(
        pipeline=context.pipeline.name,
        name=gold.table,
        frame=frame,
        write=write,
        checkpoint=context.checkpoint(gold),
        trigger=context.settings.gold.trigger,
        output_mode=mode,
        without_rows=mode == "append",
    )


@dataclass
class _Before:
    """What the micro-batch before came to.

    Attributes:
        rows: Groups that it handed out; more than is small as long as there was none.
    """

    rows: float = math.inf


def grouped(silver: DataFrame, gold: Aggregate) -> DataFrame:
    """The aggregate's result over silver rows. Grain: one row per group and window; null is a group.

    Raises:
        PipelineError: Names the group, the measure or the condition that does not fit.
    """
    by, measures = named(gold.by or ()), named(gold.measures)
    condition = None if gold.where is None else F.expr(f"({gold.where})")
    try:
        rows = silver if condition is None else silver.where(condition)
        found = windows.timed(rows, gold).groupBy(*windows.grouping(gold)).agg(*columns(measures))
        return windows.unpacked(found, gold)
    except PySparkException as error:
        trials = each(by, "by", silver.select) + each(measures, "measure", silver.groupBy().agg)
        if condition is not None:
            trials.append(("where", lambda: silver.where(condition)))
        raise misfit(error, trials, gold.table, source_of(gold)) from error
