"""Compaction of gold tables by the query that writes them, so that a table still has one writer.

It changes no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from rich.console import Console

from common.declare import Custom, Gold, Table
from common.delta import table as delta_table
from common.delta.maintenance import compaction
from common.delta.micro_batch import MicroBatch
from common.errors import first_line
from common.machine.terminal import say
from common.streaming.query import Stream
from gold.table.context import Context


def clustered_by(declared: Table, table: str) -> Sequence[str]:
    """The columns that one of the tables of a query is clustered by."""
    is_laid_out = table == declared.table or isinstance(declared, Custom)
    return (declared.storage.cluster_by or ()) if is_laid_out else ()


def compacting(context: Context, gold: Gold, stream: Stream) -> Stream:
    """The stream; it compacts its tables after every ``gold.compact_every`` micro-batches."""
    every = context.settings.gold.compact_every
    if every == 0:
        return stream

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        stream.write(rows, batch)
        if (batch.batch_id + 1) % every:
            return
        for table in (gold.table, *gold.side_tables):
            if delta_table.exists(path := context.path(table)):
                metadata = delta_table.maintenance_metadata(context.pipeline.name, table, "compaction")
                columns = clustered_by(gold, table)
                try:
                    compaction.compact(
                        rows.sparkSession, path, metadata, cluster_by=columns, limits=context.limits
                    )
                except PySparkException as error:
                    # The micro-batch is written: a failed compaction must not make it run again.
                    why = first_line(error)
                    say(Console(stderr=True), f"{table}: not compacted this time: {why}")

    return replace(stream, write=write)
