"""The expected place of each bronze row, in plain Python without Spark: slow, short, obviously right.

The rules of Spark's operators are taken from their documentation and from observation. A micro-batch drops a
row as late if the row's event time is at or before the watermark by which the *previous* batch expired state.
Lateness is checked before duplicates. A key expires once the watermark has reached the event time of the
key's first row plus the delay.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELDS = {"id", "at", "amount"}


@dataclass(frozen=True)
class Record:
    """The columns of a bronze row that decide its place."""

    partition: int
    offset: int
    kafka_time: datetime
    value: bytes | None


@dataclass(frozen=True)
class Event:
    """A value that could be read."""

    id: str | None
    at: datetime | None
    amount: Decimal | None
    rescued: dict[str, Any] | None


@dataclass
class SilverOracle:
    """The place of every offset; a coordinate is (partition, offset).

    Attributes:
        silver: Rows (id, at, amount, rescued) by coordinate.
        late: Coordinate of every late row, also of those that were inserted.
        quarantine: Reasons by coordinate.
        dropped: Reasons by coordinate, of rows that are dropped and of which only the reasons are kept.
        warned: Number of rows that break a rule of warnings and that Spark's operator did not drop.
    """

    delay: timedelta
    silver: dict[tuple[int, int], Event] = field(default_factory=dict)
    late: set[tuple[int, int]] = field(default_factory=set)
    quarantine: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    dropped: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    tombstones: set[tuple[int, int]] = field(default_factory=set)
    duplicates: set[tuple[int, int]] = field(default_factory=set)
    warned: int = 0
    _newest: datetime = EPOCH
    _watermark: datetime = EPOCH
    _late_watermark: datetime = EPOCH
    _expires: dict[str, datetime] = field(default_factory=dict)

    def batch(self, records: Sequence[Record]) -> None:
        """One micro-batch, in the order in which its rows are read."""
        self._late_watermark, self._watermark = (
            self._watermark,
            max(self._watermark, self._newest - self.delay),
        )
        late: list[tuple[tuple[int, int], Event]] = []
        for record in records:
            place = (record.partition, record.offset)
            if record.value is None:
                self.tombstones.add(place)
                continue
            event = read(record.value)
            reasons = [event] if isinstance(event, str) else judge(event, record.kafka_time)
            if isinstance(event, str) or reasons:
                aside = self.dropped if reasons == ["not_tiny"] else self.quarantine
                aside[place] = reasons
                if isinstance(event, Event):
                    self.warned += event.amount is None or event.amount >= 100
                continue
            assert event.at is not None
            assert event.id is not None
            assert event.amount is not None
            self._newest = max(self._newest, event.at)
            # A watermark of 0 is none yet; until there is one, events before 1970 are in time.
            if EPOCH < self._late_watermark >= event.at:
                late.append((place, event))
            elif event.id in self._expires:
                self.duplicates.add(place)
            else:
                self._expires[event.id] = max(event.at, EPOCH) + self.delay
                self.silver[place] = event
                self.warned += event.amount >= 100
        for place, event in sorted(late, key=lambda each: each[0]):
            self.late.add(place)
            if all(event.id != known.id for known in self.silver.values()):
                self.silver[place] = event
        self._expires = {key: at for key, at in self._expires.items() if at > self._watermark}


def read(value: bytes) -> Event | str:  # noqa: PLR0911  # a fault each
    """The value of one message, or why it cannot be read."""
    if not value.strip(b" \t\r\n"):
        return "empty_value"
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return "not_utf8"
    try:
        found, end = json.JSONDecoder(object_pairs_hook=_once, parse_float=Decimal).raw_decode(text.lstrip())
    except _TwiceError:
        return "duplicate_key"
    except (ValueError, InvalidOperation):
        return "malformed_json"
    if text.lstrip()[end:].strip():
        return "trailing_data"
    if not isinstance(found, dict):
        return "not_an_object"
    return _typed(found)


def _typed(found: dict[str, Any]) -> Event | str:
    key, at, amount = found.get("id"), found.get("at"), found.get("amount")
    if at is not None:
        if not isinstance(at, str):
            return "wrong_type"
        if not at.endswith("Z"):
            return "timestamp_without_offset"
    if amount is not None:
        if isinstance(amount, (str, bool)):
            return "wrong_type"
        amount = Decimal(amount)
        if amount != round(amount, 2):
            return "number_rounded"
        if abs(amount) >= 10**8:
            return "number_out_of_range"
    rescued = {name: each for name, each in found.items() if name not in FIELDS}
    return Event(
        id=key if isinstance(key, str) or key is None else json.dumps(key),
        at=None if at is None else datetime.fromisoformat(at),
        amount=amount,
        rescued=rescued or None,
    )


def judge(event: Event, kafka_time: datetime) -> list[str]:
    """All reasons to quarantine an event, in the order in which the rules are checked."""
    reasons = []
    if event.id is None:
        reasons.append("null_key")
    if event.at is None:
        reasons.append("null_event_time")
    elif event.at > kafka_time + timedelta(hours=1):
        reasons.append("future_event_time")
    if event.amount is None or event.amount <= 0:
        reasons.append("amount_positive")
    elif event.amount == Decimal("0.01"):
        reasons.append("not_tiny")
    if event.amount is None:
        reasons.append("not_tiny")
    return reasons


class _TwiceError(ValueError):
    """A name occurs twice in an object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError
    return found
