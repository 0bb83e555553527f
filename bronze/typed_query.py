"""Rows of a source without offsets to bronze: its columns typed, as they came, each row once."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import typed_value
from bronze.numbered_rows import TIME, Numbering
from bronze.table import INGESTED
from common.config.pace import trigger_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import DeltaTable
from common.declare import Stream as StreamSource
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.streaming.query import Stream


def typed_query(  # noqa: PLR0913  # what it reads, where it writes, and under which settings
    spark: SparkSession,
    pipeline: str,
    declared: DeltaTable | StreamSource,
    source: DataFrame,
    *,
    settings: Settings,
    layout: Layout,
    reads: str,
    time: str | None = None,
) -> Stream:
    """The query of one bronze table with typed columns; creates the table where there is none.

    Args:
        spark: The session.
        pipeline: The pipeline's name.
        declared: The declaration.
        source: The source's columns as a stream.
        settings: The settings in force.
        layout: Where tables and checkpoints are.
        reads: What the query reads, in words.
        time: The column with the time of a row; unset: when it is read.

    Raises:
        TableShapeError: A column of the source has another type than before.
    """
    path = layout.table_path(declared.table)
    want = typed_value.ensure(spark, pipeline, declared, path, source.schema, reads=reads)
    numbering = Numbering(path, declared.coordinate)
    tasks = spark.sparkContext.defaultParallelism

    def write(frame: DataFrame, batch: MicroBatch) -> None:
        if delta_table.is_written(path, batch, "append"):
            return
        with numbering.numbered(frame.coalesce(tasks), batch) as (rows, told):
            delta_table.append(rows, path, told, "append", {})

    # The time of the micro-batch, which its replay has too.
    now = F.current_timestamp()
    value = typed_value.fitted(F.struct("*"), source.schema, want)
    at = now if time is None else F.col(time)
    return Stream(
        pipeline=pipeline,
        name=declared.table,
        frame=source.select(value.alias("value"), at.alias(TIME), now.alias(INGESTED)),
        write=write,
        checkpoint=layout.checkpoint_path(declared.table),
        trigger=trigger_of(declared, settings),
        source=reads,
    )
