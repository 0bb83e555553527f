"""The identity of a micro-batch: which query runs it, its number, and which source positions it covers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta.checkpoint import DeltaPosition, delta_position_of
from common.delta.log import Backlog, LogReader
from common.errors import MedallionError
from common.machine import lease_owner

KafkaOffsets = Mapping[str, Mapping[str, int]]
"""The next offset to read, by topic and by partition, as Spark's offset log writes it."""


FORMAT = 1
"""The format of a commit's metadata (docs/records/commits.md); a commit that names none has this one."""

SOURCE_COMMITS = "source_commits"
"""The entry of a commit's metadata with the last commit that is read of each source."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The identity of one micro-batch of one query."""

    pipeline: str
    query: str  # the query's name, such as ``silver.quakes``
    query_id: str  # Spark's id of the query; lives in the checkpoint
    batch_id: int  # counts from 0 per checkpoint; a replay has the same one
    # Source positions at the end of the batch, as Spark's offset log writes them: commits repeat them word by
    # word. To compare them: ``end`` and ``start``.
    positions: tuple[Any, ...]
    # Whether it is the first batch of this run of its query; only that one may be a replay.
    is_first: bool = True
    # Whether an earlier attempt at the batch ended its process, or raised an error. Spark computes and writes
    # such a batch, never the driver.
    was_attempted: bool = False
    # Whether an earlier attempt at the batch failed at a row: a query that computes its table from versions
    # of its sources reads them to the newest, which may have the row corrected.
    failed_at_row: bool = False
    # Marks the batch as one that may end the process (``common.streaming.attempt_mark``). To be called before
    # the driver reads more rows than in any batch before.
    mark_attempt: Callable[[], object] = lambda: None
    # The positions at the end of the batch before; empty for the first batch of a checkpoint.
    before: tuple[Any, ...] = ()
    # Counts the duplicate and late rows that the batch's stateful operators dropped. To be called after the
    # whole batch was read.
    dropped: Callable[[], Mapping[str, int]] = dict
    # Resets the counters of dropped rows. To be called before the batch is read a second time.
    forget_dropped: Callable[[], None] = lambda: None
    # The watermark by which the batch judges rows late, milliseconds since the epoch.
    late_watermark_ms: Callable[[], int | None] = lambda: None
    closing_watermark_ms: Callable[[], int | None] = lambda: None  # the one up to which it closes windows
    # Marks of what the table's declaration means (``gold.table.declaration_marks``).
    declared: Mapping[str, str] = field(default_factory=dict)
    # Further entries for the metadata of the batch's commits.
    facts: Mapping[str, Any] = field(default_factory=dict)
    # The last commit that is read of each source (``common.delta.match.source_match``).
    source_commits: tuple[Any, ...] = ()
    # When Spark planned the batch, milliseconds since the epoch: ``current_timestamp`` in the batch and in
    # its replays. 0 where that is not known.
    planned_ms: int = 0

    def limits(self, limits: DriverLimits) -> DriverLimits:
        """What the driver may compute of this batch.

        Args:
            limits: What the driver may compute of a batch that was not attempted before.
        """
        return NO_DRIVER if self.was_attempted else limits

    def late_counts(self) -> dict[str, int]:
        """How many rows the batch's operators dropped as late, to be called after the whole batch was read.

        Until an event moves it, Spark's watermark is 0, the beginning of 1970, and never earlier: what is
        dropped by that watermark is not late, and is counted as ``before_1970`` too.
        """
        late = self.dropped()["late"]
        return {"late": late} | ({"before_1970": late} if late and self.late_watermark_ms() == 0 else {})

    def end(self, source: int = 0) -> DeltaPosition | None:
        """The position in a Delta source at the end of the batch; ``None`` where nothing was read yet."""
        return delta_position_of(self.positions, source)

    def start(self, source: int = 0) -> DeltaPosition | None:
        """The position in a Delta source at the start of the batch; ``None`` where nothing was read yet."""
        return delta_position_of(self.before, source)

    def kafka_offsets(self) -> tuple[KafkaOffsets, KafkaOffsets] | None:
        """Kafka offsets at the start and at the end of the batch.

        ``None`` for the first batch of a checkpoint: the offset log does not say where that one starts.
        """
        if not self.before or not self.positions:
            return None
        return self.before[0] or {}, self.positions[0]

    def most_records(self) -> int | None:
        """How many records of Kafka the batch has at most: those of aborted transactions are not among them.

        ``None`` where the offset log does not say where a partition starts: in the first batch of a
        checkpoint, and of a partition that is new. So it is for a source that is not Kafka.
        """
        starts, ends = self.kafka_offsets() or ({}, None)
        if not isinstance(ends, Mapping) or not all(isinstance(each, Mapping) for each in ends.values()):
            return None  # the position of another kind of source
        total = 0
        for topic, partitions in ends.items():
            for number, end in partitions.items():
                start = starts.get(topic, {}).get(number)
                if start is None:
                    return None
                total += int(end) - int(start)
        return total

    def backlog(self, paths: Sequence[str]) -> Backlog | None:
        """What the batch reads of Delta sources by their logs, or ``None`` where their logs do not tell.

        They do not for files of a table's first state: to list them takes long.

        Args:
            paths: The sources, in the order of the checkpoint.
        """
        total = Backlog()
        for place, path in enumerate(paths):
            start, end = self.start(place), self.end(place)
            if end is None and len(paths) > 1:
                continue  # nothing of this table is read yet
            if end is None or (start is None and self.batch_id):
                return None
            if end.in_snapshot or (start is not None and start.in_snapshot):
                return None
            try:
                total = LogReader(path).backlog_between(start, end, total)
            except MedallionError:
                return None  # Spark's error says what is wrong with the table
        return total

    def source_version(self, source: int = 0) -> int | None:
        """The newest version of a Delta source whose rows the batch has, all of them or some.

        Every commit below that version was read to its end. ``None`` where nothing was read yet.
        """
        return _version(self.end(source))

    def in_first_state(self, source: int = 0) -> bool:
        """Whether all rows of the batch belong to the source's state at the query's first start.

        A writer that reads the source itself, at ``source_version()``, reads all of that state in the first
        micro-batch.
        """
        end, start = self.end(source), self.start(source)
        if end is not None and end.in_snapshot:
            # A source that did not exist at first starts with its whole state in a later batch.
            return self.batch_id == 0 or not self.begins(source)
        # The last part of that state ends before the next commit.
        return start is not None and start.in_snapshot and start.version == _version(end)

    def begins(self, source: int = 0) -> bool:
        """Whether the batch contains the first part of the source's state at its first read."""
        end = self.end(source)
        return end is not None and end.in_snapshot and self.start(source) is None

    def in_commit(self, source: int = 0) -> bool:
        """Whether the batch ends inside the commit ``source_version()``; that commit's other rows follow."""
        return _is_inside_commit(self.end(source))

    def in_commit_before(self, source: int = 0) -> bool:
        """Whether all rows of the batch belong to the commit inside which the batch before ended."""
        start = self.start(source)
        return _is_inside_commit(start) and _version(start) == self.source_version(source)

    def metadata(self, step: str, counts: Mapping[str, Any]) -> str:
        """The metadata of a commit of this batch: who wrote it, which positions it covers, row counts."""
        content = {
            "format": FORMAT,
            "pipeline": self.pipeline,
            "query": self.query,
            "query_id": self.query_id,
            "batch_id": self.batch_id,
            "step": step,
            "positions": list(self.positions),
            "counts": dict(counts),
        }
        declared = {"declared": dict(self.declared)} if self.declared else {}
        read = {SOURCE_COMMITS: list(self.source_commits)} if self.source_commits else {}
        return json.dumps(content | declared | read | fenced() | dict(self.facts))


def of_each(told: int | Sequence[int]) -> tuple[int, ...]:
    """A version of each source in metadata: a number where there is one source, a list of several."""
    return (told,) if isinstance(told, int) else tuple(told)


def fenced() -> dict[str, int]:
    """The fencing number for the metadata of a commit; empty where the tables are on no S3 store.

    Every commit of the engine has metadata, so here its process proves that it may write.

    Raises:
        LeaseLostError: A lease of this process is another's, or its file is gone.
    """
    lease_owner.prove()
    number = lease_owner.fence()
    return {} if number is None else {"fence": number}


def _version(position: DeltaPosition | None) -> int | None:
    """The newest version of which at least one row lies before a position."""
    if position is None:
        return None
    return position.version if position.in_snapshot or position.index >= 0 else position.version - 1


def _is_inside_commit(position: DeltaPosition | None) -> bool:
    return position is not None and not position.in_snapshot and position.index >= 0
