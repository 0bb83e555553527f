"""The newest row per key (SCD1): each micro-batch reduced to one row per key, then merged."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from common import delta
from common.declare import Upsert
from common.declaring import source_of
from common.delta import MicroBatch
from common.layout import Layout
from common.settings import Settings
from common.streaming import Stream
from gold.expressions import columns, each, misfit, named
from gold.reduce import COORDINATES, changed, newest_per_key, total_order
from gold.source import silver_stream
from gold.tables import PROPERTIES


def stream(  # noqa: PLR0913  # what it reads, where it writes, and under which settings
    spark: SparkSession,
    pipeline: str,
    gold: Upsert,
    *,
    settings: Settings,
    layout: Layout,
    is_replaced: bool = False,
) -> Stream:
    """The query of one upserted table; makes the table where there is none.

    ``is_replaced`` says that rows of the silver table are replaced by newer ones.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    path = layout.table_path(gold.reads)
    frame = versions(silver_stream(spark, path, settings.gold, is_replaced=is_replaced), gold)
    path = layout.table_path(gold.table)
    if gold.columns is None and (made := delta.columns(spark, path)):
        # Silver may have grown since; this table has the columns that it was made with.
        frame = frame.select(*(name for name in frame.columns if name in made))
    delta.ensure(spark, gold.table, path, frame.schema, PROPERTIES)
    order = total_order(gold.newest_by)

    def write(batch_rows: DataFrame, batch: MicroBatch) -> None:
        newest = newest_per_key(batch_rows, key=gold.key, order=order).persist(StorageLevel.MEMORY_AND_DISK)
        table = batch_rows.sparkSession.read.format("delta").load(path)
        keys = newest.count()
        fresh = changed(newest, table, key=gold.key, order=order, keys=keys)
        fresh = fresh.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = {"keys": keys, "written": fresh.count()}
            if counts["written"]:
                delta.merge_newest(fresh.coalesce(1), path, batch, counts, key=gold.key, order=order)
            else:
                # Every batch leaves its mark: a table without one was not written by this checkpoint.
                delta.append(fresh, path, batch, delta.MERGE, counts)
        finally:
            fresh.unpersist()
            newest.unpersist()

    return Stream(
        pipeline=pipeline,
        name=gold.table,
        frame=frame,
        write=write,
        checkpoint=layout.checkpoint_path(gold.table),
        trigger=settings.gold.trigger,
    )


def versions(silver: DataFrame, gold: Upsert) -> DataFrame:
    """Silver rows with the table's columns and the coordinates that break ties.

    Raises:
        PipelineError: An expression does not fit silver's columns.
    """
    if gold.columns is None:
        return silver
    kept = named(gold.columns)
    try:
        return silver.select(*columns(kept), *COORDINATES)
    except PySparkException as error:
        raise misfit(error, each(kept, "column", silver.select), gold.table, source_of(gold)) from error
