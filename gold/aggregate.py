"""Complete-mode aggregates: the whole result is written anew by every micro-batch."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common import delta
from common.declare import Aggregate
from common.declaring import source_of
from common.delta import MicroBatch
from common.streaming import Stream
from gold import tables, windows
from gold.context import Context
from gold.expressions import columns, each, misfit, named
from gold.source import new_rows


def stream(context: Context, gold: Aggregate) -> Stream:
    """The query of one aggregate; makes the table where there is none.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    frame = grouped(new_rows(context, gold), gold)
    path = context.path(gold.table)
    tables.ensure(context, gold.table, frame.schema, gold.storage)

    def write(result: DataFrame, batch: MicroBatch) -> None:
        kept = result.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # Must come first: a stateful batch that is not consumed whole is marked as done all the same.
            groups = kept.count()
            delta.append(kept.coalesce(1), path, batch, "complete", {"groups": groups}, mode="overwrite")
        finally:
            kept.unpersist()

    return Stream(
        pipeline=context.pipeline.name,
        name=gold.table,
        frame=frame,
        write=write,
        checkpoint=context.checkpoint(gold),
        trigger=context.settings.gold.trigger,
        output_mode="complete",
    )


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
