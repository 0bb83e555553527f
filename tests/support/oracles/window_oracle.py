"""Windowed aggregates in plain Python: the expected rows of windows that close, after a micro-batch.

A row is (k, at, amount). Rows whose amount is null or negative are ignored, as by the tests' ``where``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Row = tuple[str | None, datetime | None, int | None]
Kept = tuple[str | None, datetime, int]
Group = tuple[Any, ...]
Table = Counter[tuple[Any, ...]]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def measures(amounts: Sequence[int]) -> tuple[int, int, int]:
    """``count(*)``, ``sum(amount)`` and ``max(amount)``."""
    return len(amounts), sum(amounts), max(amounts)


def kept(rows: Iterable[Row]) -> list[Kept]:
    """The rows that meet the condition and have a time."""
    return [
        (k, at, amount) for k, at, amount in rows if amount is not None and amount >= 0 and at is not None
    ]


def watermarks(batches: Sequence[Sequence[Row]], delay: timedelta) -> list[datetime]:
    """The watermark by which each micro-batch closes windows; rows are late by the previous one."""
    found, highest = [], EPOCH
    for batch in batches:
        found.append(highest)
        highest = max([highest, *(at - delay for _, at, _ in kept(batch))])
    return found


def windows(size: timedelta, slide: timedelta) -> Callable[[datetime], list[datetime]]:
    """A function from a time to the starts of the windows that contain the time."""

    def starts(at: datetime) -> list[datetime]:
        last = EPOCH + slide * ((at - EPOCH) // slide)
        return [last - slide * n for n in range(size // slide) if last - slide * n + size > at]

    return starts


class Windows:
    """Tumbling or sliding windows per ``k``."""

    def __init__(self, size: timedelta, slide: timedelta) -> None:
        self.size, self._starts = size, windows(size, slide)

    def under(
        self, batches: Sequence[Sequence[Row]], delay: timedelta, *, closed_only: bool
    ) -> tuple[Table, int]:
        """All windows, or the closed ones, without late rows; number of late groups in the last batch."""
        closes, groups = watermarks(batches, delay), []
        late: set[Group] = set()
        for n, rows in enumerate(batches):
            by, pairs = closes[n - 1] if n else EPOCH, list(self._pairs(rows))
            late = {group for group, _ in pairs if group[-1] + self.size <= by}
            groups += [(group, amount) for group, amount in pairs if group not in late]
        if closed_only:
            groups = [each for each in groups if each[0][-1] + self.size <= closes[-1]]
        return self._table(groups), len(late)

    def _pairs(self, rows: Sequence[Row]) -> Iterator[tuple[Group, int]]:
        for k, at, amount in kept(rows):
            yield from (((k, start), amount) for start in self._starts(at))

    def _table(self, pairs: Iterable[tuple[Group, int]]) -> Table:
        groups: dict[Group, list[int]] = {}
        for group, amount in pairs:
            groups.setdefault(group, []).append(amount)
        return Counter(
            (k, start, start + self.size, *measures(amounts)) for (k, start), amounts in groups.items()
        )


class Sessions:
    """Sessions per ``k``."""

    def __init__(self, gap: timedelta) -> None:
        self.gap = gap

    def closed(self, batches: Sequence[Sequence[Row]], delay: timedelta) -> tuple[Table, int]:
        """Sessions as they were when they closed; and the number of late sessions in the last batch.

        A row exactly at the end of a session belongs to it: the watermark closes it when it is past its end.
        """
        closes = watermarks(batches, delay + timedelta(milliseconds=1))
        open_: list[tuple[str | None, datetime, datetime, list[int]]] = []
        done: list[tuple[str | None, datetime, datetime, list[int]]] = []
        late: set[Group] = set()
        for n, rows in enumerate(batches):
            by = closes[n - 1] if n else EPOCH
            alone = [self._alone(row) for row in kept(rows)]
            late = {session[:2] for session in alone if session[2] <= by}
            open_ = self._merged(open_ + [session for session in alone if session[2] > by])
            done += [session for session in open_ if session[2] <= closes[n]]
            open_ = [session for session in open_ if session[2] > closes[n]]
        return self._table(done), len(late)

    def _alone(self, row: Kept) -> tuple[str | None, datetime, datetime, list[int]]:
        k, at, amount = row
        return k, at, at + self.gap, [amount]

    def _merged(
        self, sessions: list[tuple[str | None, datetime, datetime, list[int]]]
    ) -> list[tuple[str | None, datetime, datetime, list[int]]]:
        found: list[tuple[str | None, datetime, datetime, list[int]]] = []
        for k, start, end, amounts in sorted(sessions, key=lambda one: (str(one[0]), one[1], one[2])):
            if found and found[-1][0] == k and start <= found[-1][2]:
                _, first, last, others = found.pop()
                found.append((k, first, max(last, end), others + amounts))
            else:
                found.append((k, start, end, amounts))
        return found

    def _table(self, sessions: Iterable[tuple[str | None, datetime, datetime, list[int]]]) -> Table:
        return Counter((k, start, end, *measures(amounts)) for k, start, end, amounts in sessions)
