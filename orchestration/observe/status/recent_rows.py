"""Counts what became of the rows that silver has read in the last minutes, from its commits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.delta.commit import Commit
from common.delta.log import LogReader

WINDOW_SECONDS = 900.0
"""The last minutes that are counted."""

_COMMITS = 2_000
_READ = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late")


@dataclass(frozen=True, slots=True)
class RecentRows:
    """Rows of the micro-batches that silver has committed in the last ``seconds``."""

    read: int  # all rows that the micro-batches read, without other tables' records
    quarantined: int  # those that went to quarantine
    seconds: float  # the length of time that is counted: 15 minutes, less if 2,000 commits took less

    @property
    def share(self) -> float:
        """The share of rows that went to quarantine, from 0 to 1; 0 if no row was read."""
        return self.quarantined / self.read if self.read else 0.0


class RecentCounter:
    """Counts the recent rows of one silver table repeatedly; a call reads only new commits."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._table_id = ""
        self._counted = deque[tuple[datetime, int, int]]()

    def count(self, log: LogReader, version: int, table_id: str, at: datetime) -> RecentRows:
        """The rows of the last minutes before a time, up to a version of the table."""
        if self._next is None or table_id != self._table_id or version < self._next - 1:
            self._counted.clear()
            self._table_id, self._next = table_id, self._first(log, version, at)
        for number in range(max(self._next, version + 1 - _COMMITS), version + 1):
            commit = log.commit(number)
            if commit is not None and (counts := _counts(commit)) is not None:
                self._counted.append((commit.timestamp, *counts))
        self._next = version + 1
        begin = at - timedelta(seconds=WINDOW_SECONDS)
        while self._counted and (self._counted[0][0] < begin or len(self._counted) > _COMMITS):
            self._counted.popleft()
        is_full = len(self._counted) == _COMMITS
        length = (at - self._counted[0][0]).total_seconds() if is_full else WINDOW_SECONDS
        read = sum(read for _, read, _ in self._counted)
        return RecentRows(read, sum(rejected for *_, rejected in self._counted), length)

    @staticmethod
    def _first(log: LogReader, version: int, at: datetime) -> int:
        """The oldest version whose commit is recent; of an idle table it is the newest."""
        begin = at - timedelta(seconds=WINDOW_SECONDS)
        oldest = max(0, version + 1 - _COMMITS)
        for number in range(version, oldest - 1, -1):
            commit = log.commit(number)
            if commit is None or commit.timestamp < begin:
                return number + 1
        return oldest


def _counts(commit: Commit) -> tuple[int, int] | None:
    """Rows read and quarantined by a micro-batch; None for a commit that counts no rows."""
    metadata = commit.metadata
    counts = metadata.get("counts")
    if not isinstance(counts, dict) or metadata.get("step") != "accepted":
        return None
    found = {name: counts[name] for name in _READ if isinstance(counts.get(name), int)}
    return sum(found.values()), found.get("quarantined", 0)
