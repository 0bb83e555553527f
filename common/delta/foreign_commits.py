"""Refuses commits of other programs in a table that a stream reads.

A commit is the engine's own if its metadata names the query that writes the table, or the kind of an
operation outside of micro-batches (``common.delta.table.BY``). A stream takes the rows of any other append
for events, although the table may have them already. A stream that skips changes of rows never reads what
another program changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from common.delta.checkpoint import Checkpoint, delta_position
from common.delta.commit import RESTORE, Commit
from common.delta.log import LogReader
from common.delta.match.batch_match import REBUILT
from common.delta.micro_batch import MicroBatch
from common.delta.table import BY
from common.errors import ForeignChangeError

OWN_CHANGES = ("erasure", "repair", "retention")
"""Kinds of the engine's own commits that remove rows (``by`` in their metadata)."""

_PART = 1_000
"""Commits that are in memory together."""


def is_own(commit: Commit, writer: str) -> bool:
    """Whether the engine has written a commit: the query that writes the table, or an operation beside it."""
    metadata = commit.metadata
    return (metadata.get("query") == writer and "query_id" in metadata) or metadata.get("by") in BY


def brings_rows_back(commit: Commit) -> bool:
    """Whether a commit is a RESTORE that a reader of appends reads: it only adds files."""
    return commit.operation == RESTORE and bool(commit.added) and not commit.is_change


def reads_appends(changes: str | None, path: str, *, takes_rows_back: bool) -> bool:
    """Whether a query reads what is added to a table, and not the table's change data feed.

    Args:
        changes: What its declaration says: ``appends``, ``feed``, or nothing.
        takes_rows_back: Whether its kind follows removed rows.
    """
    if changes == "appends" or not takes_rows_back:
        return True
    return LogReader(path).properties().get("delta.enableChangeDataFeed") != "true"


@dataclass
class CommitWatch:
    """Checks each commit of a table once, from the position that the reading query has read to."""

    reader: str  # the table whose query reads, for messages
    table: str  # the table that is read
    path: str
    writer: str  # the query that writes it
    checkpoint: str  # the checkpoint of the reading query
    setting: str  # the setting that accepts commits by name
    accepted: Collection[str]  # commits that the operator has accepted, as ``bronze.orders@17``
    source: int = 0  # place of the table among the query's sources
    begins: int = 0  # the first commit that the query reads; a load from a snapshot has the ones before
    follows_changes: bool = False  # whether changes of rows by others are followed, or left out on purpose
    # Most commits that are checked at the query's first start; None: all from ``begins`` on.
    most_past: int | None = None
    # Whether the query takes the rows that a RESTORE brings back for new ones; asked where there is a
    # RESTORE.
    reads_appends: Callable[[], bool] = lambda: False
    begins_with_state: bool = False  # whether a first start reads the table as it is, and no former commit
    # Whether a rebuild of the table has the query filled again where it cannot follow.
    outlives_rebuilds: bool = False
    refill: str = ""  # the checkpoint of a writer that is rebuilt by beginning anew; empty: it is not
    takes_appends: bool = False  # whether the table is declared to have rows that other programs append
    _past: int = field(init=False, default=-1)
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        done = Checkpoint(self.checkpoint)
        entry = done.planned_batch(done.last_committed())
        position = None if entry is None else delta_position(entry, self.source)
        if position is not None:
            # Of a table's first state, all commits up to its version were checked when it was begun.
            self._next = position.version
            self._past = position.version if position.in_snapshot else -1
        else:
            log = LogReader(self.path)
            self._past = (log.latest_version() or 0) if self.begins_with_state else -1
            self._next = max(self.begins, log.oldest_version() or 0)
            if self.most_past is not None:
                self._next = max(self._next, (log.latest_version() or 0) - self.most_past)

    def look(self) -> None:
        """Check all commits up to the table's newest.

        Raises:
            ForeignChangeError: Another program has written one.
        """
        latest = LogReader(self.path).latest_version()
        if latest is not None:
            self._look_to(latest)

    def look_at(self, batch: MicroBatch) -> None:
        """Check the commits that a micro-batch covers, but those that were checked before.

        Raises:
            ForeignChangeError: Another program has written one.
        """
        position = batch.end(self.source)
        if position is not None:
            self._look_to(position.version if position.index >= 0 else position.version - 1)

    def _look_to(self, last: int) -> None:
        log, first = LogReader(self.path), self._next
        for version in range(first, last + 1):
            if (version - first) % _PART == 0:
                log = LogReader(self.path)  # a reader keeps all commits that it has read
            commit = log.commit(version)
            # A missing commit was cleaned up long after it was read; the last one may not be written yet.
            if commit is not None:
                self._judge(commit)
                self._next = version + 1

    def _judge(self, commit: Commit) -> None:
        named = f"{self.table}@{commit.version}"
        if named in self.accepted:
            return
        is_unread = commit.version > self._past
        if is_unread and brings_rows_back(commit) and (not self.follows_changes or self.reads_appends()):
            raise ForeignChangeError(self._restore_refused(commit))
        if commit.is_change or (self.follows_changes and commit.operation == RESTORE):
            if not self.follows_changes and commit.metadata.get("by") not in OWN_CHANGES:
                raise ForeignChangeError(self._change_refused(commit, named))
        elif commit.added and not self._may_append(commit) and not self._is_made_good(commit):
            raise ForeignChangeError(self._append_refused(commit, named))

    def _may_append(self, commit: Commit) -> bool:
        return self.takes_appends or is_own(commit, self.writer)

    def _is_made_good(self, commit: Commit) -> bool:
        """Whether a rebuild has taken a commit's rows away since, or will at this start, and the query has
        none of them.

        One that follows changes reads how they go; one that does not begins after the rebuild.
        """
        if not self.outlives_rebuilds or (commit.version > self._past and self.reads_appends()):
            return False
        later = (one.metadata for one in LogReader(self.path).commits(commit.version + 1))
        if self.refill:
            # Its first micro-batch replaces all rows; the next one is the first if none is committed.
            anew = (one.get("query") == self.writer and one.get("batch_id") == 0 for one in later)
            return Checkpoint(self.refill).last_committed() is None or any(anew)
        return any(REBUILT in one for one in later)

    def _change_refused(self, commit: Commit, named: str) -> str:
        layer = self.reader.partition(".")[0]
        return (
            f"{self._named(commit)} changed rows, and is no erasure or repair by this engine. {self.reader} "
            f"reads no such commit: rows it wrote are not in {layer}, rows it deleted stay in {layer}. See "
            "what it did (DESCRIBE HISTORY), append what is missing, and go on with the setting "
            f"{self.setting}='[\"{named}\"]'."
        )

    def _restore_refused(self, commit: Commit) -> str:
        return (
            f"{self._named(commit)} brings back rows of an older version. {self.reader} reads what is added, "
            "and would take these rows for new ones, also where it has read them before. Nothing was "
            f"written. Have it filled again: medallion recover {self.reader}"
        )

    def _append_refused(self, commit: Commit, named: str) -> str:
        rows = "rows" if commit.rows is None else f"{commit.rows:,} rows"
        is_mended = self.outlives_rebuilds and (self.writer.startswith("silver.") or self.refill)
        away = f"To have them taken away again: medallion rebuild {self.writer}. " if is_mended else ""
        return (
            f"{self._named(commit)} appended {rows}, and {self.writer} has not written it. {self.reader} "
            f"would take these rows for new events, also where {self.table} has them already. See what it "
            f"did (DESCRIBE HISTORY). {away}To have its rows read as they are, go on with the setting "
            f"{self.setting}='[\"{named}\"]'."
        )

    def _named(self, commit: Commit) -> str:
        who = ", ".join(text for text in (commit.user, commit.engine, commit.user_metadata) if text)
        return (
            f"{self.table}: version {commit.version} ({commit.operation or 'no operation named'}, "
            f"{commit.timestamp:%Y-%m-%d %H:%M:%S} UTC, by {who or 'an unnamed writer'})"
        )
