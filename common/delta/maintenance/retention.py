"""How long a Delta table keeps its log, its replaced data files, and (bronze) its records.

A bronze table whose topic has ``keep`` loses whole data files whose records are older. Which records are gone
is in a property of the table, because commits leave the log after 30 days.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.machine.files.state_file import StateFile

LOG = "delta.logRetentionDuration"
FILES = "delta.deletedFileRetentionDuration"

EXPIRED = "medallion.expired"
"""Property of a bronze table: which records retention has deleted, as JSON of ``ExpiredTopic`` by topic."""

_STANDARD = {LOG: timedelta(days=30), FILES: timedelta(days=7)}
_DURATION = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class ExpiredTopic:
    """The expired records of one topic."""

    # By partition: the first offset that the table ever had, and the end, which is one more than the highest
    # expired offset. An offset in between that is in no table is expired.
    offsets: Mapping[int, tuple[int, int]]
    oldest: datetime | None = None  # Kafka's time of the oldest expired record; None where no record has one
    newest: datetime | None = None  # Kafka's time of the newest expired record; None where no record has one

    def with_more(self, other: ExpiredTopic) -> ExpiredTopic:
        """Both expired ranges as one: the lowest first offset, the highest end, the widest times."""
        offsets = dict(self.offsets)
        for partition, (first, end) in other.offsets.items():
            known_first, known_end = offsets.get(partition, (first, end))
            offsets[partition] = (min(first, known_first), max(end, known_end))
        oldest = min((one for one in (self.oldest, other.oldest) if one is not None), default=None)
        newest = max((one for one in (self.newest, other.newest) if one is not None), default=None)
        return ExpiredTopic(offsets, oldest, newest)


_TOPICS = StateFile(dict[str, ExpiredTopic])


def retention(properties: Mapping[str, str], name: str) -> timedelta:
    """The duration of a property, ``LOG`` or ``FILES``; Delta's own where the table does not set it."""
    match = _DURATION.search(properties.get(name, ""))
    return _STANDARD[name] if match is None else timedelta(**{f"{match[2].lower()}s": int(match[1])})


def expired_topics(properties: Mapping[str, str]) -> dict[str, ExpiredTopic]:
    """The expired records of a table by topic, from its properties; empty where none has expired."""
    return _TOPICS.parse(properties.get(EXPIRED, "{}"))


def expired_property(topics: Mapping[str, ExpiredTopic]) -> str:
    """The value of the property ``EXPIRED``."""
    return _TOPICS.text(dict(topics))


def expired_text(topics: Mapping[str, ExpiredTopic]) -> str:
    """The expired records in one line: topics, partitions, offsets and Kafka's times."""
    return "; ".join(f"topic {topic}, {_partitions(one)}{_times(one)}" for topic, one in topics.items())


def _partitions(one: ExpiredTopic) -> str:
    parts = [f"partition {number} up to offset {end - 1}" for number, (_, end) in sorted(one.offsets.items())]
    more = [f"{len(parts) - _SHOWN} more partitions"] if len(parts) > _SHOWN else []
    return ", ".join([*parts[:_SHOWN], *more])


def _times(one: ExpiredTopic) -> str:
    if one.oldest is None or one.newest is None:
        return ""
    return f" (Kafka's times {one.oldest:%Y-%m-%d %H:%M} to {one.newest:%Y-%m-%d %H:%M} UTC)"
