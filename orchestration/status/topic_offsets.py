"""How far the topics reach, asked without ever making the one who asks wait long.

The question goes out in a thread of its own: a broker that is down keeps Kafka's client busy for
half a minute, and a display must not stand still for that.
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
class Reach:
    """What the broker said.

    Attributes:
        address: The broker that was asked, or None when none is known.
        note: Why nothing is known; empty when the broker answered.
        first: Per topic and partition, the oldest offset kept.
        end: Per topic and partition, the first offset that cannot be read yet.
    """

    address: str | None = None
    note: str = ""
    first: Offsets = field(default_factory=dict)
    end: Offsets = field(default_factory=dict)


class BrokerOffsets:
    """Asks the broker in force; one question at a time."""

    def __init__(self, pipeline: Pipeline, settings: Settings) -> None:
        self._pipeline, self._settings = pipeline, settings
        self._asking: threading.Thread | None = None
        self._answer = Reach()
        self._first: dict[str, Mapping[int, int]] = {}
        """Kept once known: it counts only for what was never read, before retention sets in."""

    def ask(self, topics: Mapping[str, frozenset[str]]) -> Reach:
        """How far topics reach, within three seconds.

        Args:
            topics: Topic names per bronze table.
        """
        # A question that is still out is not waited for again.
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._ask, args=(topics,), daemon=True)
            self._asking.start()
            self._asking.join(_WAIT_SECONDS)
        if self._asking.is_alive():
            return Reach(self._answer.address, note="broker does not answer")
        return self._answer

    def _ask(self, topics: Mapping[str, frozenset[str]]) -> None:
        from orchestration.embedded_broker import (
            lifecycle as broker,  # Kafka's client is loaded when it is needed
        )
        from orchestration.kafka import client as kafka  # Kafka's client is loaded when it is needed

        address = None
        end: dict[str, Mapping[int, int]] = {}
        try:
            address = kafka.resolve(self._pipeline, self._settings) or broker.running_address(self._settings)
            if address is None:
                self._answer = Reach(note="broker not running")
                return
            for options, names in self._asked(topics):
                if not names <= self._first.keys():
                    found = kafka.first_offsets(address, sorted(names), options)
                    self._first |= {name: partitions for name, partitions in found.items() if partitions}
                end |= kafka.end_offsets(address, sorted(names), options)
        except MedallionError as error:
            self._answer = Reach(address, note=str(error).partition(". ")[0])
        else:
            self._answer = Reach(address, first=dict(self._first), end=end)

    def _asked(self, topics: Mapping[str, frozenset[str]]) -> list[tuple[dict[str, str], set[str]]]:
        """Topics by the client options they are reached with: one connection for all that share them."""
        from orchestration.kafka import client as kafka

        found: list[tuple[dict[str, str], set[str]]] = []
        for topic in self._pipeline.bronze:
            options = kafka.client_options(self._settings, self._pipeline, topic)
            same = next((names for known, names in found if known == options), None)
            if same is None:
                found.append((options, same := set()))
            same |= topics.get(topic.table, frozenset())
        return found


def records_behind(topic: Topic, reach: Reach, position: Offsets | None) -> int | None:
    """Kafka records that bronze has yet to read, or None where that cannot be known.

    A partition without a position is read from its oldest record, as Spark reads one that is new.
    Offsets that hold no record (transaction markers, compacted ones) count as records.
    """
    if position is None and (topic.starting_offsets != "earliest" or topic.starting_timestamp is not None):
        return None
    behind = 0
    for name in set(topic.topic_names) | set(position or {}):
        wanted = topic.assign[name] if topic.assign is not None and name in topic.assign else None
        for partition, end in reach.end.get(name, {}).items():
            if wanted is None or partition in wanted:
                start = (
                    (position or {}).get(name, {}).get(partition, reach.first.get(name, {}).get(partition, 0))
                )
                behind += max(0, end - start)
    return behind
