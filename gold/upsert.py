"""The newest row per key (SCD1): each micro-batch reduced to one row per key, then merged."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from common import delta, delta_merge
from common.declare import Upsert
from common.declaring import source_of
from common.delta import MicroBatch
from common.streaming import Stream
from gold import tables
from gold.context import Context
from gold.expressions import columns, each, misfit, named
from gold.reduce import COORDINATES, changed, newest_per_key, total_order
from gold.source import new_rows


def stream(context: Context, gold: Upsert) -> Stream:
    """The query of one upserted table; makes the table where there is none.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    frame = versions(new_rows(context, gold), gold)
    path = context.path(gold.table)
    if gold.columns is None and (made := delta.columns(context.spark, path)):
        # Silver may have grown since; this table has the columns that it was made with.
        frame = frame.select(*(name for name in frame.columns if name in made))
    tables.ensure(context, gold.table, frame.schema, gold.storage)
    order = total_order(gold.newest_by)

    def write(batch_rows: DataFrame, batch: MicroBatch) -> None:
        newest = newest_per_key(batch_rows, key=gold.key, order=order).persist(StorageLevel.MEMORY_AND_DISK)
        keys = newest.count()
        fresh = newest
        if batch.batch_id > 0:
            table = batch_rows.sparkSession.read.format("delta").load(path)
            fresh = changed(newest, table, key=gold.key, order=order, keys=keys)
            fresh = fresh.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = {"keys": keys, "written": fresh.count()}
            if batch.batch_id == 0:
                # Takes the place of what a lost checkpoint has left behind.
                delta.append(fresh.coalesce(1), path, batch, delta.MERGE, counts, mode="overwrite")
            elif counts["written"]:
                delta_merge.merge_newest(fresh.coalesce(1), path, batch, counts, key=gold.key, order=order)
            else:
                # Every batch leaves its mark: a table without one was not written by this checkpoint.
                delta.append(fresh, path, batch, delta.MERGE, counts)
        finally:
            fresh.unpersist()
            newest.unpersist()

    return Stream(
        pipeline=context.pipeline.name,
        name=gold.table,
        frame=frame,
        write=write,
        checkpoint=context.checkpoint(gold),
        trigger=context.settings.gold.trigger,
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
