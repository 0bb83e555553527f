"""What a table lacks of the rows that its sources have or had, as each commit of its query says. Pure.

A query that reads appends leaves out what a source takes away; one with a watermark, rows that came too late.
An audit excuses differences by these alone. The logs that show them are cleaned up after some time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from common.declare import Gold
from common.delta.checkpoint import DeltaPosition, delta_position_of
from common.delta.log import LogReader
from common.errors import HistoryGoneError

LEFT_OUT = "left_out"
"""The entry of a commit's metadata."""

_PART = 1_000
"""Commits after which a log is opened anew: a reader keeps all that it has read."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a table lacks after a micro-batch."""

    # Per source, the first version that was read as a commit; None: nothing of it was read yet.
    begins: tuple[int | None, ...]
    removals: tuple[int, ...]  # per source, how many of the commits from there on took rows away
    late: int = 0  # how many rows came too late
    # The latest watermark by which one did, milliseconds since 1970; None where that is not known, or none
    # did.
    late_until_ms: int | None = None


def told(metadata: Mapping[str, Any]) -> LeftOut | None:
    """What a commit says; None of a commit by an earlier version of the engine."""
    if (found := metadata.get(LEFT_OUT)) is None:
        return None
    return LeftOut(tuple(found["begins"]), tuple(found["removals"]), found["late"], found["late_until_ms"])


def by_the_logs(gold: Gold, commits: Iterable[Mapping[str, Any]], paths: Sequence[str]) -> LeftOut | None:
    """What the logs say, of commits by an earlier version of the engine; None where they were cleaned up.

    Args:
        commits: The metadata of a query's commits, newest first, back to its first micro-batch.
        paths: The tables that it reads as streams, in the order of its positions.
    """
    late, newest = 0, None
    for metadata in commits:
        positions = metadata.get("positions") or ()
        newest = positions if newest is None else newest
        late += int(metadata["counts"].get("late", 0))
        if metadata["batch_id"] == 0:
            first = with_removals(replace(nothing(len(paths)), late=late), gold, (), positions, paths)
            return first and with_removals(first, gold, positions, newest, paths)
    return None


def nothing(sources: int) -> LeftOut:
    """What a table lacks before the first micro-batch of a query over so many tables."""
    return LeftOut((None,) * sources, (0,) * sources)


def with_removals(
    before: LeftOut, gold: Gold, start: Sequence[Any], end: Sequence[Any], paths: Sequence[str]
) -> LeftOut | None:
    """What a table lacks at positions; None where that is not known: a commit was cleaned up."""
    begins, removals = list(before.begins), list(before.removals)
    for place, path in enumerate(paths):
        from_, to = delta_position_of(start, place), delta_position_of(end, place)
        if to is None:
            continue
        if begins[place] is None:
            begins[place] = first = 0 if gold.reads_in_order else _after_state(to)
        elif from_ is None:
            return None
        else:
            first = from_.version + from_.in_snapshot
        try:
            removals[place] += sum(1 for _ in removing(path, first, to.version))
        except HistoryGoneError:
            return None
    return replace(before, begins=tuple(begins), removals=tuple(removals))


def removing(path: str, first: int, end: int) -> Iterator[int]:
    """The versions of a table that took rows away, from the first one up to but not including the end.

    Raises:
        HistoryGoneError: The log's cleanup has deleted one of these.
    """
    for begin in range(first, end, _PART):
        for commit in LogReader(path).commits(begin, min(begin + _PART, end) - 1):
            if commit.is_change:
                yield commit.version


def _after_state(end: DeltaPosition) -> int:
    """The first version after the state with which a query has begun, of which its first micro-batch ends
    there; 0 where that is not known.
    """
    if end.in_snapshot:
        return end.version + 1
    return end.version if end.index < 0 else 0
