"""Counts what streams have not read of one table, again and again.

A reader that was stopped for days has a hundred thousand commits before it. Each commit is read once and goes
into running sums, so that a look costs the commits since the last look, whatever the backlog, and no commit
stays in memory for it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime

from common.delta.checkpoint import DeltaPosition
from common.delta.commit import Commit, DataFile
from common.delta.log import Backlog, LogReader

_TRIMMED = 10_000
"""Sums below the oldest reader that are kept before they are released."""

_IN_MEMORY = 1_000
"""Commits that stay in memory while a long backlog is summed."""

_NOTHING = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class UnreadCommits:
    """What a stream has not read of a table."""

    backlog: Backlog  # commits, files, bytes and rows
    begin: int  # the version at which the unread part begins
    oldest_at: datetime | None = None  # time of the oldest unread commit with data; None if nothing is unread
    # Time of the oldest unread commit that removed files, such as a compaction; None if none.
    removed_at: datetime | None = None
    listed: int = 0  # files of the commits that no earlier look of this reader has counted
    end: int | None = None  # the version up to which is counted; None where there is no table


class UnreadCounter:
    """Counts for the readers of one table."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._generation = -1
        self._base = 0
        self._sums: tuple[array[int], ...] = ()
        self._removals: list[tuple[int, datetime]] = []
        self._looked: dict[str, tuple[int, int]] = {}

    def count(self, position: DeltaPosition | None, reader: str = "") -> UnreadCommits:
        """What a stream at a position has not read.

        Args:
            position: Where the stream is; None before its first micro-batch.

        Raises:
            HistoryGoneError: The log's cleanup has deleted commits that the stream has not read.
            TableError: A file of the log is damaged.
        """
        latest = self._log.latest_version()
        if latest is None:
            return UnreadCommits(Backlog(), 0)
        if position is None:
            begin = self._log.oldest_version() or 0
        else:
            begin = position.version + position.in_snapshot
        if begin <= latest:
            self._log.require(begin)
            self._extend(begin, latest)
        listed = self._listed(reader, begin, latest)
        is_summed = position is not None and not position.in_snapshot
        left = self._since(begin, position) if is_summed else self._log.backlog(position)
        if not left.files:
            return UnreadCommits(left, begin, listed=listed, end=latest)
        return UnreadCommits(left, begin, self._oldest(begin), self._removed(begin), listed, latest)

    def forget_before(self, version: int) -> None:
        """Release the sums that no reader at or above a version needs."""
        surplus = version - self._base
        if surplus >= _TRIMMED and self._sums and surplus < len(self._sums[0]):
            self._sums = tuple(column[surplus:] for column in self._sums)
            self._removals = [each for each in self._removals if each[0] >= version]
            self._base = version

    def _extend(self, begin: int, latest: int) -> None:
        """Sum the commits that are not summed yet; the first sum is of nothing, before ``_base``."""
        next_version = self._base + len(self._sums[0]) - 1 if self._sums else -1
        if self._generation != self._log.generation or not self._base <= begin <= next_version:
            self._generation, self._base, next_version = self._log.generation, begin, begin
            self._sums = tuple(array("q", [0]) for _ in _NOTHING)
            self._removals = []
        if next_version > latest:
            return
        for commit in self._log.commits(next_version, latest):
            for column, more in zip(self._sums, _numbers(Backlog() + _read_files(commit)), strict=True):
                column.append(column[-1] + more)
            if commit.removed_files:
                self._removals.append((commit.version, commit.timestamp))
            if commit.version % _IN_MEMORY == 0:
                self._log.forget_before(commit.version - _IN_MEMORY)

    def _listed(self, reader: str, begin: int, latest: int) -> int:
        """The files of the commits that the reader's last look did not see."""
        generation, seen = self._looked.get(reader, (-1, -1))
        self._looked[reader] = (self._log.generation, latest)
        first = max(begin, seen + 1) if generation == self._log.generation else begin
        return self._grown(first).files if first <= latest else 0

    def _since(self, begin: int, position: DeltaPosition | None) -> Backlog:
        """Unread rows since a version, without the files of that commit that the stream has already read."""
        skip = 0 if position is None else max(0, position.index + 1)
        first = self._log.commit(begin) if skip else None
        if first is None:
            return self._grown(begin)
        return _together(self._grown(begin + 1), Backlog() + _read_files(first)[skip:])

    def _grown(self, version: int) -> Backlog:
        """The sums from a version on."""
        place = version - self._base
        if not self._sums or place >= len(self._sums[0]):
            return Backlog()
        versions, files, size, rows, unknown = (column[-1] - column[place] for column in self._sums)
        return Backlog(versions, files, size, None if unknown else rows)

    def _oldest(self, begin: int) -> datetime | None:
        """The time of the first commit with data from a version on."""
        if not self._sums:  # only files of a first state are unread, and no commit after it
            return None
        versions, place = self._sums[0], begin - self._base
        if place >= len(versions):
            return None
        found = bisect_right(versions, versions[place], lo=place)
        commit = self._log.commit(self._base + found - 1) if found < len(versions) else None
        return None if commit is None else commit.timestamp

    def _removed(self, begin: int) -> datetime | None:
        place = bisect_left(self._removals, begin, key=lambda each: each[0])
        return self._removals[place][1] if place < len(self._removals) else None


def _read_files(commit: Commit) -> tuple[DataFile, ...]:
    """The files of a commit that a stream reads."""
    return () if commit.is_change else commit.added


def _numbers(found: Backlog) -> tuple[int, ...]:
    return found.versions, found.files, found.bytes, found.rows or 0, int(found.rows is None)


def _together(one: Backlog, other: Backlog) -> Backlog:
    rows = None if one.rows is None or other.rows is None else one.rows + other.rows
    return Backlog(one.versions + other.versions, one.files + other.files, one.bytes + other.bytes, rows)
