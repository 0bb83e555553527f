"""Finds which times of a message are plans, and how far messages lag behind each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestration.access.kafka.topic_sample import Sampled

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_WRONG_CLOCK_MS = 7 * _DAY_MS
_FEW = 100
_MARGINS = (("1 hour", _HOUR_MS), ("1 day", _DAY_MS), ("7 days", 7 * _DAY_MS), ("30 days", 30 * _DAY_MS))


_PLANNED = re.compile(
    r"(?i)(^|_)(sched[a-z]*|plan[a-z]*|due|expect[a-z]*|estimat[a-z]*|eta|etd|expir[a-z]*|until|deadline)(_|$)"
)
_WRITTEN = re.compile(r"(?i)updat|modif|chang|receiv|ingest|publish|logged|(^|_)sent(_|$)")
_MINUTE_MS = 60_000


@dataclass(frozen=True)
class Watermark:
    """A proposed watermark: its length, and the number of sampled messages that are later."""

    length: str
    later: int


def plans(moments: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """The times that are plans, with the reason: an event is not over before its record is written.

    Args:
        moments: The columns of times with their values in the same messages, in milliseconds since 1970.
    """
    found = {name: "by its name" for name in moments if _PLANNED.search(name)}
    clocks = [name for name in moments if name not in found and _WRITTEN.search(name)]
    for name, values in moments.items():
        for clock in clocks:
            if name in found or name in clocks:
                continue
            ahead = sum(at > now + _MINUTE_MS for at, now in zip(values, moments[clock], strict=True))
            if _FEW * ahead > len(values):
                found[name] = f"after {clock} in {-(-100 * ahead // len(values))} % of the messages"
    return found


def is_future(moments: Sequence[int], messages: Sequence[Sampled]) -> bool:
    """Whether more than one message in a hundred has a time over an hour after Kafka's timestamp."""
    pairs = zip(moments, messages, strict=True)
    number = sum(bool(message.timestamp) and at > message.timestamp + _HOUR_MS for at, message in pairs)
    return _FEW * number > len(moments)


def watermark(moments: Sequence[int], messages: Sequence[Sampled]) -> Watermark:
    """At least twice the lag of 99 in 100 messages behind an earlier one of their partition."""
    lags = _lags(moments, messages)
    usual = sorted(lags)[: len(lags) - len(lags) // _FEW][-1]
    wanted = 2 * usual
    length, span = next(
        ((text, span) for text, span in _MARGINS if span >= wanted),
        (f"{-(-wanted // _DAY_MS)} days", -(-wanted // _DAY_MS) * _DAY_MS),
    )
    return Watermark(length, sum(lag > span for lag in lags))


def _lags(moments: Sequence[int], messages: Sequence[Sampled]) -> list[int]:
    newest: dict[int, int] = {}
    last = _last_believable(moments)
    lags = []
    for at, message in zip(moments, messages, strict=True):
        if at <= last:
            newest[message.partition] = max(newest.get(message.partition, at), at)
        lags.append(max(newest.get(message.partition, at) - at, 0))
    return lags


def _last_believable(moments: Sequence[int]) -> int:
    """The newest time that is not a week after all but one in a hundred: a wrong clock makes nothing late."""
    ordered = sorted(moments)
    for place in range(len(ordered) - 1, max(len(ordered) - 2 - len(ordered) // _FEW, 0), -1):
        if ordered[place] - ordered[place - 1] > _WRONG_CLOCK_MS:
            return ordered[place - 1]
    return ordered[-1]
