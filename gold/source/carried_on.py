"""Has the commits of a gold query say what its table lacks of the rows that its sources have or had."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain

from pyspark.sql import DataFrame

from common.declare import Custom, Gold, Join, Stateful, View
from common.delta.match.checkpoint_match import commits_metadata
from common.delta.micro_batch import MicroBatch
from common.streaming.query import Stream
from gold.source.left_out import LEFT_OUT, LeftOut, by_the_logs, nothing, told, with_removals
from gold.source.stream import reads_feed
from gold.table.context import Context


def carried_on(context: Context, gold: Gold, stream: Stream) -> Stream:
    """The query, whose commits say what its table lacks; one that follows what is taken away needs none."""
    if isinstance(gold, View | Custom | Stateful) or context.read_once is not None:
        return stream
    if (
        (isinstance(gold, Join) and gold.mode == "lookup")
        or gold.reading.has_start
        or reads_feed(context, gold)
    ):
        return stream
    paths = [context.path(table) for table in gold.streamed]
    return replace(stream, write=_Carrying(gold, context.path(gold.table), stream.write, paths))


@dataclass
class _Carrying:
    """Writes micro-batches whose commits say what the table lacks."""

    gold: Gold
    path: str  # its table
    write: Callable[[DataFrame, MicroBatch], None]  # writes one micro-batch
    paths: Sequence[str]  # the tables that are read
    # What the table lacks after the micro-batch before; None where that is not known.
    before: LeftOut | None = None
    is_read: bool = False  # whether the table was asked for it

    def __call__(self, rows: DataFrame, batch: MicroBatch) -> None:
        """Write one micro-batch."""
        if not self.is_read:
            self.before, self.is_read = self._read(batch), True
        before = self.before
        if before is not None:
            before = with_removals(before, self.gold, batch.before, batch.positions, self.paths)
        if before is None:
            self.before = None
            self.write(rows, batch)
            return
        entry = asdict(before)

        def dropped() -> Mapping[str, int]:
            # What is late is known once the rows were read: the commit is written after that.
            counts = batch.dropped()
            if late := counts.get("late", 0):
                entry.update(late=before.late + late, late_until_ms=batch.late_watermark_ms())
            return counts

        self.write(rows, replace(batch, dropped=dropped, facts={**batch.facts, LEFT_OUT: entry}))
        self.before = told({LEFT_OUT: entry})

    def _read(self, batch: MicroBatch) -> LeftOut | None:
        """What the table lacks before a micro-batch, which may be there already."""
        if batch.batch_id == 0:
            return nothing(len(self.paths))
        own = (
            each
            for each in commits_metadata(self.path, self.gold.table)
            if each["query_id"] == batch.query_id and each["batch_id"] < batch.batch_id
        )
        if (newest := next(own, None)) is None:
            return None
        return told(newest) or by_the_logs(self.gold, chain([newest], own), self.paths)
