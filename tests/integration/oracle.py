"""What the earthquakes pipeline must make of a list of messages, in plain Python and without Spark.

Slow, short, and meant to be obviously right. Messages of one key share a partition, so the order in
which they were sent is the order of their offsets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from common.declare import Message


@dataclass(frozen=True)
class Outcome:
    """Rows by table. A silver row is (id, updated, event, magnitude, latitude, status, retracted)."""

    silver: list[tuple[Any, ...]]
    quarantine: Counter[str]
    duplicates: int
    latest: dict[str, tuple[Any, ...]]
    by_network: dict[tuple[str, str], tuple[Any, ...]]
    tombstones: int = 0


TOMBSTONE = "tombstone"
"""Of a message without a value: it is counted, and stays in bronze."""


def outcome(messages: Sequence[Message]) -> Outcome:
    """Judge every message; the first of equal versions wins; the newest version per quake is its state."""
    quarantine: Counter[str] = Counter()
    seen: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    duplicates = tombstones = 0
    for message in messages:
        judged = _judge(message.value)
        if judged == TOMBSTONE:
            tombstones += 1
        elif isinstance(judged, str):
            quarantine[judged] += 1
        elif judged[:4] in seen:
            duplicates += 1
        else:
            seen[judged[:4]] = judged
    rows = list(seen.values())
    latest: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        if row[0] not in latest or row[1] >= latest[row[0]][1]:
            latest[row[0]] = row
    return Outcome(rows, quarantine, duplicates, latest, _by_network(rows), tombstones)


def _judge(value: bytes | None) -> tuple[Any, ...] | str:
    if value is None:
        return TOMBSTONE
    if not value.strip():
        return "empty_value"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "not_utf8"
    try:
        quake = json.loads(text)
        properties, place = quake["properties"], quake["geometry"]["coordinates"]
        numbers = [properties["mag"], *place, properties["time"], properties["updated"]]
        if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
            return "wrong_type"
    except ValueError:
        return "malformed_json"
    return (
        properties["url"].rsplit("/", 1)[-1],
        _time(properties["updated"]),
        _time(properties["time"]),
        float(properties["mag"]),
        float(place[1]),
        properties.get("status"),
        properties.get("status") == "deleted",
    )


def _time(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def magnitude_class(magnitude: float) -> str:
    """The classes of the example."""
    for bound, name in ((2, "micro"), (4, "minor"), (5, "light"), (6, "moderate")):
        if magnitude < bound:
            return name
    return "strong"


def _by_network(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[str, str], tuple[Any, ...]]:
    groups: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault((row[0][:2], magnitude_class(row[3])), []).append(row)
    return {
        key: (len(of), max(r[3] for r in of), max(r[2] for r in of), sum(r[6] for r in of))
        for key, of in groups.items()
    }
