"""Notices between two micro-batches that a table of the query was deleted, set back or restored.

Delta would create a deleted table again, with the rows of one micro-batch, and write on after an older copy
or a RESTORE: the rows in between would be gone, and the checkpoint would count them as written. A look costs
a few calls of ``stat`` on a local disk, and reads one commit. Tables in an object store are looked at when
the query begins only.

The first micro-batch of a query may come hours after its start. So a watch begins with the state that the
checks of the start have judged, and not with what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

from common.delta.checkpoint import Checkpoint
from common.delta.commit import RESTORE
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.source_match import (
    Source,
    SourceNote,
    commit_digest,
    last_commits,
    refuse_other_history,
)
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError
from common.machine.console import say
from common.machine.storage_folder import StorageFolder


class TableState(NamedTuple):
    """The newest version of a table, and the digest of its commit; None where there is no table."""

    version: int | None
    sha256: str | None


class ReadUpTo(NamedTuple):
    """How far a query has read its sources, and the last commit that it has read of each."""

    positions: Sequence[Any] = ()
    commits: Sequence[Any] = ()


class NextBatch(NamedTuple):
    """The micro-batch that a checkpoint runs next."""

    number: int  # its number
    before: tuple[Any, ...]  # the positions at the end of the one before
    positions: tuple[Any, ...] | None = None  # those at its own end, if it is planned already


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the checks of a query's start have judged: its watches begin there."""

    # The state of each table that the query writes, by path; those on a local disk.
    tables: Mapping[str, TableState] = field(default_factory=dict)
    # What it has read of its sources, as far as its tables or its checkpoint say.
    read: ReadUpTo = field(default_factory=ReadUpTo)
    # The micro-batch that the checkpoint runs next; None where that is not known.
    follows: NextBatch | None = None

    @classmethod
    def of(cls, paths: Iterable[str], checkpoint: str) -> Beginning:
        """Tables and checkpoint of a query, as they are now; to be taken before they are judged."""
        tables = {path: _state(path, LogReader(path)) for path in paths if StorageFolder(path).is_local}
        return cls(tables, follows=_next_batch(Checkpoint(checkpoint)))


class PlaceWatch:
    """Refuses a micro-batch that does not follow the one before: the checkpoint was put back meanwhile.

    Spark reads a checkpoint once, when the query starts, which is after it was judged; the numbers and the
    positions of an older copy would have rows written a second time.

    Args:
        checkpoint: Its checkpoint, for messages.
        beginning: What its start has judged; None: nothing is known before the first micro-batch.
    """

    def __init__(self, query: str, checkpoint: str, beginning: Beginning | None = None) -> None:
        self._query, self._checkpoint = query, checkpoint
        self._next = beginning.follows if beginning is not None else None

    def check(self, batch: MicroBatch) -> None:
        """Refuse a micro-batch that is not the next one.

        Raises:
            CheckpointMismatchError: Nothing of it is written.
        """
        wanted = self._next
        if wanted is None:
            return
        is_own = batch.batch_id == wanted.number and (not wanted.number or batch.before == wanted.before)
        if is_own and (wanted.positions is None or batch.positions == wanted.positions):
            return
        what = f"does not follow what was read before, and micro-batch {wanted.number} does"
        if batch.batch_id == wanted.number:
            what = "has other positions than follow what was read before"
        raise CheckpointMismatchError(
            f"{self._query}: micro-batch {batch.batch_id} of the checkpoint {self._checkpoint} {what}: an "
            "older copy of the checkpoint was put back while the query was running or starting. Going on "
            "would write rows twice or leave them out. Nothing was written. Restore the newest copy of the "
            "checkpoint, and start the job again: the start names what is left to do."
        )

    def end(self, batch: MicroBatch) -> None:
        """Call it after the micro-batch was written."""
        self._next = NextBatch(batch.batch_id + 1, batch.positions)


class TableWatch:
    """Compares each table of a query, around its micro-batches, with what it was after the last one.

    Args:
        paths: The tables that it writes, its own first: that one gets a commit of each micro-batch.
        beginning: What its start has judged; None: the tables are taken as they are at the first look.
    """

    def __init__(self, query: str, paths: Sequence[str], beginning: Beginning | None = None) -> None:
        self._query, self._own = query, next(iter(paths), "")
        self._logs = {path: LogReader(path) for path in paths if StorageFolder(path).is_local}
        self._known = dict(beginning.tables) if beginning is not None else {}

    def check(self, written: MicroBatch | None = None) -> None:
        """Refuse to go on where a table is not what it was after the micro-batch before.

        What a look after a micro-batch has compared is what the next look compares with: a copy that is put
        back behind it is no beginning.

        Args:
            written: The micro-batch that has written its rows: the query's own table must have it, and its
                commits may follow a RESTORE that came after the look before it. None: before a micro-batch.

        Raises:
            CheckpointMismatchError: Names the table and what became of it; nothing is written, or the
                micro-batch does not count as done.
        """
        for path, log in self._logs.items():
            now, known = _state(path, log), self._known.get(path)
            # A table that was not there when the query began was created by it.
            if known is not None and known.version is not None:
                self._compare(path, known.version, known.sha256, now, is_written=written is not None)
            if written is not None or known is None:
                self._known[path] = now
        if written is not None and self._own in self._logs:
            last = last_commit_metadata(self._own, self._query) or {}
            if (last.get("query_id"), last.get("batch_id")) != (written.query_id, written.batch_id):
                what = f"has no commit of micro-batch {written.batch_id}, which was written there: an older"
                self._refuse(self._own, f"{what} copy of it was restored")

    def _compare(
        self, path: str, version: int, sha256: str | None, now: TableState, *, is_written: bool
    ) -> None:
        if now.version is None:
            self._refuse(path, "was deleted")
        if now.version < version:
            self._refuse(
                path,
                f"ends with version {now.version}, and ended with version {version} after the last "
                "micro-batch: an older copy of it was restored",
            )
        found = now.sha256 if now.version == version else commit_digest(path, version)
        if found is None:
            self._say_not_compared(path, version)
        elif found != sha256:
            self._refuse(path, "was replaced by another one or by a copy")
        self._refuse_restore(path, version, now.version, is_written=is_written)

    def _refuse_restore(self, path: str, version: int, now: int, *, is_written: bool) -> None:
        log = LogReader(path)
        # A RESTORE back would bring rows twice to what reads appends, and take away what was written since.
        must_refill = is_written or self._query.startswith("silver.")
        for number in range(version + 1, now + 1):
            commit = log.commit(number)
            if commit is not None and commit.operation == RESTORE:
                back = commit.restored_to
                if back is None or back < version:
                    back_again = f"RESTORE it to version {number - 1}"
                    self._refuse(
                        path,
                        f"was restored to an older version by version {number}",
                        back_again
                        if self._query.startswith("bronze.") or not must_refill
                        else f"Have it filled again: medallion recover {self._query}",
                    )

    def _refuse(self, path: str, what: str, remedy: str = "Restore its newest copy") -> NoReturn:
        raise CheckpointMismatchError(
            f"{self._query}: the table at {path} {what}, while the query was running. Going on would leave "
            f"out the rows in between. The micro-batch does not count as done. {remedy}, and start the job "
            "again: the start names what is left to do."
        )

    def _say_not_compared(self, path: str, version: int) -> None:
        """The log's cleanup has deleted the commit that was the newest: only what follows is looked at."""
        say(
            f"{self._query}: commit {version} of the table at {path} is gone from its log, so that the table "
            "was not compared with what it was after the last micro-batch",
            level="warning",
        )


class SourceWatch:
    """Notes in each micro-batch what it has read of its sources, and refuses to read on in another history.

    Args:
        sources: The tables that it reads as streams, in the order of its checkpoint.
        note: Where to note it, if the query writes no table whose commits could.
        beginning: What its start has judged; None: nothing is compared before the second micro-batch.
    """

    def __init__(
        self,
        query: str,
        sources: Sequence[Source],
        note: SourceNote | None,
        beginning: Beginning | None = None,
    ) -> None:
        self._query, self._sources, self._note = query, sources, note
        self._is_local = all(StorageFolder(one.path).is_local for one in sources)
        self._read = beginning.read if beginning is not None else ReadUpTo()

    def begin(self, batch: MicroBatch) -> MicroBatch:
        """The micro-batch with the last commits that it has read.

        Raises:
            CheckpointMismatchError: A source has lost the commit with which the micro-batch before ended.
        """
        if not self._sources:
            return batch
        if self._is_local:
            refuse_other_history(self._query, *self._read, self._sources)
        return replace(batch, source_commits=last_commits(batch.positions, self._sources))

    def end(self, batch: MicroBatch) -> None:
        """Call it after the micro-batch was written."""
        self._read = ReadUpTo(batch.positions, batch.source_commits)
        if self._note is not None and self._sources:
            self._note.write(batch.positions, batch.source_commits)


def _next_batch(checkpoint: Checkpoint) -> NextBatch | None:
    planned, committed = checkpoint.last_planned(), checkpoint.last_committed()
    if planned is None:
        return NextBatch(0, ())
    entry = checkpoint.planned_batch(planned)
    if entry is None:
        return None  # refused by the checks
    if planned == committed:
        return NextBatch(planned + 1, entry.sources)
    before = checkpoint.planned_batch(planned - 1)
    return NextBatch(planned, before.sources if before is not None else (), entry.sources)


def _state(path: str, log: LogReader) -> TableState:
    version = log.latest_version()
    return TableState(version, None if version is None else commit_digest(path, version))
