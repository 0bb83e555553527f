"""How far the topics reach, asked without ever making the one who asks wait long.

The question goes out in a thread of its own: a broker that is down keeps Kafka's client busy for
half a minute, and a display must not stand still for that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from common.declare import Pipeline, Topic
from common.errors import MedallionError
from common.settings import Settings

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
        from orchestration import broker, kafka  # noqa: PLC0415  # Kafka's client is loaded when it is needed

        address = None
        first: dict[str, Mapping[int, int]] = {}
        end: dict[str, Mapping[int, int]] = {}
        try:
            address = kafka.resolve(self._pipeline, self._settings) or broker.running_address(self._settings)
            if address is None:
                self._answer = Reach(note="broker not running")
                return
            for topic in self._pipeline.bronze:
                names = sorted(topics.get(topic.table, frozenset()))
                options = kafka.client_options(self._settings, self._pipeline, topic)
                first |= kafka.first_offsets(address, names, options)
                end |= kafka.end_offsets(address, names, options)
        except MedallionError as error:
            self._answer = Reach(address, note=str(error).partition(". ")[0])
        else:
            self._answer = Reach(address, first=first, end=end)


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
