"""The expected tables of the earthquakes pipeline for a list of messages, in plain Python without Spark.

Slow, short, and meant to be obviously right. Messages of one key share a partition, so the order in
which they were sent is the order of their offsets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
    by_hour: dict[tuple[str, datetime], tuple[Any, ...]] = field(default_factory=dict)
    magnitudes: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    changes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    retracted: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    latency: dict[str, tuple[int, float, float]] = field(default_factory=dict)


TOMBSTONE = "tombstone"
"""Marks a message without a value, which is counted and stays in bronze only."""


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
    quakes: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        quakes.setdefault(row[0], []).append(row)
    for versions in quakes.values():
        versions.sort(key=lambda row: row[1])  # stable: of equal times the newest message stays last
    return Outcome(
        rows,
        quarantine,
        duplicates,
        latest,
        _by_network(rows),
        tombstones,
        by_hour=_by_hour(rows),
        magnitudes=Counter(run for versions in quakes.values() for run in _runs(versions)),
        changes={
            quake: (len(of), of[0][1], of[-1][1], of[0][3], of[-1][3], of[-1][3] - of[0][3])
            for quake, of in quakes.items()
        },
        retracted={
            quake: (min(row[1] for row in gone), gone[-1][2], gone[-1][3])
            for quake, of in quakes.items()
            if (gone := [row for row in of if row[6]])
        },
        latency=_latency(quakes.values()),
    )


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
    """The magnitude class, as the example defines it."""
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


def _by_hour(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[str, datetime], tuple[Any, ...]]:
    groups: dict[tuple[str, datetime], list[tuple[Any, ...]]] = {}
    for row in rows:
        hour = row[2].replace(minute=0, second=0, microsecond=0)
        groups.setdefault((row[0][:2], hour), []).append(row)
    return {key: (len({r[0] for r in of}), len(of), max(r[3] for r in of)) for key, of in groups.items()}


def _runs(versions: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of the history: id, magnitude, start, end, number of versions, time of the last; input sorted."""
    last = {row[1]: row for row in versions}  # of versions with equal times the last one counts
    runs: list[list[Any]] = []
    for at, row in last.items():
        state = None if row[6] else row[3]
        if runs and runs[-1][1] == state:
            runs[-1][4:] = [runs[-1][4] + 1, at]
            continue
        if runs:
            runs[-1][3] = at
        runs.append([row[0], state, at, None, 1, at])
    return [tuple(run) for run in runs if run[1] is not None]


def _latency(quakes: Iterable[Sequence[tuple[Any, ...]]]) -> dict[str, tuple[int, float, float]]:
    waits: dict[str, list[int]] = {}
    for versions in quakes:
        first = next(row for row in reversed(versions) if row[1] == versions[0][1])
        waits.setdefault(first[0][:2], []).append((first[1] - first[2]) // timedelta(milliseconds=1))
    return {
        network: (len(of), percentile(sorted(of), 0.5), percentile(sorted(of), 0.95))
        for network, of in waits.items()
    }


def percentile(values: Sequence[int], share: float) -> float:
    """The percentile of sorted values, with linear interpolation."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)
