"""Reads single records by partition and offset, of many partitions at once.

A consumer without a group that commits nothing: it is assigned one offset per partition, and takes the first
committed record from there on. It passes over offsets without a record (transaction markers, compacted ones).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from common.errors import BrokerError
from orchestration.access.kafka.client_options import create_client, librdkafka_options

_FETCH_BYTES = 65_536

Place = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record without its bytes."""

    offset: int  # its offset
    timestamp_ms: int  # its Kafka timestamp
    digest: str  # of key, value and headers


def digest(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None) -> str:
    """A digest of what was sent with a record; no headers and an empty list of them are the same."""
    found = hashlib.sha256()
    texts = ((name.encode(), content) for name, content in headers or ())
    for part in (key, value, *(part for header in texts for part in header)):
        found.update(b"-" if part is None else b"%d:" % len(part) + part)
    return found.hexdigest()[:32]


class SingleRecords:
    """Reads single records by a consumer of its own; a context manager."""

    def __init__(self, bootstrap: str, options: Mapping[str, str]) -> None:
        """Connect.

        Raises:
            BrokerError: An option does not fit.
        """
        # The end of a partition is told: behind it no record is waited for.
        self._bootstrap = bootstrap
        self._consumer = open_consumer(bootstrap, {**options, "enable.partition.eof": "true"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def first(self, places: Collection[Place], seconds: float) -> dict[Place, Record]:
        """The first committed record from each of these places on; a place without one is left out.

        Raises:
            BrokerError: The topics cannot be read by this user, or the broker does not answer in time.
        """
        try:
            found, waiting = first_messages(self._consumer, places, seconds)
        except KafkaException as error:
            raise BrokerError(
                f"Records at {self._bootstrap} cannot be read: {error.args[0].str()}. Check that this user "
                "may read the topics."
            ) from error
        if waiting:  # not the same as no record
            topic, partition = min(waiting)
            more = f" and of {len(waiting) - 1} more" if len(waiting) > 1 else ""
            raise BrokerError(
                f"The broker at {self._bootstrap} did not give a record of topic {topic}, partition "
                f"{partition}{more}, within {seconds:.0f} seconds. Check that it runs and is not overloaded. "
                "Without an answer the last record that was read cannot be compared."
            )
        return {place: _record(message) for place, message in found.items()}


def open_consumer(bootstrap: str, options: Mapping[str, str]) -> Consumer:
    """A consumer without a group, to be closed by the caller.

    Raises:
        BrokerError: An option does not fit.
    """
    config = {
        **librdkafka_options(options),
        "bootstrap.servers": bootstrap,
        "group.id": "medallion-status",  # required by the client; nothing is committed
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "fetch.message.max.bytes": _FETCH_BYTES,
        "queued.max.messages.kbytes": 1024,
        "log_level": 0,
    }
    return create_client(Consumer, config)


class FirstMessages(NamedTuple):
    """What was read of some places."""

    # The first committed record from each place on; one that is missing has none, unless it waits.
    found: dict[Place, Message]
    waiting: frozenset[tuple[str, int]]  # topics and partitions that were not answered in time


def first_messages(consumer: Consumer, places: Collection[Place], seconds: float) -> FirstMessages:
    """The first committed record from each of these places on, one place per partition.

    Args:
        consumer: Tells the end of a partition, or such a partition is waited for.

    Raises:
        KafkaException: The topics cannot be read by this user.
    """
    waiting = {(topic, partition): offset for topic, partition, offset in places}
    consumer.assign([TopicPartition(*place) for place in places])
    found: dict[Place, Message] = {}
    deadline = time.monotonic() + seconds
    try:
        while waiting and (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None:
                continue
            topic, partition = message.topic(), message.partition()
            at = (topic or "", -1 if partition is None else partition)
            if (error := message.error()) is not None:
                if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise KafkaException(error)
                if error.code() == KafkaError._PARTITION_EOF and at in waiting:  # noqa: SLF001  # its public name
                    waiting.pop(at)
                continue
            if at in waiting:
                found[(*at, waiting.pop(at))] = message
                consumer.incremental_unassign([TopicPartition(*at)])
    finally:
        consumer.unassign()
    return FirstMessages(found, frozenset(waiting))


def keys_since(  # noqa: PLR0913, PLR0917  # where, since when, and how much at most
    bootstrap: str, options: Mapping[str, str], topic: str, since_ms: int | None, most: int, seconds: float
) -> set[bytes | None] | None:
    """The keys of a topic's committed messages since a time; None where not all of them can be told.

    Args:
        since_ms: Milliseconds since the epoch; None: of its newest messages.
        most: Upper bound of messages that are read.

    Raises:
        BrokerError: The broker does not answer, or the topic cannot be read by this user.
    """
    consumer = open_consumer(bootstrap, {**options, "enable.partition.eof": "true"})
    try:
        parts = consumer.list_topics(topic, timeout=seconds).topics[topic].partitions
        places = [TopicPartition(topic, number) for number in parts]
        ends = {one.partition: consumer.get_watermark_offsets(one, timeout=seconds) for one in places}
        for one in places:
            first, end = ends[one.partition]
            one.offset = max(first, end - most // len(places)) if since_ms is None else since_ms
        if since_ms is not None:
            places = consumer.offsets_for_times(places, timeout=seconds)
        begins = [one for one in places if 0 <= one.offset < ends[one.partition][1]]
        if since_ms is not None and any(one.offset == ends[one.partition][0] > 0 for one in begins):
            return None  # retention may have deleted messages since then
        consumer.assign(begins)
        return _keys(consumer, len(begins), most, seconds)
    except KafkaException as error:
        raise BrokerError(f"topic {topic} at {bootstrap} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _keys(consumer: Consumer, partitions: int, most: int, seconds: float) -> set[bytes | None] | None:
    found: set[bytes | None] = set()
    deadline, left, read = time.monotonic() + seconds, partitions, 0
    while left:
        message = consumer.poll(max(0.0, deadline - time.monotonic()))
        if message is None or read > most:
            return None
        if (error := message.error()) is None:
            found.add(message.key())
            read += 1
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its public name
            left -= 1
    return found


def _record(message: Message) -> Record:
    headers: Iterable[tuple[str, bytes | None]] = message.headers() or ()  # type: ignore[assignment]
    sent = digest(message.key(), message.value(), tuple(headers))
    return Record(message.offset() or 0, message.timestamp()[1], sent)
