"""Windows of event time that an Aggregate or a stream join of a pipeline may declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from common.declare.declared import declared
from common.declare.field_types import Distance, Interval
from common.declare.intervals import length_of

ZERO_WATERMARK = "a row as old as the newest would be late already; give it some seconds at least"
"""Why a watermark of no length is refused."""

_MOST_WINDOWS = 1_000


@declared
class Window:
    """Windows of event time: tumbling, or sliding with a ``slide`` shorter than their ``size``.

    The table gets the columns ``window_start`` (in the window) and ``window_end`` (not in it). Windows
    begin at whole multiples of the slide since 1970 in UTC; a row is in every window that covers it.

    Attributes:
        on: A column of silver, a timestamp. Rows in which it is null are in no window.
        size: How long a window is.
        slide: From one window's start to the next one's; unset: their size.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"on": '"ordered_at"', "size": '"1 hour"'}

    on: str
    size: Interval
    slide: Interval | None = None

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        slide = self.slide or self.size
        if length_of(self.size).seconds <= 0 or length_of(slide).seconds <= 0:
            yield "size and slide must be longer than nothing"
        elif length_of(slide).seconds > length_of(self.size).seconds:
            yield f"slide {slide!r} is longer than size {self.size!r}: rows would fall between two windows"
        elif (many := int(length_of(self.size).seconds // length_of(slide).seconds)) > _MOST_WINDOWS:
            yield (
                f"a row would be in {many:,} windows of {self.size} that begin every {slide}, and be counted "
                f"in each; at most {_MOST_WINDOWS:,} are taken"
            )


@declared
class Session:
    """Session windows: the rows of a group without a pause longer than ``gap`` between two of them.

    The table gets the columns ``window_start`` (the first row's time) and ``window_end`` (the last one's
    and the gap). A row that comes exactly at ``window_end`` still belongs to the session and moves it.

    Attributes:
        on: A column of silver, a timestamp. Rows in which it is null are in no session.
        gap: The pause after which a later row begins the next session.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"on": '"clicked_at"', "gap": '"30 minutes"'}

    on: str
    gap: Interval

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if length_of(self.gap).seconds <= 0:
            yield "gap must be longer than nothing"


@declared
class Within:
    """How far apart in event time two rows may lie that a join of two streams brings together.

    Attributes:
        on: Event time of the table that is read.
        joins_on: Event time of the table that is joined.
        after: The joined row's time is at least ``on`` plus this, such as ``-5 minutes``.
        before: The joined row's time is at most ``on`` plus this.
        watermark: How late a row of the table that is read may come.
        joins_watermark: How late a row of the table that is joined may come.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "on": '"ordered_at"',
        "joins_on": '"paid_at"',
        "after": '"0 seconds"',
        "before": '"1 hour"',
        "watermark": '"1 day"',
        "joins_watermark": '"1 day"',
    }

    on: str
    joins_on: str
    after: Distance
    before: Distance
    watermark: Interval
    joins_watermark: Interval

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if length_of(self.before).seconds < length_of(self.after).seconds:
            yield f"before ({self.before}) is earlier than after ({self.after}): no two rows would ever meet"
        for name in ("watermark", "joins_watermark"):
            if length_of(getattr(self, name)).seconds == 0:
                yield f"{name} is {getattr(self, name)}: {ZERO_WATERMARK}"
