"""One topic of the broker: creates it, describes it, and reads its newest records, without Spark."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from common.errors import BrokerError, UsageError
from orchestration.access.kafka.client import admin_client, await_leaders, partition_offsets, translated
from orchestration.access.kafka.single_records import open_consumer

_REQUEST_SECONDS = 30.0
_BROKERS_DEFAULT = -1
_MISUSED = {
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST,
    KafkaError.POLICY_VIOLATION,
    KafkaError._INVALID_ARG,  # noqa: SLF001  # its public name
}
"""What the broker refuses for what was asked, not for its own state."""
_ABSENT = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}
_HIDDEN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition."""

    number: int  # its number
    leader: int | None  # id of the broker that leads it; None while none does
    replicas: tuple[int, ...]  # ids of the brokers that are to have it
    in_sync: tuple[int, ...]  # ids of those that have all of it
    first: int | None  # offset of the oldest record; None without a leader
    end: int | None  # offset after the newest committed record; None without a leader


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration of a topic that differs from Kafka's default."""

    name: str  # its name
    value: str | None  # its value; None where the broker keeps it secret
    set_on: str  # ``topic`` or ``broker``


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, in order, and its configurations, by name."""

    name: str
    partitions: tuple[Partition, ...]
    configs: tuple[Config, ...]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record; ``timestamp_ms`` is None where it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(  # noqa: PLR0913  # all options are keyword arguments
    bootstrap: str,
    options: Mapping[str, str],
    name: str,
    *,
    partitions: int | None = None,
    replication: int | None = None,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic; None leaves a number to the broker's default.

    Raises:
        UsageError: The topic exists, or the broker refuses its name, numbers or configurations.
        BrokerError: The broker does not answer, or this user may not create topics.
    """
    new = NewTopic(
        name,
        num_partitions=partitions or _BROKERS_DEFAULT,
        replication_factor=replication or _BROKERS_DEFAULT,
        config=dict(configs or {}),
    )
    client = admin_client(bootstrap, options)
    try:
        client.create_topics([new], request_timeout=_REQUEST_SECONDS)[name].result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            raise UsageError(
                f"Topic {name} exists at {bootstrap} already; it was not changed. See it with: "
                f"medallion topic describe {name}"
            ) from error
        if reason.code() in _MISUSED:
            raise UsageError(f"The broker at {bootstrap} refuses topic {name}: {reason.str()}") from error
        raise BrokerError(
            f"Topic {name} cannot be created at {bootstrap}: {reason.str()}. Check that the broker runs, and "
            "that this user may create topics."
        ) from error
    await_leaders(client, bootstrap, [name])


def describe_topic(bootstrap: str, options: Mapping[str, str], name: str) -> TopicDescription:
    """A topic's partitions with their offsets, and the configurations that differ from Kafka's defaults.

    Raises:
        UsageError: The broker has no such topic, or hides it from this user.
        BrokerError: The broker does not answer, or this user may not describe the topic.
    """
    client = admin_client(bootstrap, options)
    with translated(f"description of topic {name}", bootstrap):
        try:
            asked = client.describe_topics(TopicCollection([name]), request_timeout=_REQUEST_SECONDS)
            found = asked[name].result()
        except KafkaException as error:
            if error.args[0].code() not in _ABSENT:
                raise
            raise UsageError(
                f"Topic {name} does not exist at {bootstrap}, or this user may not see it. Create it with: "
                f"medallion topic create {name}"
            ) from error
    led = [each.id for each in found.partitions if _id(each.leader) is not None]
    offsets = partition_offsets(bootstrap, [name], options, {name: led})
    partitions = (
        Partition(
            each.id,
            _id(each.leader),
            tuple(node.id for node in each.replicas),
            tuple(node.id for node in each.isr),
            offsets.first[name].get(each.id),
            offsets.end[name].get(each.id),
        )
        for each in found.partitions
    )
    numbered = tuple(sorted(partitions, key=lambda each: each.number))
    return TopicDescription(name, numbered, _configs(bootstrap, options, name))


def newest_records(
    bootstrap: str, options: Mapping[str, str], topic: TopicDescription, count: int
) -> list[TopicRecord]:
    """The newest committed records of each partition, oldest first; a partition without a leader has none.

    Raises:
        BrokerError: The records cannot be read, or the broker sends none for half a minute.
    """
    firsts = {each.number: each.first for each in topic.partitions if each.first is not None}
    ends = {each.number: each.end for each in topic.partitions if each.end is not None}
    found: dict[int, list[TopicRecord]] = {number: [] for number in ends}
    window = count
    # Kafka tells the end of a partition, behind which there may be offsets without a record.
    consumer = open_consumer(bootstrap, {**options, "enable.partition.eof": "true"})
    try:
        # Offsets without a record make it look further back.
        while ranges := {
            number: range(max(firsts[number], end - window), end)
            for number, end in ends.items()
            if end > firsts[number] and len(found[number]) < count
        }:
            with translated(f"records of topic {topic.name}", bootstrap):
                read = _between(consumer, topic.name, ranges, count)
            for number, records in read.items():
                found[number] = [*records, *found[number]][-count:]
                ends[number] = ranges[number].start
            window *= 4
    finally:
        consumer.close()
    return [record for number in sorted(found) for record in found[number]]


def _between(
    consumer: Consumer, topic: str, ranges: Mapping[int, range], count: int
) -> dict[int, deque[TopicRecord]]:
    """The newest records of partitions within ranges of offsets."""
    found = {number: deque[TopicRecord](maxlen=count) for number in ranges}
    waiting = set(ranges)
    consumer.assign([TopicPartition(topic, number, offsets.start) for number, offsets in ranges.items()])
    deadline = time.monotonic() + _REQUEST_SECONDS
    while waiting and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        error = None if message is None else message.error()
        if error is not None and error.code() in _HIDDEN:
            raise KafkaException(error)
        number = None if message is None else message.partition()
        if message is None or number not in waiting:
            continue
        if error is None:
            deadline = time.monotonic() + _REQUEST_SECONDS
            record = _record(message)
            if record.offset < ranges[number].stop:
                found[number].append(record)
            is_read = record.offset >= ranges[number].stop - 1
        else:  # any other error is one of the connection: the client tries again
            is_read = error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001  # its public name
        if is_read:
            waiting.remove(number)
            consumer.incremental_unassign([TopicPartition(topic, number)])
    if waiting:
        raise BrokerError(
            f"The broker sent no record of topic {topic}, partition {min(waiting)}, within "
            f"{_REQUEST_SECONDS:g} s. Check that it runs, and that this user may read the topic."
        )
    return found


def _record(message: Message) -> TopicRecord:
    kind, milliseconds = message.timestamp()
    return TopicRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),  # type: ignore[arg-type]
    )


def _configs(bootstrap: str, options: Mapping[str, str], name: str) -> tuple[Config, ...]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    client = admin_client(bootstrap, options)  # its requests end with it: it is to live until the answer
    asked = client.describe_configs([resource], request_timeout=_REQUEST_SECONDS)
    with translated(f"configuration of topic {name}", bootstrap):
        entries = asked[resource].result().values()
    sources = ((entry, ConfigSource(entry.source)) for entry in entries)
    found = (
        Config(
            entry.name,
            None if entry.is_sensitive else entry.value,
            "topic" if source == ConfigSource.DYNAMIC_TOPIC_CONFIG else "broker",
        )
        for entry, source in sources
        if source != ConfigSource.DEFAULT_CONFIG
    )
    return tuple(sorted(found, key=lambda config: config.name))


def _id(node: object) -> int | None:
    """Id of a broker; None for no broker, which Kafka's client gives as None or as -1."""
    number = getattr(node, "id", -1)
    return number if isinstance(number, int) and number >= 0 else None
