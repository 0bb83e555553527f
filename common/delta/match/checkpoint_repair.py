"""Repairs a checkpoint by the commits of its query: they repeat the positions of every micro-batch.

A position is written as the table's commit has it; an entry that is empty, or that the table knows nothing
of, is taken out, so that Spark plans or runs that micro-batch again. What is replaced is kept beside the
checkpoint. Call it only while no query runs with the checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from common.delta.checkpoint import COMMIT_ENTRY, FIRST_HEAD, Checkpoint, offsets_entry
from common.delta.match.batch_match import check_positions, goes_back, own_batches
from common.delta.match.checkpoint_match import last_commit_metadata
from common.errors import CheckpointMismatchError, UsageError
from common.machine.storage_folder import StorageFolder


@dataclass(frozen=True, slots=True)
class Change:
    """One file of a checkpoint that a repair writes or takes out."""

    name: str  # the file, relative to the checkpoint
    content: bytes | None  # its new content; None takes the file out
    reason: str  # why, in words


def plan_repair(
    table: str,
    table_path: str,
    checkpoint_path: str,
    *,
    has_state: bool,
    side_tables: Mapping[str, str] = MappingProxyType({}),
) -> list[Change]:
    """What a repair changes in a checkpoint; nothing where it agrees with the table.

    Args:
        has_state: Whether the query keeps state, or may do so: then a checkpoint cannot be brought to another
            micro-batch, because its state is that of its own. One without state is brought forward or back to
            the newest micro-batch of the table; the rows that the table lacks are read again.
        side_tables: The paths of the query's side tables, by their names.

    Raises:
        CheckpointMismatchError: The checkpoint and the table cannot be brought together by their positions.
        UsageError: The query has not written the table yet.
    """
    last = last_commit_metadata(table_path, table)
    if last is None:
        raise UsageError(f"{table}: no commit of its query is in the log of {table_path}: nothing to go by.")
    plan = _Plan(table, table_path, checkpoint_path, last, has_state=has_state, side_tables=side_tables)
    return plan.changes()


def repair(checkpoint_path: str, changes: Sequence[Change], stamp: str) -> str | None:
    """Make the changes; the folder with the files as they were, or None where there were none.

    A repair that was interrupted is finished by another one.
    """
    root, kept = StorageFolder(checkpoint_path), StorageFolder(f"{checkpoint_path}__before_{stamp}")
    is_kept = False
    for change in changes:
        if (before := root.read(change.name)) is not None:
            kept.write(change.name, before)
            is_kept = True
        folder, _, name = change.name.rpartition("/")
        # The checksum beside the file is that of the old content.
        root.delete(f"{folder}/.{name}.crc" if folder else f".{name}.crc")
        if change.content is None:
            root.delete(change.name)
        else:
            root.write(change.name, change.content)
    return kept.path if is_kept else None


def bring_to_newest(table: str, path: str, checkpoint_path: str) -> str | None:
    """Have the checkpoint of a query without state go on after its table's newest commit; as ``repair``.

    Raises:
        CheckpointMismatchError: The checkpoint and the table do not belong together.
    """
    changes = plan_repair(table, path, checkpoint_path, has_state=False)
    kept = repair(checkpoint_path, changes, f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
    check_positions(table, path, checkpoint_path)
    return kept


class _Plan:
    """Plans the repair of one checkpoint."""

    def __init__(  # noqa: PLR0913
        self,
        table: str,
        table_path: str,
        path: str,
        last: Mapping[str, Any],
        *,
        has_state: bool,
        side_tables: Mapping[str, str],
    ) -> None:
        self.table, self.table_path, self.has_state = table, table_path, has_state
        self.side_tables = side_tables
        self.checkpoint, self._files = Checkpoint(path), StorageFolder(path)
        self.query_id, self.newest = str(last["query_id"]), int(last["batch_id"])

    def changes(self) -> list[Change]:
        """All changes, in the order in which they are to be made."""
        return [*self._metadata(), *self._planned(), *self._committed()]

    def _metadata(self) -> Iterator[Change]:
        found = self.checkpoint.query_id()
        if found is None:
            content = json.dumps({"id": self.query_id}, separators=(",", ":")).encode()
            yield Change("metadata", content, f"the query's id, {self.query_id}, is missing")
        elif found != self.query_id:
            raise CheckpointMismatchError(
                f"{self.table}: the checkpoint {self.checkpoint.path} is that of query {found}, the table at "
                f"{self.table_path} was written by query {self.query_id}: there is nothing to repair. "
                "Restore the checkpoint that belongs to the table."
            )

    def _planned(self) -> Iterator[Change]:
        """Changes of ``offsets``, whose newest entry is to be that of the table's newest micro-batch."""
        path, newest = self.checkpoint.path, self.newest
        batches = self.checkpoint.batches()
        committed = self.checkpoint.last_committed()
        if committed is not None and committed > newest and self.has_state:
            raise CheckpointMismatchError(
                f"{self.table}: the checkpoint {path} has committed micro-batches up to {committed}, the "
                f"table at {self.table_path} ends with {newest}: an older copy of the table was restored, "
                "and positions do not bring its rows back. Restore the table's newest copy."
            )
        if newest not in batches and self.has_state:
            raise CheckpointMismatchError(
                f"{self.table}: the checkpoint {path} lacks micro-batch {newest}, the newest of the table, "
                "and with it the query's state: positions are not enough. Restore the checkpoint's newest "
                "copy" + (f", or: medallion rebuild {self.table}" if self.table.startswith("gold.") else ".")
            )
        for batch_id, positions in self._known_positions():
            # Spark starts from the newest entry, and requires the one before.
            if batch_id not in batches and batch_id < newest - 1:
                break
            if (change := self._entry(batch_id, positions)) is not None:
                yield change
        for batch_id in (one for one in batches if one > newest):
            if not self.has_state or batch_id > newest + 1 or self._is_damaged(batch_id):
                self._refuse_started(batch_id)
                yield Change(f"offsets/{batch_id}", None, f"micro-batch {batch_id} is planned again")

    def _known_positions(self) -> Iterator[tuple[int, list[Any]]]:
        """The newest micro-batches with their positions, newest first; two of them, if there are two."""
        last: list[Any] = []
        before = self.newest + 1
        for batch_id, commits in own_batches(self.table_path, self.table, self.query_id):
            positions = commits[0].get("positions")
            if not positions:
                break
            last, before = list(positions), batch_id
            yield batch_id, last
        if before == self.newest > 0 and last and before - 1 not in self.checkpoint.batches():
            yield before - 1, last  # its commit is gone; only the positions of the newest entry are read from

    def _is_damaged(self, batch_id: int) -> bool:
        """Whether a planned micro-batch cannot be run: its entry is empty, or goes back."""
        entry, before = (self.checkpoint.planned_batch(one) for one in (batch_id, batch_id - 1))
        return entry is None or (before is not None and goes_back(entry, before) is not None)

    def _refuse_started(self, batch_id: int) -> None:
        """Refuse to plan a micro-batch again of which a side table has rows: they would differ."""
        for name, path in self.side_tables.items():
            last = last_commit_metadata(path, self.table)
            if last is not None and last["query_id"] == self.query_id and last["batch_id"] >= batch_id:
                raise CheckpointMismatchError(
                    f"{self.table}: {self.checkpoint.path}/offsets/{batch_id} is damaged, and {name} at "
                    f"{path} has rows of micro-batch {batch_id} already, so the micro-batch must not be "
                    f"planned again with other rows. RESTORE {name} to the version before these rows, then: "
                    f"medallion recover {self.table}"
                )

    def _entry(self, batch_id: int, positions: Sequence[Any]) -> Change | None:
        name = f"offsets/{batch_id}"
        lines = (self._files.read(name) or b"").decode("utf-8", "replace").splitlines()
        if lines and lines[0] == "v1" and _is_json(lines[1:2]):
            if _positions(lines[2:]) == list(positions):
                return None
            head = lines[1]
        else:
            head = self._head_before(batch_id)
        content = offsets_entry(head, positions)
        return Change(name, content, f"the positions of micro-batch {batch_id} are those of its commit")

    def _head_before(self, batch_id: int) -> str:
        """The first lines of a lost entry: those of the entry before, with the watermark after that."""
        lines = (self._files.read(f"offsets/{batch_id - 1}") or b"").decode().splitlines()
        head: dict[str, Any] = json.loads(lines[1]) if _is_json(lines[1:2]) else dict(FIRST_HEAD)
        done = (self._files.read(f"commits/{batch_id - 1}") or b"").decode().splitlines()
        after = json.loads(done[1]).get("nextBatchWatermarkMs", 0) if _is_json(done[1:2]) else 0
        head["batchWatermarkMs"] = max(int(head.get("batchWatermarkMs", 0)), int(after))
        head["batchTimestampMs"] = int(time.time() * 1000)
        return json.dumps(head, separators=(",", ":"))

    def _committed(self) -> Iterator[Change]:
        """Changes of ``commits``: an empty file is taken out, so that the micro-batch is run again.

        The tables skip the steps that they have. A query without state need not run it again.
        """
        committed, newest = self.checkpoint.last_committed(), self.newest
        for batch_id in self.checkpoint.committed_batches() if not self.has_state else ():
            if batch_id > newest:
                yield Change(f"commits/{batch_id}", None, f"the table lacks micro-batch {batch_id}")
        if not self.has_state and self.side_tables:
            # A side table may lack the newest micro-batch: it is run again, and skips what it has written.
            if committed == newest and not self.checkpoint.is_committed(newest):
                yield Change(f"commits/{newest}", None, f"micro-batch {newest} is run again")
            if newest > 0 and not any(map(self.checkpoint.is_committed, (newest, newest - 1))):
                yield Change(
                    f"commits/{newest - 1}", COMMIT_ENTRY, f"micro-batch {newest - 1} is in the table"
                )
        elif not self.has_state and not self.checkpoint.is_committed(newest):
            yield Change(f"commits/{newest}", COMMIT_ENTRY, f"micro-batch {newest} is in the table")
        elif committed is not None and not self.checkpoint.is_committed(committed):
            yield Change(f"commits/{committed}", None, f"micro-batch {committed} is run again")


def _is_json(lines: Sequence[str]) -> bool:
    try:
        return bool(lines) and isinstance(json.loads(lines[0]), dict)
    except ValueError:
        return False


def _positions(lines: Sequence[str]) -> list[Any] | None:
    try:
        return [None if line == "-" else json.loads(line) for line in lines]
    except ValueError:
        return None
