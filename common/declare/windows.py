"""Windows of event time that an Aggregate or a stream join of a pipeline may declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import ClassVar, Literal

from common.declare.declared import ADDED_LATER, declared
from common.declare.field_types import Distance, Interval
from common.declare.intervals import length_of
from common.errors import Fault

ZERO_WATERMARK = "a row as old as the newest one would be late already; make it some seconds at least"
"""Reason in the error for a watermark of 0 seconds."""

_MOST_WINDOWS = 1_000


@declared
class Window:
    """Windows of event time: tumbling, or sliding with a ``slide`` shorter than ``size``.

    The table gets the columns ``window_start`` (inclusive) and ``window_end`` (exclusive). Windows start at
    whole multiples of the slide since 1970 in UTC, plus ``offset``; a row belongs to every window that covers
    its time.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"on": '"ordered_at"', "size": '"1 hour"'}

    on: str
    """A timestamp column of silver. Rows in which it is null belong to no window."""
    size: Interval
    """Length of a window."""
    slide: Interval | None = None
    """Time between the starts of two windows; unset: ``size``."""
    offset: Distance | None = field(default=None, metadata={ADDED_LATER: True})
    """How much later windows start, or earlier with a minus, such as ``4 days`` of weeks that begin on a
    Monday: 1970 began on a Thursday. Shorter than the slide; unset: not.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        slide = self.slide or self.size
        if length_of(self.size).microseconds <= 0 or length_of(slide).microseconds <= 0:
            yield Fault("MED-1104", "size and slide must be longer than 0 seconds, by a microsecond or more")
        elif length_of(slide).seconds > length_of(self.size).seconds:
            yield Fault(
                "MED-1104",
                f"slide {slide!r} is longer than size {self.size!r}: rows would fall between two windows",
            )
        elif self.offset is not None and abs(length_of(self.offset).seconds) >= length_of(slide).seconds:
            yield Fault("MED-1104", f"offset {self.offset!r} must be shorter than slide {slide!r}")
        elif (many := int(length_of(self.size).seconds // length_of(slide).seconds)) > _MOST_WINDOWS:
            yield Fault(
                "MED-1104",
                f"a row would belong to {many:,} windows of {self.size} that start every {slide}; at "
                f"most {_MOST_WINDOWS:,} are supported",
            )


@declared
class Session:
    """Session windows: the rows of a group without a pause longer than ``gap`` between two of them.

    The table gets the columns ``window_start`` (time of the first row) and ``window_end`` (time of the last
    row plus the gap). A row exactly at ``window_end`` still belongs to the session and extends it.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"on": '"clicked_at"', "gap": '"30 minutes"'}

    on: str
    """A timestamp column of silver. Rows in which it is null belong to no session."""
    gap: Interval
    """The pause after which the next row starts a new session."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if length_of(self.gap).microseconds <= 0:
            yield Fault("MED-1104", "gap must be longer than 0 seconds, by a microsecond or more")


@declared
class Within:
    """Bounds in event time between two rows that a stream-stream join pairs."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "on": '"ordered_at"',
        "joins_on": '"paid_at"',
        "after": '"0 seconds"',
        "before": '"1 hour"',
        "watermark": '"1 day"',
        "joins_watermark": '"1 day"',
    }

    on: str
    """Event-time column of the table that ``reads`` names."""
    joins_on: str
    """Event-time column of the table that ``joins`` names."""
    after: Distance
    """The joined row's time is at least ``on`` plus this, such as ``-5 minutes``."""
    before: Distance
    """The joined row's time is at most ``on`` plus this."""
    watermark: Interval
    """How late a row of the table that ``reads`` names may arrive."""
    joins_watermark: Interval
    """How late a row of the table that ``joins`` names may arrive."""
    watermark_policy: Literal["min", "max"] = field(default="min", kw_only=True, metadata={ADDED_LATER: True})
    """Which of the two watermarks counts for both tables. ``min``, the lower one: rows wait in state while
    one table has none. ``max``, the higher one: less state and earlier rows without a match, but rows of the
    slower table are late and left out once the other one is ahead. It is fixed by the first start.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if length_of(self.before).seconds < length_of(self.after).seconds:
            yield Fault(
                "MED-1104",
                f"before ({self.before}) is earlier than after ({self.after}): no two rows would ever meet",
            )
        for name in ("watermark", "joins_watermark"):
            if length_of(getattr(self, name)).seconds == 0:
                yield Fault("MED-1104", f"{name} is {getattr(self, name)}: {ZERO_WATERMARK}")
