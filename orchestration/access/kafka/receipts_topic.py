"""Reads the receipts of a topic, which anybody may have written."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from common.errors import BrokerError
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.receipts import Receipt, record_digest
from orchestration.access.kafka.single_records import open_consumer

_SECONDS = 60.0
"""How long the next records are waited for."""

_POLL_SECONDS = 5.0

_NAME_LETTERS = 32
"""How much of a record's digest names it: nobody makes another record of the same."""


@dataclass(frozen=True, slots=True)
class GivenReceipts:
    """What a topic of receipts holds."""

    receipts: tuple[Receipt, ...] = ()  # the receipts, each once; with a key only those that it has signed
    # The names of its records that are none, by why
    wrong: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_cut: bool = False  # whether retention has deleted the oldest records of the topic
    # When the newest of them was written, by Kafka's clock; None: there is none. A time that has not come is
    # no such time: whoever writes a record may choose it
    newest: datetime | None = None

    def without(self, names: Collection[str]) -> GivenReceipts:
        """The same without the records of some names."""
        wrong = {why: [one for one in found if one not in names] for why, found in self.wrong.items()}
        receipts = tuple(one for one in self.receipts if one.name not in names)
        return replace(self, receipts=receipts, wrong={why: found for why, found in wrong.items() if found})


def read_receipts(
    bootstrap: str, topic: str, options: Mapping[str, str], key: str | None = None
) -> GivenReceipts:
    """All receipts of a topic.

    A record takes the place of no other: two that differ in more than the signature are two receipts.

    Args:
        key: Must have signed them; None: no signature is looked at.

    Raises:
        BrokerError: The topic does not exist, or cannot be read whole.
    """
    ends = kafka.end_offsets(bootstrap, [topic], options)[topic]
    firsts = kafka.first_offsets(bootstrap, [topic], options)[topic]
    if not ends:
        raise BrokerError(f"Topic {topic} does not exist at {bootstrap}. Create it, or correct receipts=….")
    found: dict[Receipt, None] = {}
    wrong: dict[str, list[str]] = {}
    times: list[int] = []
    consumer = open_consumer(bootstrap, options)
    try:
        for message in _messages(consumer, bootstrap, topic, firsts, ends):
            name = record_digest(message.key(), message.value())[:_NAME_LETTERS]
            try:
                found[replace(_receipt(message.value(), key), signature=None, name=name)] = None
                times.append(message.timestamp()[1])
            except ValueError as error:
                wrong.setdefault(str(error), []).append(name)
    except KafkaException as error:
        raise BrokerError(
            f"Topic {topic} at {bootstrap} cannot be read: {error.args[0].str()}. Check that it exists, and "
            "that this user may read it."
        ) from error
    finally:
        consumer.close()
    return GivenReceipts(tuple(found), wrong, any(firsts.values()), newest_time(times, time.time()))


def newest_time(times: Iterable[int], now: float) -> datetime | None:
    """The newest of some times in milliseconds that has come, by a time in seconds; None: there is none."""
    come = max((one for one in times if 0 < one <= now * 1000), default=None)
    return None if come is None else datetime.fromtimestamp(come / 1000, UTC)


def _receipt(value: bytes | None, key: str | None) -> Receipt:
    """The receipt of a record's value.

    Raises:
        ValueError: It is none.
    """
    if value is None:
        raise ValueError("it has no value, which deletes the receipt of its key from a compacted topic")
    found = Receipt.parse(value)
    if key is not None and not found.is_signed_by(key):
        raise ValueError("it is not signed by kafka.receipts_key")
    return found


def _messages(
    consumer: Consumer, bootstrap: str, topic: str, firsts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[Message]:
    """The records of a topic from the first offsets to the ends."""
    at = {number: firsts[number] for number, end in ends.items() if end > firsts[number]}
    consumer.assign([TopicPartition(topic, number, first) for number, first in at.items()])
    deadline = time.monotonic() + _SECONDS
    while at:
        message = consumer.poll(_POLL_SECONDS)
        if message is not None and message.error() is None:
            yield message
        # Behind the last record may be offsets without one, such as the marks of transactions.
        now = {each.partition: each.offset for each in consumer.position(consumer.assignment())}
        if any(now.get(number, 0) > before for number, before in at.items()):
            deadline = time.monotonic() + _SECONDS
        at = {
            number: max(at[number], now.get(number, 0)) for number in at if now.get(number, 0) < ends[number]
        }
        if at and time.monotonic() > deadline:
            raise BrokerError(f"Topic {topic} at {bootstrap} sent nothing for {_SECONDS:.0f} s.")
