"""Counts late rows, and other tables' records, from the metadata of a table's newest commits; without Spark.

Silver's commits count the rows at or before the watermark. Commits of a gold table with a watermark count
what Spark's stateful operators have dropped: rows of a join, but groups of an aggregate, because Spark groups
the rows of a micro-batch before it compares them with the watermark.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from common.declare import Aggregate, Join, Silver
from common.delta.commit import Commit
from common.delta.log import LogReader

COMMITS = 2_000
"""Commits that are counted at most: a status must not read the whole log of a table."""

MANY = 0.01
"""Share of late rows from which on a table is marked."""

_READ = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late", "empty")
"""Counts of a silver commit whose sum is the number of the table's own records that its micro-batch read."""


@dataclass(frozen=True, slots=True)
class Late:
    """Late rows of a table, in its newest commits."""

    unit: Literal["rows", "groups"]  # ``rows``, or ``groups`` for an aggregate
    count: int  # rows at or before the watermark
    # Late rows that the table does not have: dropped by gold's watermark, or set aside by silver under
    # ``late="keep"``. Under ``late="merge"`` silver has the key of every late row.
    left_out: int
    # All rows that the same micro-batches read, without other tables' records, or all groups that they
    # touched; None for a join, whose commits do not count the rows that it read.
    of: int | None
    since: datetime | None  # time of the oldest counted commit; None if every commit of the table is counted
    # Late rows or groups of the time before 1970, where Spark's watermark begins: a gold table with a
    # watermark leaves them out in whatever order they come.
    before_1970: int = 0

    @property
    def is_many(self) -> bool:
        """Whether so many rows are late that the watermark, or a clock, is probably wrong."""
        return self.count > 0 and (self.of is None or self.count >= MANY * self.of)


@dataclass(frozen=True, slots=True)
class OtherRecords:
    """Records that a silver table's condition ``where`` leaves to other tables, in its newest commits."""

    count: int  # records for which the condition is not true
    of: int  # all records that the same micro-batches read
    since: datetime | None  # time of the oldest counted commit; None if every commit of the table is counted


class LateCounter:
    """Counts the late rows of one table repeatedly; a call reads only the commits since the call before."""

    def __init__(self, declared: Silver | Aggregate | Join) -> None:
        self._declared = declared
        self._next: int | None = None
        self._table_id = ""
        self._counted = deque[tuple[datetime, Counter[str]]]()
        self._is_whole = True

    def count(self, log: LogReader, version: int, table_id: str) -> Late:
        """The late rows of the newest commits, up to a version of the table."""
        self._read(log, version, table_id)
        return self._sum()

    def count_other(self, log: LogReader, version: int, table_id: str) -> OtherRecords:
        """Other tables' records in the newest commits of a silver table, up to a version of it."""
        self._read(log, version, table_id)
        total, since = self._total()
        return OtherRecords(total["other"], total["other"] + sum(total[name] for name in _READ), since)

    def _read(self, log: LogReader, version: int, table_id: str) -> None:
        oldest = max(0, version + 1 - COMMITS)
        # A reader that was away for days begins again, and does not read commits that it would not keep.
        is_other = self._next is None or table_id != self._table_id or version < self._next - 1
        if self._next is None or is_other or self._next < oldest:
            self._counted.clear()
            self._table_id, self._next = table_id, oldest
            self._is_whole = self._next == 0
        for number in range(self._next, version + 1):
            commit = log.commit(number)
            if commit is None:
                self._is_whole = False  # the log's cleanup has deleted it
            elif counts := _counts(commit, is_silver=isinstance(self._declared, Silver)):
                self._counted.append((commit.timestamp, counts))
        self._next = version + 1
        while len(self._counted) > COMMITS:
            self._counted.popleft()
            self._is_whole = False

    def _total(self) -> tuple[Counter[str], datetime | None]:
        """The sums of all counts, and the time since when."""
        total = Counter[str]()
        for _, counts in self._counted:
            total.update(counts)
        return total, None if self._is_whole or not self._counted else self._counted[0][0]

    def _sum(self) -> Late:
        total, since = self._total()
        late = total["late"]
        if isinstance(self._declared, Silver):
            left_out = late if self._declared.late == "keep" else 0
            return Late("rows", late, left_out, sum(total[name] for name in _READ), since)
        early = total["before_1970"]
        if isinstance(self._declared, Aggregate):
            return Late("groups", late, late, late + total["groups"], since, early)
        return Late("rows", late, late, None, since, early)


def counts_late_rows(declared: Silver | Aggregate | Join) -> bool:
    """Whether the commits of a table count late rows; for any other table no row is late."""
    if isinstance(declared, Silver):
        return declared.dedupe != "exact"
    if isinstance(declared, Aggregate):
        return declared.watermark is not None and declared.mode != "recompute"
    return declared.within is not None


def _counts(commit: Commit, *, is_silver: bool) -> Counter[str]:
    """The counts of a micro-batch; empty for a commit that counts no late rows."""
    metadata = commit.metadata
    counts = metadata.get("counts")
    # A micro-batch has several commits in silver; each has the counts of the whole micro-batch.
    if (
        not isinstance(counts, dict)
        or "late" not in counts
        or (is_silver and metadata.get("step") != "accepted")
    ):
        return Counter()
    return Counter({name: count for name, count in counts.items() if isinstance(count, int)})
