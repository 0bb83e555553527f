"""Rows of a source without offsets to bronze: its columns typed, as they came, each row once."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import typed_value
from bronze.numbered_rows import TIME, Numbering
from bronze.table import INGESTED
from common.config.pace import trigger_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import DeltaTable
from common.declare import Stream as StreamSource
from common.declare.declared import source_of
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.micro_batch import MicroBatch
from common.delta.written_once import is_written
from common.errors import Fault, PipelineError, Problem, first_line
from common.spark import jvm
from common.streaming.query import Stream

FILE_BYTES = 64 << 20
"""Bytes of the source, about, per file of a first micro-batch whose rows are put in order."""

MOST_FILES = 10_000
"""Most files of such a micro-batch."""

_ORDER = "__order"


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
    order: str | None = None,
) -> Stream:
    """The query of one bronze table with typed columns; creates the table where there is none.

    Args:
        source: The source's columns as a stream.
        reads: What the query reads, in words.
        time: The column with the time of a row; unset: when it is read.
        order: What orders the rows of the first micro-batch, in SQL; unset: they are taken as they come.

    Raises:
        PipelineError: ``order`` does not fit the source's columns.
        TableShapeError: A column of the source has another type than before.
    """
    path = layout.table_path(declared.table)
    want = typed_value.ensure(spark, pipeline, declared, path, source.schema, reads=reads)
    numbering = Numbering(path, declared.coordinate)
    tasks = spark.sparkContext.defaultParallelism

    def write(frame: DataFrame, batch: MicroBatch) -> None:
        if is_written(path, batch, "append"):
            return
        in_order = order is not None and batch.batch_id == 0
        taken = _ordered(frame) if in_order else frame.coalesce(tasks)
        with numbering.numbered(taken, batch) as (rows, told):
            delta_table.append(rows, path, told, "append", {})

    # The time of the micro-batch, which its replay has too.
    now = F.current_timestamp()
    value = typed_value.fitted(F.struct("*"), source.schema, want)
    at = now if time is None else F.col(time)
    columns = [value.alias("value"), at.alias(TIME), now.alias(INGESTED)]
    checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
    if order is not None and checkpoint.last_committed() is None:
        columns.append(_order(source, order, declared, reads).alias(_ORDER))
    return Stream(
        pipeline=pipeline,
        name=declared.table,
        frame=source.select(*columns),
        write=write,
        checkpoint=checkpoint.path,
        trigger=trigger_of(declared, settings),
        source=reads,
        begins_whole=order is not None and checkpoint.last_planned() is None,
    )


def _order(source: DataFrame, order: str, declared: DeltaTable | StreamSource, reads: str) -> Column:
    """What orders the rows of the first micro-batch."""
    try:
        source.sort(F.expr(order))
    except PySparkException as error:
        text = f"event_time_order {order!r} does not fit {reads}: {first_line(error)}"
        raise PipelineError(
            [Problem(declared.table, Fault("MED-1401", text), source_of(declared))]
        ) from error
    return F.expr(order)


def _ordered(frame: DataFrame) -> DataFrame:
    """The rows in files, each with later ones than the one before; readers take files in that order."""
    files = min(MOST_FILES, max(1, -(-jvm.estimated_bytes(frame) // FILE_BYTES)))
    ordered = frame.repartitionByRange(files, _ORDER) if files > 1 else frame.coalesce(1)
    return ordered.sortWithinPartitions(_ORDER)
