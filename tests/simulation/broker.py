"""A broker in memory: partitions of records, of which some were aborted, and markers of transactions."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from common.errors import BrokerError
from common.streaming.topic_identity import BrokerTopic
from orchestration.access.kafka.single_records import Place, Record

TOPIC = "orders"


@dataclass(frozen=True, slots=True)
class Sent:
    """What is at an offset; a number of 0 is no record: one that was aborted, or a marker."""

    number: int
    at_ms: int

    def record(self, offset: int) -> Record:
        """As the product reads it."""
        return Record(offset, self.at_ms, f"{self.number}")


@dataclass
class Broker:
    """One topic of two partitions.

    Attributes:
        first: Per partition, the first offset that retention has left.
        is_away: Whether it answers nobody.
        is_slow: Whether single records do not come in time.
    """

    topic_id: str = "id-1"
    partitions: list[list[Sent]] = field(default_factory=lambda: [[], []])
    first: list[int] = field(default_factory=lambda: [0, 0])
    is_away: bool = False
    is_slow: bool = False

    def copy(self) -> Broker:
        """Its folder as it is now."""
        return copy.deepcopy(self)

    def put_back(self, former: Broker, partitions: Iterable[int] = (0, 1)) -> None:
        """Have a copy of its folder again, or of some partitions, as after an unclean election."""
        for number in partitions:
            self.partitions[number] = list(former.partitions[number])
            self.first[number] = former.first[number]

    def topics(self, names: Iterable[str]) -> dict[str, BrokerTopic]:
        """``broker_topics`` of the product."""
        if self.is_away:
            raise BrokerError("the broker does not answer")
        ends = {number: len(one) for number, one in enumerate(self.partitions)}
        return {
            name: BrokerTopic(self.topic_id, dict(enumerate(self.first)), ends)
            for name in names
            if name == TOPIC
        }

    def records(self, partition: int, start: int, end: int) -> list[tuple[int, Sent]]:
        """The committed records of a range, with their offsets."""
        found = self.partitions[partition]
        return [(at, found[at]) for at in range(max(start, self.first[partition]), end) if found[at].number]


class SimulatedRecords:
    """``SingleRecords`` of the product over this broker."""

    broker = Broker()

    def __init__(self, bootstrap: str, options: Mapping[str, str]) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def first(self, places: Collection[Place], seconds: float) -> dict[Place, Record]:
        """The first committed record from each place on."""
        if self.broker.is_away or self.broker.is_slow:
            raise BrokerError("the broker does not answer")
        found = {}
        for place in places:
            _, partition, offset = place
            end = len(self.broker.partitions[partition])
            for at, sent in self.broker.records(partition, offset, end):
                found[place] = sent.record(at)
                break
        return found
