"""The expected place of each element of each bronze row, in plain Python without Spark.

The rules of watermark and duplicates are those of ``silver_oracle``; the unit is an element, or a record that
has none or cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.support.oracles.silver_oracle import EPOCH, Record

WHOLE = -1
"""The position of a record that is one unit."""

Unit = tuple[int, int, int]
"""Partition, offset, position."""


@dataclass(frozen=True)
class Line:
    """An element that could be read: its key, its time, and what the rules are about."""

    order: str | None
    sku: str | None
    amount: int | None
    at: datetime | None


@dataclass
class ElementOracle:
    """The place of every unit.

    Attributes:
        silver: Rows by unit.
        late: Units of all late rows, also of those that were inserted.
        quarantine: Reasons by unit.
        dropped: Reasons by unit.
        bytes: The bytes of each quarantined unit.
    """

    delay: timedelta
    silver: dict[Unit, Line] = field(default_factory=dict)
    late: set[Unit] = field(default_factory=set)
    quarantine: dict[Unit, list[str]] = field(default_factory=dict)
    dropped: dict[Unit, list[str]] = field(default_factory=dict)
    bytes: dict[Unit, bytes | None] = field(default_factory=dict)
    tombstones: set[Unit] = field(default_factory=set)
    empty: set[Unit] = field(default_factory=set)
    duplicates: set[Unit] = field(default_factory=set)
    _newest: datetime = EPOCH
    _watermark: datetime = EPOCH
    _late_watermark: datetime = EPOCH
    _expires: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def batch(self, records: Sequence[Record]) -> None:
        """One micro-batch, in the order in which its rows are read."""
        self._late_watermark = self._watermark
        self._watermark = max(self._watermark, self._newest - self.delay)
        late: list[tuple[Unit, Line]] = []
        for record in records:
            for position, found, content in units(record.value):
                unit = (record.partition, record.offset, position)
                if found in {"tombstones", "empty"}:
                    getattr(self, str(found)).add(unit)
                    continue
                reasons = [found] if isinstance(found, str) else judge(found)
                if isinstance(found, str) or reasons:
                    if reasons == ["not_gift"]:
                        self.dropped[unit] = reasons
                    else:
                        self.quarantine[unit], self.bytes[unit] = reasons, content
                    continue
                self._accept(unit, found, late)
        known = {(line.order, line.sku) for line in self.silver.values()}
        for unit, line in sorted(late, key=lambda each: each[0]):
            self.late.add(unit)
            if (line.order, line.sku) not in known:
                known.add((line.order, line.sku))
                self.silver[unit] = line
        self._expires = {key: at for key, at in self._expires.items() if at > self._watermark}

    def _accept(self, unit: Unit, line: Line, late: list[tuple[Unit, Line]]) -> None:
        assert line.at is not None
        key = (line.order or "", line.sku or "")
        self._newest = max(self._newest, line.at)
        if EPOCH < self._late_watermark >= line.at:
            late.append((unit, line))
        elif key in self._expires:
            self.duplicates.add(unit)
        else:
            self._expires[key] = max(line.at, EPOCH) + self.delay
            self.silver[unit] = line

    def totals(self) -> dict[str, int]:
        """The number of units per place, as an audit counts them."""
        found = {
            "silver": len(self.silver),
            "duplicates": len(self.duplicates),
            "late": len(self.late - set(self.silver)),
            "quarantine": len(self.quarantine),
            "dropped": len(self.dropped),
            "tombstones": len(self.tombstones),
            "empty": len(self.empty),
        }
        return {name: count for name, count in found.items() if count}


def units(value: bytes | None) -> Iterator[tuple[int, Line | str, bytes | None]]:
    """Each unit of a value: its position, its line or why there is none, and its bytes."""
    if value is None:
        yield WHOLE, "tombstones", None
        return
    if not value:
        yield WHOLE, "empty_value", value
        return
    try:
        found: dict[str, Any] = json.loads(value)
    except ValueError:
        yield WHOLE, "malformed_json", value
        return
    lines = found.get("lines")
    if not isinstance(lines, list | None):
        yield WHOLE, "wrong_type", value
        return
    if not lines:
        yield WHOLE, "empty", value
    for position, line in enumerate(lines or ()):
        content = json.dumps(line).encode()
        yield position, _line(found.get("order"), line), content


def _line(order: str | None, line: object) -> Line | str:
    if line is None:
        return Line(order, None, None, None)
    if not isinstance(line, dict):
        return "wrong_type"
    amount, at = line.get("amount"), line.get("at")
    if isinstance(amount, (str, list)):
        return "wrong_type"
    if at == "noon":
        return "invalid_timestamp"
    return Line(order, line.get("sku"), amount, None if at is None else datetime.fromisoformat(at))


def judge(line: Line) -> list[str]:
    """All reasons against a line; ``not_gift`` alone drops it."""
    checks = {
        "null_key": line.order is None or line.sku is None,
        "null_event_time": line.at is None,
        "amount_positive": line.amount is None or line.amount <= 0,
        "not_gift": line.sku is None or line.sku == "gift",
    }
    return [name for name, is_broken in checks.items() if is_broken]
