"""Samples messages of a topic, spread over its partitions and offsets; the topic is only read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from common.errors import BrokerError
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.client_options import librdkafka_options

_CHUNKS = 4
_SECONDS = 15.0
_END = KafkaError._PARTITION_EOF  # noqa: SLF001  # the client has no other name for it


@dataclass(frozen=True)
class Sampled:
    """One message: its partition, Kafka's timestamp in milliseconds (0: none), and its value."""

    partition: int
    timestamp: int
    value: bytes | None


def sample(bootstrap: str, topic: str, options: Mapping[str, str], count: int) -> list[Sampled]:
    """About ``count`` messages, in order within a partition; all messages if the topic has fewer.

    Raises:
        BrokerError: The topic cannot be read.
    """
    ends = kafka.end_offsets(bootstrap, [topic], options)[topic]
    firsts = kafka.first_offsets(bootstrap, [topic], options)[topic]
    spans = {number: chunks(firsts[number], end, count // len(ends)) for number, end in ends.items()}
    consumer = Consumer(
        {
            **librdkafka_options(options),
            "bootstrap.servers": bootstrap,
            "group.id": "medallion-init",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    found: list[Sampled] = []
    try:
        for turn in range(_CHUNKS):
            wanted = {number: parts[turn] for number, parts in spans.items() if turn < len(parts)}
            found += _read(consumer, topic, wanted)
    except KafkaException as error:
        raise BrokerError(
            f"Topic {topic} at {bootstrap} cannot be read: {error.args[0].str()}. Check that this user may "
            "read it."
        ) from error
    finally:
        consumer.close()
    return sorted(found, key=lambda each: each.partition)


def chunks(first: int, end: int, count: int) -> list[tuple[int, int]]:
    """Evenly spread ranges of ``count`` offsets in total; the whole range if it has fewer."""
    count = max(count, 1)
    if end - first <= count:
        return [(first, end)] if end > first else []
    number = min(_CHUNKS, count)
    size = count // number
    step = (end - first - size) / max(number - 1, 1)
    starts = [first + round(step * place) for place in range(number)]
    return [(start, start + size) for start in starts]


def _read(consumer: Consumer, topic: str, wanted: Mapping[int, tuple[int, int]]) -> list[Sampled]:
    found: list[Sampled] = []
    open_ = set(wanted)
    consumer.assign([TopicPartition(topic, number, start) for number, (start, _) in wanted.items()])
    deadline = time.monotonic() + _SECONDS
    while open_ and time.monotonic() < deadline:
        for record in consumer.consume(500, timeout=0.5):
            number, offset = record.partition(), record.offset()
            error = record.error()
            if error is not None and error.code() != _END:
                raise KafkaException(error)
            if number is None or offset is None or number not in open_:
                continue
            if error is not None or offset >= wanted[number][1]:
                open_.discard(number)
                continue
            found.append(Sampled(number, max(record.timestamp()[1], 0), record.value()))
            if offset + 1 >= wanted[number][1]:
                open_.discard(number)
    return found
