"""Notices between two micro-batches that a table of the query was deleted, set back or restored.

Delta would create a deleted table again, with the rows of one micro-batch, and write on after an older copy
or a RESTORE: the rows in between would be gone, and the checkpoint would count them as written. A look costs
a few calls of ``stat`` on a local disk. Tables in an object store are looked at when the query starts only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from common.delta.commit import RESTORE
from common.delta.log import LogReader
from common.delta.match.source_match import Source, SourceNote, last_commits, refuse_other_history
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder


class TableWatch:
    """Remembers the version of each table of a query after its micro-batches."""

    def __init__(self, query: str, paths: Iterable[str]) -> None:
        self._query = query
        self._logs = {path: LogReader(path) for path in paths if StorageFolder(path).is_local}
        self._known: dict[str, tuple[int, int | None]] = {}
        """Per path, the newest version, and when the first commit's file was written."""

    def remember(self) -> None:
        """Take the tables as they are now; a table that is gone stays known. Call it after a micro-batch."""
        for path, log in self._logs.items():
            version = log.latest_version()
            if version is not None:
                self._known[path] = version, _created_ms(path)

    def check(self, *, is_written: bool = False) -> None:
        """Refuse to go on where a table is not what it was after the micro-batch before.

        Args:
            is_written: The micro-batch has written its rows; its commits may follow a RESTORE that came after
                the look before it.

        Raises:
            CheckpointMismatchError: Names the table and what became of it; nothing is written, or the
                micro-batch does not count as done.
        """
        if not self._known:
            self.remember()  # before the first micro-batch of a run
        for path, (version, created_ms) in self._known.items():
            now, created_now_ms = self._logs[path].latest_version(), _created_ms(path)
            # The log's cleanup deletes the first commit of an old table.
            is_other = None not in {created_ms, created_now_ms} and created_ms != created_now_ms
            if now is None:
                self._refuse(path, "was deleted", "Restore its newest copy")
            elif is_other and now >= version:
                self._refuse(path, "was replaced by another one or by a copy", "Restore its newest copy")
            elif now < version:
                self._refuse(
                    path,
                    f"ends with version {now}, and ended with version {version} after the last micro-batch: "
                    "an older copy of it was restored",
                    "Restore its newest copy",
                )
            elif now > version:
                self._refuse_restore(path, version, now, is_written=is_written)

    def _refuse_restore(self, path: str, version: int, now: int, *, is_written: bool) -> None:
        log = LogReader(path)
        # A RESTORE back would bring rows twice to what reads appends, and take away what was written since.
        must_refill = is_written or self._query.startswith("silver.")
        for number in range(version + 1, now + 1):
            commit = log.commit(number)
            if commit is not None and commit.operation == RESTORE:
                back = commit.restored_to
                if back is None or back < version:
                    self._refuse(
                        path,
                        f"was restored to an older version by version {number}",
                        f"Have it filled again: medallion recover {self._query}"
                        if must_refill
                        else f"RESTORE it to version {number - 1}",
                    )

    def _refuse(self, path: str, what: str, remedy: str) -> None:
        raise CheckpointMismatchError(
            f"{self._query}: the table at {path} {what}, while the query was running. Going on would leave "
            f"out the rows in between. The micro-batch does not count as done. {remedy}, and start the job "
            "again."
        )


class SourceWatch:
    """Notes in each micro-batch what it has read of its sources, and refuses to read on in another history.

    Args:
        query: The query's name.
        sources: The tables that it reads as streams, in the order of its checkpoint.
        note: Where to note it, if the query writes no table whose commits could.
    """

    def __init__(self, query: str, sources: Sequence[Source], note: SourceNote | None) -> None:
        self._query, self._sources, self._note = query, sources, note
        self._is_local = all(StorageFolder(one.path).is_local for one in sources)
        self._last: MicroBatch | None = None

    def begin(self, batch: MicroBatch) -> MicroBatch:
        """The micro-batch with the last commits that it has read.

        Raises:
            CheckpointMismatchError: A source has lost the commit with which the micro-batch before ended.
        """
        if not self._sources:
            return batch
        if self._last is not None and self._is_local:
            refuse_other_history(self._query, self._last.positions, self._last.source_commits, self._sources)
        return replace(batch, source_commits=last_commits(batch.positions, self._sources))

    def end(self, batch: MicroBatch) -> None:
        """Call it after the micro-batch was written."""
        self._last = batch
        if self._note is not None and self._sources:
            self._note.write(batch.positions, batch.source_commits)


def _created_ms(path: str) -> int | None:
    return StorageFolder(f"{path}/_delta_log").modified_ms(f"{0:020}.json")
