"""Counts what a running query has read of its sources, by the positions in its checkpoint.

Spark's own number, ``numInputRows``, counts a row once for each time that the micro-batch's function reads
the frame, and each row of a change data feed; so it can be a multiple of what the source has. It is 0 where
the function reads the frame in queries of its own. Rows that the
source has updated or deleted are not counted here: their commits do not say how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from common.config.paths import Layout
from common.declare import Bronze, DeltaTable, Files, Publish, Silver, Stream, Table, Topic
from common.delta.checkpoint import Checkpoint, PlannedBatch, delta_position, kafka_position
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.source_match import Source
from common.errors import MedallionError
from common.streaming.topic_identity import coordinate_ends
from orchestration.access.declaration.lineage import read_tables

Offsets = Mapping[str, Mapping[int, int]]


def streamed_sources(declared: Table | Publish) -> tuple[str, ...]:
    """The tables that a query reads as streams, in the order of its checkpoint; none for a topic."""
    if isinstance(declared, DeltaTable):
        return (declared.reads,)
    if isinstance(declared, Bronze):
        return ()
    return read_tables(declared) if isinstance(declared, Silver | Publish) else declared.streamed


def streamed_tables(layout: Layout, declared: Table | Publish) -> tuple[Source, ...]:
    """As ``streamed_sources``, with the paths of the tables."""
    return tuple(Source(table, layout.table_path(table)) for table in streamed_sources(declared))


def begins_later(declared: Table | Publish) -> bool:
    """Whether a query without a position begins at a place of its source that only its start looks up.

    So what its source has is not what it reads.
    """
    if isinstance(declared, Bronze):
        return isinstance(declared, DeltaTable) and declared.begins_later
    return not isinstance(declared, Silver) and declared.reading.has_start


def rows_between(
    declared: Table | Publish,
    start: PlannedBatch | None,
    end: PlannedBatch,
    log: Callable[[str], LogReader],
    first: Offsets | None = None,
) -> int | None:
    """Rows, or records of Kafka, that a query reads between two of its micro-batches; None if not known.

    Args:
        start: The micro-batch at whose end the count begins; None: the beginning.
        end: The micro-batch at whose end the count ends.
        first: For a topic, the offsets at which partitions without a position begin.

    Raises:
        HistoryGoneError: The log's cleanup has deleted some of the commits.
    """
    if start is not None and start.batch_id == end.batch_id:
        return 0
    if isinstance(declared, Stream):
        return None  # its positions are its own
    if start is None and begins_later(declared):
        return None  # the checkpoint does not say where it began
    if isinstance(declared, Topic | Files):
        return _records(start, end, first)
    total = 0
    for place, source in enumerate(streamed_sources(declared)):
        before = delta_position(start, place) if start else None
        if (after := delta_position(end, place)) is None:
            continue
        rows = log(source).backlog_between(before, after).rows
        if rows is None:
            return None
        total += rows
    return total


def _records(start: PlannedBatch | None, end: PlannedBatch, first: Offsets | None) -> int | None:
    before = kafka_position(start) if start else {}
    total = 0
    for topic, partitions in kafka_position(end).items():
        for partition, offset in partitions.items():
            begin = before.get(topic, {}).get(partition)
            if begin is None:
                begin = (first or {}).get(topic, {}).get(partition)
            if begin is None:
                return None
            total += max(0, offset - begin)
    return total


class RowsRead:
    """Counts the rows, or the records of Kafka, that one query reads while this object exists."""

    def __init__(self, declared: Table | Publish, layout: Layout, first: Offsets | None = None) -> None:
        """Take the query's position as the start.

        Args:
            first: For a topic, the offsets at which partitions without a position begin.
        """
        self._checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
        self._declared, self._layout, self._first = declared, layout, first
        self._numbered = self._rows_numbered()
        self._position: PlannedBatch | None = None
        with suppress(
            MedallionError, OSError
        ):  # the query's own start reports a checkpoint that cannot be read
            self._position = self._committed()

    def advance(self) -> int | None:
        """Rows of the micro-batches that have finished since the last call; None if they are not known."""
        if isinstance(self._declared, Stream | DeltaTable):
            counted, self._numbered = self._numbered, self._rows_numbered()
            return self._numbered - counted
        try:
            now = self._committed()
            before, self._position = self._position, now or self._position
            if now is None:
                return 0
            return rows_between(self._declared, before, now, self._log, self._first)
        except (MedallionError, OSError):  # such as commits that the log's cleanup has deleted
            return None

    def _rows_numbered(self) -> int:
        """How many rows a source without offsets has brought, by the newest commit of its table."""
        if not isinstance(self._declared, Stream | DeltaTable):
            return 0
        table = self._declared.table
        last = last_commit_metadata(self._layout.table_path(table), table)
        return sum(coordinate_ends(last).values())

    def _committed(self) -> PlannedBatch | None:
        return self._checkpoint.planned_batch(self._checkpoint.last_committed())

    def _log(self, table: str) -> LogReader:
        # Another reader each time: a reader keeps all commits that it has read.
        return LogReader(self._layout.table_path(table))
