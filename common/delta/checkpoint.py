"""Reads a Spark streaming checkpoint from its files, without Spark.

A checkpoint holds ``metadata`` (the query's id), ``offsets/N`` (written when micro-batch N is planned),
``commits/N`` (written when micro-batch N is committed) and ``state``, if the query has state. Spark deletes
old files at any time, so a file that is listed and then not found counts as absent.

An ``offsets/N`` file has the format (``v1``) in line 1, in line 2 JSON with the micro-batch's times and the
settings that the query keeps from its first start, and then one line per source: the position up to which
the micro-batch reads, or ``-`` for a source without one.

Spark writes each of these files under a temporary name, ``.<name>.<uuid>.tmp``, and renames it. Only
``delete_interrupted_first_writes`` and ``follow_move`` change anything in a checkpoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder

FIRST_HEAD: Mapping[str, Any] = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
"""Line 2 of an entry of ``offsets``, where nothing is known of the micro-batch's times and settings."""
COMMIT_ENTRY = b'v1\n{"nextBatchWatermarkMs":0}'
"""An entry of ``commits`` of a query without a watermark."""

_BATCH = re.compile(r"^\d+$")
_TEMPORARY = re.compile(r"\.+(metadata|0)\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.TID\d+)?\.tmp(\.crc)?")
"""Temporary names of ``metadata`` and of a log's first file, and of Hadoop's checksum beside such a file."""
_SCHEMA_PATH = re.compile(r'"[^"]*/state/(?P<inside>\d+/_stateSchema/[^"]+)"')
_HEADER_LINES = 2
_PARTITIONS = "spark.sql.shuffle.partitions"


def offsets_entry(head: str, positions: Sequence[Any]) -> bytes:
    """An entry of ``offsets``: its second line, and up to where it reads each source; None: no position."""
    written = ("-" if one is None else json.dumps(one, separators=(",", ":")) for one in positions)
    return "\n".join(("v1", head, *written)).encode()


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """One planned micro-batch."""

    batch_id: int  # number of the micro-batch, from 0
    watermark_ms: int  # Event-time watermark of the micro-batch, milliseconds since the epoch; 0 = none yet
    timestamp_ms: int  # when the micro-batch was planned, milliseconds since the epoch; 0 = not recorded
    # Per source, in the query's order, the position up to which the micro-batch reads: a mapping, None, or of
    # some sources a number.
    sources: tuple[Any, ...]
    # Number of the query's state partitions, which its first start has fixed whatever the session's setting
    # is now; ``None`` = not recorded.
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class DeltaPosition:
    """How far a Delta source was read: every commit below ``version``, and ``version`` up to ``index``."""

    version: int  # the commit that is read next or is partly read
    index: int  # index, from 0, of the last file of ``version`` that was read; negative = no file yet
    table_id: str  # id of the source table (``reservoirId``)
    # The stream still reads the table's initial snapshot at ``version``, and ``index`` counts the files of
    # that snapshot; it does not follow commits yet.
    in_snapshot: bool


class Checkpoint:
    """A streaming query's checkpoint, by path or URI. The checkpoint need not exist."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = StorageFolder(path)
        self._offsets = self._root / "offsets"
        self._commits = self._root / "commits"
        self._state = self._root / "state"
        self._beginning = self._root / "sources" / "0"

    def exists(self) -> bool:
        """Whether a query was ever started with this checkpoint."""
        return self._root.exists("metadata") or self.last_planned() is not None

    def query_id(self) -> str | None:
        """The query's id, which stays the same over restarts; None before the first start.

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
        """The newest planned micro-batch, committed or not; None before the first."""
        return max(_batches(self._offsets), default=None)

    def last_committed(self) -> int | None:
        """The newest committed micro-batch; None before the first."""
        return max(_batches(self._commits), default=None)

    def kafka_beginning(self) -> dict[str, dict[int, int]] | None:
        """The offsets at which a Kafka source begins, by topic and partition; None before its first look.

        The source writes them before the first micro-batch, which an idle topic never has.
        """
        content = self._beginning.read("0")
        try:
            _, _, text = (content or b"").decode("utf-8").partition("v1\n")
            return _by_partition(json.loads(text))
        except (ValueError, AttributeError, TypeError):
            return None

    def is_committed(self, batch_id: int) -> bool:
        """Whether a micro-batch has a commit that Spark can read; an empty file is none."""
        return (self._commits.read(str(batch_id)) or b"").startswith(b"v1\n")

    def committed_ms(self, batch_id: int) -> int | None:
        """When a micro-batch was committed, milliseconds since the epoch; None where no file says so."""
        return self._commits.modified_ms(str(batch_id))

    def batches(self) -> tuple[int, ...]:
        """Every planned micro-batch whose file Spark has kept, oldest first."""
        return tuple(sorted(_batches(self._offsets)))

    def committed_batches(self) -> tuple[int, ...]:
        """Every committed micro-batch whose file Spark has kept, oldest first."""
        return tuple(sorted(_batches(self._commits)))

    def state_partitions(self) -> int | None:
        """Number of the query's state partitions; ``None`` where the query has no state, or none yet.

        Raises:
            CheckpointMismatchError: The newest ``offsets`` file is not what Spark 4.1 writes.
        """
        newest = self.planned_batch(self.last_planned()) if self._state.names() else None
        return None if newest is None else newest.partitions

    def planned_batch(self, batch_id: int | None) -> PlannedBatch | None:
        """A planned micro-batch; None where there is no file of it, or no longer.

        Raises:
            CheckpointMismatchError: The file is not what Spark 4.1 writes.
        """
        content = None if batch_id is None else self._offsets.read(str(batch_id))
        # Spark renames a finished file to its name, but an object store or a crash may leave an empty file:
        # then the micro-batch was not planned.
        if batch_id is None or not content:
            return None
        lines = content.decode("utf-8").splitlines()
        try:
            if lines[0] != "v1":
                raise ValueError(f"format {lines[0]!r}")  # noqa: TRY301  # the one handler below reports it
            head = json.loads(lines[1])
            sources = tuple(_source(line) for line in lines[_HEADER_LINES:])
            partitions = head.get("conf", {}).get(_PARTITIONS)
            return PlannedBatch(
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


def delete_interrupted_first_writes(path: str) -> tuple[str, ...]:
    """Delete the temporary files of a query that was killed before it had planned its first micro-batch.

    Spark refuses to start a query that has not planned a micro-batch if ``offsets``, ``commits`` or ``state``
    has an entry, even a temporary file without a byte. A query that has planned one ignores such files.

    Call it only while no query runs with the checkpoint.

    Args:
        path: Path or URI of the checkpoint, which need not exist.

    Returns:
        The deleted files, relative to the checkpoint; nothing is deleted once a micro-batch is planned.
    """
    if Checkpoint(path).last_planned() is not None:
        return ()
    root = StorageFolder(path)
    sources = sorted(name for name in (root / "sources").names() if _BATCH.match(name))
    deleted = []
    for folder in ("", "offsets/", "commits/", *(f"sources/{name}/" for name in sources)):
        inside = root / folder.rstrip("/") if folder else root
        for name in sorted(filter(_TEMPORARY.fullmatch, inside.names())):
            inside.delete(name)
            deleted.append(f"{folder}{name}")
    return tuple(deleted)


def follow_move(path: str, *, is_look: bool = False) -> tuple[str, ...]:
    """Have the state of a processor name its schemas where the checkpoint is now.

    Spark writes whole paths into ``state/N/_metadata/v2``, and would look for the schemas in the folder where
    the checkpoint was before it was moved, or in the original of a copy.

    Args:
        path: Path or URI of the checkpoint, which need not exist.
        is_look: Write nothing.

    Returns:
        The files that are written again, relative to the checkpoint.
    """
    state = StorageFolder(path) / "state"
    base = f"file:{Path(state.path).absolute()}" if state.is_local else f"{path.rstrip('/')}/state"
    written = []
    for operator in sorted(name for name in state.names() if _BATCH.match(name)):
        folder = state / operator / "_metadata" / "v2"
        for name in sorted(filter(_BATCH.match, folder.names())):
            former = (folder.read(name) or b"").decode()
            now = _SCHEMA_PATH.sub(lambda found: f'"{base}/{found["inside"]}"', former)
            if now != former:
                if not is_look:
                    folder.delete(f".{name}.crc")
                    folder.write(name, now.encode())
                written.append(f"state/{operator}/_metadata/v2/{name}")
    return tuple(written)


def kafka_position(entry: PlannedBatch) -> dict[str, dict[int, int]]:
    """The next offset to read after a micro-batch of a Kafka source, by topic and partition.

    Empty for a source whose positions are no offsets, such as a Delta table.
    """
    found: dict[str, dict[int, int]] = {}
    for source in entry.sources:
        found |= _by_partition(source or {})
    return found


def delta_position(entry: PlannedBatch, source: int = 0) -> DeltaPosition | None:
    """How far a micro-batch reads a Delta source; None where it reads nothing of that source yet."""
    return delta_position_of(entry.sources, source)


def delta_position_of(sources: Sequence[Mapping[str, Any] | None], source: int = 0) -> DeltaPosition | None:
    """How far a Delta source is read, from the positions of all sources; None as for ``delta_position``."""
    found = sources[source] if source < len(sources) else None
    if found is None:
        return None
    return DeltaPosition(
        version=int(found["reservoirVersion"]),
        index=int(found.get("index", -1)),
        table_id=str(found.get("reservoirId", "")),
        in_snapshot=bool(found.get("isStartingVersion")),
    )


def _by_partition(source: Any) -> dict[str, dict[int, int]]:
    if not isinstance(source, Mapping):
        return {}
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in source.items()
        if isinstance(partitions, Mapping)
    }


def _batches(folder: StorageFolder) -> Iterator[int]:
    return (int(name) for name in folder.names() if _BATCH.match(name))


def _source(line: str) -> Any:
    if line == "-":
        return None
    parsed = json.loads(line)
    if not isinstance(parsed, dict | int) or isinstance(parsed, bool):
        raise ValueError("no position")  # noqa: TRY004  # reported as any other unreadable file
    return parsed
