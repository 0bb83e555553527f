"""Refuses commits of other programs in a table that a stream reads.

A commit is the engine's own if its metadata names the query that writes the table, or the kind of an
operation outside of micro-batches (``common.delta.table.BY``). A stream takes the rows of any other append
for events, although the table may have them already. A stream that skips changes of rows never reads what
another program changed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from common.delta.checkpoint import Checkpoint, delta_position
from common.delta.commit import RESTORE, Commit
from common.delta.log import LogReader
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


@dataclass
class CommitWatch:
    """Checks each commit of a table once, from the position that the reading query has read to.

    Attributes:
        reader: The table whose query reads, for messages.
        table: The table that is read.
        path: Its path.
        writer: The query that writes it.
        checkpoint: The checkpoint of the reading query.
        setting: The setting that accepts commits by name.
        accepted: Commits that the operator has accepted, as ``bronze.orders@17``.
        source: Place of the table among the query's sources.
        begins: The first commit that the query reads; a load from a snapshot has the ones before.
        follows_changes: Whether changes of rows by others are followed, or left out on purpose.
        most_past: Most commits that are checked at the query's first start; None: all from ``begins`` on.
    """

    reader: str
    table: str
    path: str
    writer: str
    checkpoint: str
    setting: str
    accepted: Collection[str]
    source: int = 0
    begins: int = 0
    follows_changes: bool = False
    most_past: int | None = None
    _next: int = field(init=False)

    def __post_init__(self) -> None:
        done = Checkpoint(self.checkpoint)
        entry = done.planned_batch(done.last_committed())
        position = None if entry is None else delta_position(entry, self.source)
        if position is not None:
            # Of a table's first state, all commits up to its version were checked when it was begun.
            self._next = position.version
        else:
            log = LogReader(self.path)
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
        if commit.is_change or (self.follows_changes and commit.operation == RESTORE):
            if not self.follows_changes and commit.metadata.get("by") not in OWN_CHANGES:
                raise ForeignChangeError(self._change_refused(commit, named))
        elif commit.added and not is_own(commit, self.writer):
            raise ForeignChangeError(self._append_refused(commit, named))

    def _change_refused(self, commit: Commit, named: str) -> str:
        layer = self.reader.partition(".")[0]
        return (
            f"{self._named(commit)} changed rows, and is no erasure or repair by this engine. {self.reader} "
            f"reads no such commit: rows it wrote are not in {layer}, rows it deleted stay in {layer}. See "
            "what it did (DESCRIBE HISTORY), append what is missing, and go on with the setting "
            f"{self.setting}='[\"{named}\"]'."
        )

    def _append_refused(self, commit: Commit, named: str) -> str:
        rows = "rows" if commit.rows is None else f"{commit.rows:,} rows"
        return (
            f"{self._named(commit)} appended {rows}, and {self.writer} has not written it. {self.reader} "
            f"would take these rows for new events, also where {self.table} has them already. See what it "
            "did (DESCRIBE HISTORY). To have its rows read as they are, go on with the setting "
            f"{self.setting}='[\"{named}\"]'."
        )

    def _named(self, commit: Commit) -> str:
        who = ", ".join(text for text in (commit.user, commit.engine, commit.user_metadata) if text)
        return (
            f"{self.table}: version {commit.version} ({commit.operation or 'no operation named'}, "
            f"{commit.timestamp:%Y-%m-%d %H:%M:%S} UTC, by {who or 'an unnamed writer'})"
        )
