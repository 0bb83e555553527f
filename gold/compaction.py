"""Gold tables that are written by many small commits, compacted by the query that writes them.

So a table still has one writer; nothing of it shows in what the table holds.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from common import delta, delta_upkeep
from common.declare import Gold
from common.delta import MicroBatch
from common.streaming import Stream
from gold.context import Context


def compacting(context: Context, gold: Gold, stream: Stream) -> Stream:
    """The stream; after every so many micro-batches it compacts the tables that it writes."""
    every = context.settings.gold.compact_every
    if every == 0:
        return stream

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        stream.write(rows, batch)
        if (batch.batch_id + 1) % every:
            return
        for table in (gold.table, *gold.side_tables):
            if delta.exists(path := context.path(table)):
                told = delta.note(context.pipeline.name, table, "compaction")
                delta_upkeep.compact(rows.sparkSession, path, told)

    return replace(stream, write=write)
