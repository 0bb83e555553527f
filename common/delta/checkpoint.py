"""What a Spark streaming checkpoint says, read from its files without Spark.

A checkpoint holds ``metadata`` (the query's id), ``offsets/N`` (written when micro-batch N is planned),
``commits/N`` (written when it is done) and, where the query keeps any, ``state``. Spark purges old entries
while we read: what vanishes between listing and reading is absent. Nothing here writes.

An ``offsets/N`` file: line 1 the format (``v1``), line 2 JSON about the micro-batch and the
settings that the query keeps from its first start, then a line per source with the position up to which
the micro-batch reads, or ``-`` for a source without one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import CheckpointMismatchError
from common.machine.storage_folder import Folder

_BATCH = re.compile(r"^\d+$")
_HEADER_LINES = 2
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Entry:
    """One planned micro-batch.

    Attributes:
        batch_id: Its number, from 0.
        watermark_ms: The event-time watermark it ran with, milliseconds since the epoch; 0 = none yet.
        timestamp_ms: When it was planned, milliseconds since the epoch; 0 = not recorded.
        sources: Per source, in the query's order, the parsed position up to which it reads.
        partitions: Into how many partitions its query shuffles for its state: the same since its first start,
            whatever the session says; ``None`` = not recorded.
    """

    batch_id: int
    watermark_ms: int
    timestamp_ms: int
    sources: tuple[Mapping[str, Any] | None, ...]
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class DeltaPosition:
    """How far a Delta source has been read: every commit below ``version``, and part of that one.

    Attributes:
        version: The commit that is read next, or that reading is in the middle of.
        index: Last file of that commit that was read, from 0; negative = none of it yet.
        table_id: Id of the table that was read (``reservoirId``).
        in_snapshot: Reading is still inside the table's first snapshot at ``version``, whose files
            ``index`` counts, and not yet following commits.
    """

    version: int
    index: int
    table_id: str
    in_snapshot: bool


class Checkpoint:
    """A streaming query's checkpoint, by path or URI; it need not exist."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = Folder(path)
        self._offsets = self._root / "offsets"
        self._commits = self._root / "commits"
        self._state = self._root / "state"

    def exists(self) -> bool:
        """Whether a query was ever started on it."""
        return self._root.exists("metadata") or self.last_planned() is not None

    def query_id(self) -> str | None:
        """The query's id, which outlives restarts, or None before the first start.

        Raises:
            CheckpointMismatchError: The ``metadata`` file is not what Spark writes.
        """
        content = self._root.read("metadata")
        if content is None:
            return None
        try:
            return str(json.loads(content)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable("metadata") from error

    def last_planned(self) -> int | None:
        """The newest micro-batch that was planned, done or not."""
        return max(_batches(self._offsets), default=None)

    def last_committed(self) -> int | None:
        """The newest micro-batch that is done."""
        return max(_batches(self._commits), default=None)

    def committed_ms(self, batch_id: int) -> int | None:
        """When a micro-batch was done, milliseconds since the epoch, or None when it is not (any more)."""
        return self._commits.modified_ms(str(batch_id))

    def batches(self) -> tuple[int, ...]:
        """Every planned micro-batch that Spark has kept, oldest first."""
        return tuple(sorted(_batches(self._offsets)))

    def state_partitions(self) -> int | None:
        """In how many partitions the query keeps its state; ``None`` where it keeps none, or not yet.

        Raises:
            CheckpointMismatchError: The newest ``offsets`` file is not what Spark 4.1 writes.
        """
        newest = self.entry(self.last_planned()) if self._state.names() else None
        return None if newest is None else newest.partitions

    def entry(self, batch_id: int | None) -> Entry | None:
        """A planned micro-batch, or None when it is not there (any more).

        Raises:
            CheckpointMismatchError: The file is not what Spark 4.1 writes.
        """
        content = None if batch_id is None else self._offsets.read(str(batch_id))
        # Spark creates the file under its final name by a rename, but object stores and crashes
        # may show an empty one: that micro-batch was not planned.
        if batch_id is None or not content:
            return None
        lines = content.decode("utf-8").splitlines()
        try:
            if lines[0] != "v1":
                raise ValueError(f"format {lines[0]!r}")  # noqa: TRY301  # one place says it
            head = json.loads(lines[1])
            sources = tuple(_source(line) for line in lines[_HEADER_LINES:])
            partitions = head.get("conf", {}).get(_PARTITIONS)
            return Entry(
                batch_id,
                watermark_ms=int(head.get("batchWatermarkMs", 0)),
                timestamp_ms=int(head.get("batchTimestampMs", 0)),
                sources=sources,
                partitions=None if partitions is None else int(partitions),
            )
        except (ValueError, IndexError, AttributeError) as error:
            raise self._unreadable(f"offsets/{batch_id}") from error

    def _unreadable(self, name: str) -> CheckpointMismatchError:
        return CheckpointMismatchError(
            f"{self.path}/{name} is not what Spark 4.1 writes. If the disk was full or a file was edited, "
            "restore the checkpoint from a copy; if another Spark version wrote it, use that one."
        )


def kafka_position(entry: Entry) -> dict[str, dict[int, int]]:
    """The next offset to read, per topic and partition, after a micro-batch of a Kafka source."""
    return {
        topic: {int(partition): int(next_offset) for partition, next_offset in partitions.items()}
        for source in entry.sources
        if source is not None
        for topic, partitions in source.items()
    }


def delta_position(entry: Entry, source: int = 0) -> DeltaPosition | None:
    """How far a micro-batch reads its Delta source, or None when it reads nothing of it yet."""
    return delta_position_of(entry.sources, source)


def delta_position_of(sources: Sequence[Mapping[str, Any] | None], source: int = 0) -> DeltaPosition | None:
    """The same of the positions of a micro-batch's sources."""
    found = sources[source] if source < len(sources) else None
    if found is None:
        return None
    return DeltaPosition(
        version=int(found["reservoirVersion"]),
        index=int(found.get("index", -1)),
        table_id=str(found.get("reservoirId", "")),
        in_snapshot=bool(found.get("isStartingVersion")),
    )


def _batches(folder: Folder) -> Iterator[int]:
    return (int(name) for name in folder.names() if _BATCH.match(name))


def _source(line: str) -> Mapping[str, Any] | None:
    if line == "-":
        return None
    parsed = json.loads(line)
    if not isinstance(parsed, dict):
        raise ValueError("no JSON object")  # noqa: TRY004  # told as any other unreadable file
    return parsed
