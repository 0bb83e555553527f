"""Reads the first and end offsets of topics, and never blocks the caller for long.

The request runs in a thread of its own: a broker that is down blocks Kafka's client for half a minute, and a
display must not freeze for that long.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.errors import MedallionError

Offsets = Mapping[str, Mapping[int, int]]

_WAIT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """The offsets of topics, or the reason why they are not known.

    Attributes:
        address: The broker's address; None if no broker is known.
        note: The reason why no offsets are known; empty if the broker answered.
        first: Per topic and partition, the oldest offset that Kafka still has.
        end: Per topic and partition, the next offset to be written.
    """

    address: str | None = None
    note: str = ""
    first: Offsets = field(default_factory=dict)
    end: Offsets = field(default_factory=dict)


class BrokerOffsets:
    """Reads offsets from the pipeline's broker; at most one request runs at a time."""

    def __init__(self, pipeline: Pipeline, settings: Settings) -> None:
        self._pipeline, self._settings = pipeline, settings
        self._request: threading.Thread | None = None
        self._result = TopicOffsets()
        self._first: dict[str, Mapping[int, int]] = {}
        """First offsets, read once: they only matter for topics that bronze has never read."""

    def read(self, topics: Mapping[str, frozenset[str]]) -> TopicOffsets:
        """The offsets of these topics; returns within three seconds.

        Args:
            topics: Topic names per bronze table.
        """
        # While an earlier request is still running, the caller does not wait again.
        if self._request is None or not self._request.is_alive():
            self._request = threading.Thread(target=self._read, args=(topics,), daemon=True)
            self._request.start()
            self._request.join(_WAIT_SECONDS)
        if self._request.is_alive():
            return TopicOffsets(self._result.address, note="broker does not answer")
        return self._result

    def _read(self, topics: Mapping[str, frozenset[str]]) -> None:
        # Imported here, in the request's thread, because Kafka's client loads slowly.
        from orchestration.embedded_broker import lifecycle as broker
        from orchestration.kafka import client as kafka

        address = None
        end: dict[str, Mapping[int, int]] = {}
        try:
            address = kafka.named_broker(self._pipeline, self._settings) or broker.running_address(
                self._settings
            )
            if address is None:
                self._result = TopicOffsets(note="broker not running")
                return
            for options, names in self._by_options(topics):
                if not names <= self._first.keys():
                    found = kafka.first_offsets(address, sorted(names), options)
                    self._first |= {name: partitions for name, partitions in found.items() if partitions}
                end |= kafka.end_offsets(address, sorted(names), options)
        except MedallionError as error:
            self._result = TopicOffsets(address, note=str(error).partition(". ")[0])
        else:
            self._result = TopicOffsets(address, first=dict(self._first), end=end)

    def _by_options(self, topics: Mapping[str, frozenset[str]]) -> list[tuple[dict[str, str], set[str]]]:
        """Topic names grouped by client options, so that topics with equal options share a connection."""
        from orchestration.kafka import client as kafka

        found: list[tuple[dict[str, str], set[str]]] = []
        for topic in self._pipeline.bronze:
            options = kafka.client_options(self._settings, self._pipeline, topic)
            same = next((names for known, names in found if known == options), None)
            if same is None:
                found.append((options, same := set()))
            same |= topics.get(topic.table, frozenset())
        return found


def records_behind(topic: Topic, offsets: TopicOffsets, position: Offsets | None) -> int | None:
    """Number of Kafka records that bronze has yet to read; None if it is not known.

    A partition without a position is read from its oldest record, as Spark reads a new partition. Offsets
    without a record (transaction markers, compacted records) count as records.
    """
    if position is None and (topic.starting_offsets != "earliest" or topic.starting_timestamp is not None):
        return None
    behind = 0
    for name in set(topic.topic_names) | set(position or {}):
        wanted = topic.assign[name] if topic.assign is not None and name in topic.assign else None
        for partition, end in offsets.end.get(name, {}).items():
            if wanted is None or partition in wanted:
                start = (
                    (position or {})
                    .get(name, {})
                    .get(partition, offsets.first.get(name, {}).get(partition, 0))
                )
                behind += max(0, end - start)
    return behind
