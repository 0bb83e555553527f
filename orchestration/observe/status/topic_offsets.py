"""Reads offsets, retention and the age of unread records from the broker, and never blocks for long.

The request runs in a thread of its own: a broker that is down blocks Kafka's client for half a minute, and a
display must not freeze for that long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from common.config.settings import Settings
from common.declare import Files, Pipeline, Topic
from common.delta.commit import from_epoch_ms
from common.errors import BrokerError, MedallionError
from common.streaming.file_list import FileList
from orchestration.observe.status.model import Uncommitted

if TYPE_CHECKING:
    from orchestration.access.kafka import client as kafka_client
    from orchestration.access.kafka.record_times import RecordTimes
    from orchestration.access.kafka.single_records import Place

Offsets = Mapping[str, Mapping[int, int]]
Options = tuple[tuple[str, str], ...]

_WAIT_SECONDS = 3.0
_RETENTION_SECONDS = 300.0
"""How long the retention of topics is taken as unchanged."""


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """The offsets of topics, or the reason why they are not known."""

    address: str | None = None  # the broker's address; None if no broker is known
    note: str = ""  # the reason why no offsets are known; empty if the broker answered
    # Per topic and partition, the oldest offset that Kafka still has.
    first: Offsets = field(default_factory=dict)
    # Per topic and partition, the next offset of a reader of committed records.
    end: Offsets = field(default_factory=dict)
    high: Offsets = field(default_factory=dict)  # per topic and partition, the next offset to be written
    # Kafka timestamps of unread records, in milliseconds by topic, partition and offset: of the first unread
    # one of each partition, as far as they were read.
    unread_ms: Mapping[Place, int] = field(default_factory=dict)
    # Per topic, its limits (``orchestration.access.kafka.client.retention``).
    retention: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Per topic and partition with open transactions, when ``end`` was first seen where it is.
    still_since: Mapping[tuple[str, int], float] = field(default_factory=dict)
    looking_since: float | None = None  # when this process looked for the first time


class BrokerOffsets:
    """Reads from the pipeline's broker; at most one request runs at a time."""

    def __init__(self, pipeline: Pipeline, settings: Settings) -> None:
        self._pipeline, self._settings = pipeline, settings
        self._request: threading.Thread | None = None
        self._result = TopicOffsets()
        self._times: dict[Options, RecordTimes] = {}
        self._retention: dict[str, tuple[float, Mapping[str, int]]] = {}
        self._still: dict[tuple[str, int], tuple[int, float]] = {}
        self._looking_since: float | None = None

    def read(self, positions: Mapping[str, Offsets | None]) -> TopicOffsets:
        """The offsets of topics; returns within three seconds.

        Args:
            positions: Per bronze table, its next offset by topic and partition; a topic without a position
                has no partitions there. None: the table has no position yet.
        """
        # While an earlier request is still running, the caller does not wait again.
        if self._request is None or not self._request.is_alive():
            self._request = threading.Thread(target=self._read, args=(positions,), daemon=True)
            self._request.start()
            self._request.join(_WAIT_SECONDS)
        if self._request.is_alive():
            return TopicOffsets(self._result.address, note="broker does not answer")
        return self._result

    def _read(self, positions: Mapping[str, Offsets | None]) -> None:
        # Imported here, in the request's thread, because Kafka's client loads slowly.
        from orchestration.access.embedded_broker import lifecycle as broker
        from orchestration.access.kafka import client as kafka

        address = None
        found = kafka.PartitionOffsets()
        unread: dict[Place, int] = {}
        try:
            address = kafka.named_broker(self._pipeline, self._settings) or broker.running_address(
                self._settings
            )
            if address is None:
                self._result = TopicOffsets(note="broker not running")
                return
            for options, topics in self._by_options(positions).items():
                part = kafka.partition_offsets(address, sorted(topics), dict(options))
                for name in ("first", "end", "high"):
                    getattr(found, name).update(getattr(part, name))
                unread |= self._unread_ms(address, options, topics, part)
                self._read_retention(address, options, topics)
        except MedallionError as error:
            self._result = TopicOffsets(address, note=str(error).partition(". ")[0])
        else:
            limits = {topic: known for topic, (_, known) in self._retention.items()}
            still = self._still_since(found.end, found.high)
            self._result = TopicOffsets(
                address, "", found.first, found.end, found.high, unread, limits, still, self._looking_since
            )

    def _by_options(
        self, positions: Mapping[str, Offsets | None]
    ) -> dict[Options, dict[str, Mapping[int, int]]]:
        """Positions by topic, for each set of client options: equal options share a connection."""
        from orchestration.access.kafka import client as kafka

        found: dict[Options, dict[str, Mapping[int, int]]] = {}
        for topic in self._pipeline.topics:
            options = tuple(sorted(kafka.client_options(self._settings, self._pipeline, topic).items()))
            position = positions.get(topic.table) or {}
            own = found.setdefault(options, {})
            own.update({name: position.get(name, {}) for name in {*topic.topic_names, *position}})
        return found

    def _unread_ms(
        self,
        address: str,
        options: Options,
        topics: Mapping[str, Mapping[int, int]],
        found: kafka_client.PartitionOffsets,
    ) -> dict[Place, int]:
        """Timestamps of the first unread record of each partition that has one."""
        from orchestration.access.kafka.record_times import RecordTimes

        places = {
            (topic, partition, max(first, topics[topic].get(partition, first)))
            for topic, partitions in found.first.items()
            for partition, first in partitions.items()
        }
        places = {place for place in places if place[2] < found.end[place[0]].get(place[1], 0)}
        times = self._times.setdefault(options, RecordTimes())
        try:
            return times.read(address, dict(options), places) if places else {}
        except BrokerError:  # this user may describe the topics, but not read them
            return {}

    def _read_retention(self, address: str, options: Options, topics: Mapping[str, object]) -> None:
        from orchestration.access.kafka import client as kafka

        now = time.monotonic()
        missing = [
            topic
            for topic in sorted(topics)
            if now - self._retention.get(topic, (-_RETENTION_SECONDS, {}))[0] >= _RETENTION_SECONDS
        ]
        if not missing:
            return
        try:
            found: Mapping[str, Mapping[str, int]] = kafka.retention(address, missing, dict(options))
        except BrokerError:  # this user may not describe configurations: the time to loss is not known
            found = {}
        self._retention |= {topic: (now, found.get(topic, {})) for topic in missing}

    def _still_since(self, end: Offsets, high: Offsets) -> dict[tuple[str, int], float]:
        now = time.monotonic()
        if self._looking_since is None:
            self._looking_since = now
        still: dict[tuple[str, int], tuple[int, float]] = {}
        for topic, partitions in high.items():
            for partition, offset in partitions.items():
                stable = end.get(topic, {}).get(partition, offset)
                if stable < offset:
                    before = self._still.get((topic, partition))
                    same = before is not None and before[0] == stable
                    still[topic, partition] = before if before is not None and same else (stable, now)
        self._still = still
        return {place: since for place, (_, since) in still.items()}


def of_files(files: Files, listed: FileList, position: Offsets | None) -> TopicOffsets:
    """The offsets of a bronze table of files, as far as the records of its files were counted.

    Args:
        listed: The list of its files; what is new in it is read.
        position: The next offset that bronze reads; None before its first micro-batch.
    """
    name = files.coordinate
    read = (position or {}).get(name, {}).get(0, 0)
    listed.update(read)
    oldest = listed.oldest_unread()
    return TopicOffsets(
        first={name: {0: 0}},
        end={name: {0: listed.end}},
        high={name: {0: listed.end}},
        unread_ms={} if oldest is None else {(name, 0, read): oldest.modified_ms},
        retention={name: {"cleanup.policy.delete": 0}},
    )


def records_behind(topic: Topic | Files, offsets: TopicOffsets, position: Offsets | None) -> int | None:
    """Number of Kafka records that bronze has yet to read; None if it is not known.

    A partition without a position is read from its oldest record, as Spark reads a new partition. Offsets
    without a record (transaction markers, compacted records) count as records.
    """
    if _is_unplaced(topic, position):
        return None
    spans = _spans(topic, offsets, position)
    return sum(max(0, offsets.end[name][partition] - start) for (name, partition), start in spans.items())


def unread_since(topic: Topic | Files, offsets: TopicOffsets, position: Offsets | None) -> datetime | None:
    """Kafka timestamp of the oldest unread record; None if none is unread, or if no timestamp was read."""
    if _is_unplaced(topic, position):
        return None
    spans = _spans(topic, offsets, position)
    found = [
        offsets.unread_ms[place]
        for (name, partition), start in spans.items()
        if (place := (name, partition, max(start, offsets.first.get(name, {}).get(partition, 0))))
        in offsets.unread_ms
    ]
    return from_epoch_ms(min(found)) if found else None


def kept_before(
    topic: Topic | Files, offsets: TopicOffsets, position: Offsets | None
) -> tuple[int | None, str]:
    """The fewest records that a partition with unread records keeps before bronze's position, and its topic.

    Negative if Kafka has deleted unread records; None if no such partition has deleted a record yet.
    """
    names = [*topic.topic_names, *(position or {}), ""]
    found: list[tuple[int, str]] = []
    for (name, partition), start in _spans(topic, offsets, position).items():
        first = offsets.first.get(name, {}).get(partition, 0)
        if first and start < offsets.end[name][partition] and partition in (position or {}).get(name, {}):
            found.append((start - first, name))
    return min(found, default=(None, names[0]))


def uncommitted(topic: Topic | Files, offsets: TopicOffsets, position: Offsets | None) -> Uncommitted | None:
    """Records of open transactions in a table's topics; None if the broker did not answer."""
    if offsets.note:
        return None
    records, since = 0, None
    for name, partition in _spans(topic, offsets, position):
        end = offsets.end[name][partition]
        records += max(0, offsets.high.get(name, {}).get(partition, end) - end)
        began = offsets.still_since.get((name, partition))
        since = began if since is None or (began is not None and began < since) else since
    seconds = 0.0 if since is None else time.monotonic() - since
    return Uncommitted(records, seconds, is_at_least=since is not None and since == offsets.looking_since)


def _is_unplaced(topic: Topic | Files, position: Offsets | None) -> bool:
    """Whether the place where a query will begin is not known before its first micro-batch."""
    if isinstance(topic, Files):
        return False
    is_later = topic.starting_offsets != "earliest" or topic.starting_timestamp is not None
    return position is None and is_later


def _spans(
    topic: Topic | Files, offsets: TopicOffsets, position: Offsets | None
) -> dict[tuple[str, int], int]:
    """The next offset that bronze reads, of each partition that it reads."""
    found: dict[tuple[str, int], int] = {}
    assign = None if isinstance(topic, Files) else topic.assign
    for name in set(topic.topic_names) | set(position or {}):
        wanted = assign[name] if assign is not None and name in assign else None
        for partition in offsets.end.get(name, {}):
            if wanted is None or partition in wanted:
                first = offsets.first.get(name, {}).get(partition, 0)
                found[name, partition] = (position or {}).get(name, {}).get(partition, first)
    return found
