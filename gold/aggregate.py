"""Complete-mode aggregates: the whole result is written anew by every micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from common import delta
from common.declare import Aggregate
from common.declaring import source_of
from common.delta import MicroBatch
from common.errors import PipelineError, Problem
from common.layout import Layout
from common.settings import Settings
from common.streaming import Stream
from gold.source import silver_stream
from gold.tables import PROPERTIES


def stream(
    spark: SparkSession, pipeline: str, gold: Aggregate, *, settings: Settings, layout: Layout
) -> Stream:
    """The query of one aggregate; makes the table where there is none.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    frame = grouped(silver_stream(spark, layout.table_path(gold.reads), settings.gold), gold)
    path = layout.table_path(gold.table)
    delta.ensure(spark, gold.table, path, frame.schema, PROPERTIES)

    def write(result: DataFrame, batch: MicroBatch) -> None:
        kept = result.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # Must come first: a stateful batch that is not consumed whole is marked as done all the same.
            groups = kept.count()
            delta.append(kept.coalesce(1), path, batch, "complete", {"groups": groups}, mode="overwrite")
        finally:
            kept.unpersist()

    return Stream(
        pipeline=pipeline,
        name=gold.table,
        frame=frame,
        write=write,
        checkpoint=layout.checkpoint_path(gold.table),
        trigger=settings.gold.trigger,
        output_mode="complete",
    )


def grouped(silver: DataFrame, gold: Aggregate) -> DataFrame:
    """The aggregate's result over silver rows. Grain: one row per group; null is a group of its own.

    Raises:
        PipelineError: Names the group, the measure or the condition that does not fit.
    """
    by, measures = _named(gold.by), _named(gold.measures)
    rows = silver if gold.where is None else silver.where(F.expr(f"({gold.where})"))
    try:
        return rows.groupBy(*_columns(by)).agg(*_columns(measures))
    except PySparkException as error:
        raise PipelineError(
            [Problem(gold.table, str(error).strip().splitlines()[0], source_of(gold))]
        ) from error


def _named(expressions: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    return expressions if isinstance(expressions, Mapping) else {name: name for name in expressions}


def _columns(expressions: Mapping[str, str]) -> list[Column]:
    return [F.expr(f"({sql})").alias(name) for name, sql in expressions.items()]
