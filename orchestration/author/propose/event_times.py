"""Finds how far messages lag behind each other, whatever one wrong clock says. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestration.access.kafka.topic_sample import Sampled

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_WRONG_CLOCK_MS = 7 * _DAY_MS
_FEW = 100
_MARGINS = (("1 hour", _HOUR_MS), ("1 day", _DAY_MS), ("7 days", 7 * _DAY_MS), ("30 days", 30 * _DAY_MS))


@dataclass(frozen=True)
class Watermark:
    """A proposed watermark: its length, and the number of sampled messages that are later."""

    length: str
    later: int


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
