"""Follows records from Kafka to each table by the positions in commits and checkpoints.

A table's position in its source is a version; the commits of that source name their own positions; and so on
back to bronze, whose files have the Kafka timestamps of their rows in the statistics. So no row is read.

A query that has read nothing of a source with rows, or has not finished the source's first state, lacks the
oldest record. One whose source is empty lacks what its source lacks: nothing, if the topic is idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from common.declare import Bronze, Table
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position, delta_position_of
from common.delta.log import LogReader
from common.errors import TableError
from orchestration.access.declaration.lineage import sources
from orchestration.observe.status.model import Freshness

TIMESTAMP = "kafka_timestamp"
"""Bronze's column with Kafka's timestamp; its statistics are read from the log."""

_SEARCHED = 200
"""Commits that are searched for the positions of a micro-batch."""

_COMMITS = 20
"""Commits with data whose bounds are compared: partitions arrive nearly, not exactly, in order of time."""

UNKNOWN = Freshness(None, None, is_known=False)


class RecordTrail:
    """Finds which part of bronze has reached a table.

    Args:
        checkpoint: The checkpoint of the query that writes a table.
    """

    def __init__(
        self,
        declared: Iterable[Table],
        log: Callable[[str], LogReader],
        checkpoint: Callable[[str], Checkpoint],
    ) -> None:
        self._reads = {
            name: (table.table, "" if isinstance(table, Bronze) else next(iter(sources(table)), ""))
            for table in declared
            for name in (table.table, *table.side_tables)
        }
        self._log, self._checkpoint = log, checkpoint

    def freshness(self, table: str, unread_since: datetime | None, *, is_unread_known: bool) -> Freshness:
        """The freshness of a table.

        Args:
            unread_since: Kafka timestamp of the oldest record that bronze has not read; None if there is
                none.
        """
        try:
            reached = self._reached(table)
            if reached is None:
                return UNKNOWN
            bronze, version = reached
            log = self._log(bronze)
            newest = _newest(log, version)
            waiting = _oldest(log, version)
        except TableError:
            return UNKNOWN
        if waiting is not None:
            return Freshness(newest, waiting, is_known=True)
        return Freshness(newest, unread_since, is_known=is_unread_known)

    def bronze_of(self, table: str) -> str:
        """The bronze table that the records of a table come from; of a join, those of its first source."""
        query, source = self._reads[table]
        return self.bronze_of(source) if source else query

    def _reached(self, table: str) -> tuple[str, int] | None:
        """The bronze table, and the version below which the table has all of it; None if not known."""
        query, source = self._reads[table]
        if not source:
            latest = self._log(table).latest_version()
            return table, 0 if latest is None else latest + 1
        checkpoint = self._checkpoint(query)
        batch = checkpoint.last_committed()
        entry = checkpoint.planned_batch(batch)
        if entry is None and batch is not None:
            return None
        return self._back(source, None if entry is None else delta_position(entry))

    def _back(self, table: str, position: DeltaPosition | None) -> tuple[str, int] | None:
        """What a reader of ``table`` at a position has of bronze."""
        if position is None or position.in_snapshot:
            # It has read nothing yet, or reads the first state, in an order of its own.
            if self._log(table).backlog(position).files:
                return self.bronze_of(table), 0
            return self._reached(table)
        _, source = self._reads[table]
        passed = _passed(self._log(table), position)
        if not source:
            return table, passed
        latest = self._log(table).latest_version()
        if latest is not None and passed > latest:
            return self._reached(table)
        return self._by_commits(table, passed)

    def _by_commits(self, table: str, passed: int) -> tuple[str, int] | None:
        """What a reader has of bronze that has passed the commits of ``table`` below a version."""
        query, source = self._reads[table]
        for version in range(passed - 1, passed - 1 - _SEARCHED, -1):
            if version < 0:
                return self.bronze_of(table), 0  # no commit before it brought rows of bronze
            commit = self._log(table).commit(version)
            if commit is None:
                return None
            metadata = commit.metadata
            if metadata.get("query") == query and isinstance(metadata.get("positions"), list):
                return self._back(source, delta_position_of(metadata["positions"]))
        return None


def _passed(log: LogReader, position: DeltaPosition) -> int:
    """The version below which a reader has read everything.

    A position after the last file of a version has two forms: the next version, or that file's index.
    """
    commit = log.commit(position.version) if position.index >= 0 else None
    is_whole = commit is not None and (commit.is_change or position.index + 1 >= len(commit.added))
    return position.version + 1 if is_whole else position.version


def _newest(log: LogReader, version: int) -> datetime | None:
    """The newest Kafka timestamp below a version."""
    found: list[datetime] = []
    for number in range(version - 1, max(-1, version - 1 - _SEARCHED), -1):
        commit = log.commit(number)
        if commit is None or len(found) >= _COMMITS:
            break
        found += [_time(file.bounds[1]) for file in commit.added if file.bounds]
    return max(found, default=None)


def _oldest(log: LogReader, version: int) -> datetime | None:
    """The oldest Kafka timestamp from a version on; of unread commits the first ones are the oldest."""
    found: list[datetime] = []
    for commit in log.commits(version or log.oldest_version() or 0):
        found += [_time(file.bounds[0]) for file in commit.added if file.bounds]
        if len(found) >= _COMMITS:
            break
    return min(found, default=None)


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
