"""The engine's own Kafka client: the pipeline's broker, its topics, and their offsets.

It uses confluent_kafka's admin client and reads no records; Spark reads them. Failures are ``BrokerError``
with the broker's address; librdkafka's own log lines never reach the terminal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from common.config.settings import Settings
from common.declare import KafkaSink, Pipeline, Topic
from common.errors import BrokerError, PipelineError, Problem
from orchestration.access.kafka.client_options import create_client, librdkafka_options
from orchestration.access.kafka.refusals import certificate_fault, endpoint_fault, is_refused

Offsets = dict[str, dict[int, int]]

_SERVERS = "bootstrap.servers"
_REQUEST_SECONDS = 30.0
_NO_TOKEN = "OAUTHBEARER token: "  # noqa: S105  # words of librdkafka
_RETENTION = ("retention.ms", "retention.bytes")
# The partition was created or moved to another broker a moment ago; a second request succeeds.
_MOVING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Offsets by topic and partition."""

    first: Offsets = field(default_factory=dict)  # the oldest record that Kafka still has
    # The last stable offset: the end for a reader of committed records.
    end: Offsets = field(default_factory=dict)
    # The high watermark: the end with the records of open transactions.
    high: Offsets = field(default_factory=dict)


def named_broker(pipeline: Pipeline, settings: Settings) -> str | None:
    """The address of the pipeline's broker; None for the embedded broker.

    Settings win over the pipeline, the pipeline wins over its topics.

    Raises:
        PipelineError: The topics name different brokers, or only some of them name one.
    """
    named = (
        settings.kafka.bootstrap_servers
        or settings.kafka.options.get(_SERVERS)
        or pipeline.kafka.get(_SERVERS)
    )
    if named:
        return named
    addresses = {topic.kafka.get(_SERVERS) for topic in pipeline.topics}
    if len(addresses) > 1:
        found = ", ".join(
            f"{topic.table}: {topic.kafka.get(_SERVERS) or 'none'}" for topic in pipeline.topics
        )
        text = (
            f"topics name different brokers ({found}); a pipeline reads from one broker: name it by kafka=…"
        )
        raise PipelineError([Problem(f"Pipeline {pipeline.name!r}", text)])
    return next(iter(addresses), None)


def client_options(settings: Settings, pipeline: Pipeline, topic: Topic | None = None) -> dict[str, str]:
    """Kafka client options of a topic; settings win over the topic's options, these over the pipeline's.

    The address is left out; ``named_broker`` returns it.
    """
    options = {**pipeline.kafka, **(topic.kafka if topic else {}), **settings.kafka.options}
    options.pop(_SERVERS, None)
    return options


def sink_options(
    settings: Settings, pipeline: Pipeline, sink: KafkaSink, bootstrap_servers: str
) -> dict[str, str]:
    """Kafka client options of a sink, with the address.

    A sink that names a broker of its own gets only its own options, so that credentials of the pipeline's
    broker are never sent to another one.
    """
    if _SERVERS in sink.kafka:
        return dict(sink.kafka)
    return {**client_options(settings, pipeline), **sink.kafka, _SERVERS: bootstrap_servers}


def wait_reachable(bootstrap: str, options: Mapping[str, str], timeout: float) -> None:
    """Return as soon as a broker answers at this address. A refused login or certificate ends the wait.

    Args:
        bootstrap: ``host:port[,host:port…]``.

    Raises:
        BrokerError: No broker answered in time; names the reason, if the client knows it.
    """
    reasons: list[KafkaError] = []
    client = admin_client(bootstrap, options, reasons.append)
    deadline = time.monotonic() + timeout
    while True:
        try:
            client.list_topics(timeout=max(0.1, min(1.0, deadline - time.monotonic())))
        except KafkaException as error:
            client.poll(0)  # delivers errors of the connection, such as a refused one
            if any(map(is_refused, reasons)):
                raise _refused(bootstrap, options, reasons) from error
            if time.monotonic() < deadline:
                continue
            if fault := endpoint_fault(librdkafka_options(options)):
                raise _no_token(bootstrap, fault) from error
            why = _reason(reasons) or error.args[0].str()
            raise BrokerError(
                f"No Kafka broker answered at {bootstrap} within {timeout:g} s: {why}. Check that it runs "
                "and that address and security options (kafka.bootstrap_servers, kafka.options) are right."
            ) from error
        return


def _refused(bootstrap: str, options: Mapping[str, str], reasons: Sequence[KafkaError]) -> BrokerError:
    why = _reason([error for error in reasons if is_refused(error)])
    if _NO_TOKEN in why:
        return _no_token(bootstrap, why.partition(_NO_TOKEN)[2])
    fault = certificate_fault(bootstrap, librdkafka_options(options)) if "SSL" in why else None
    return BrokerError(
        f"The Kafka broker at {bootstrap} refuses this client: {fault or why}. Correct the security options "
        "(security.protocol, sasl.*, ssl.*) in kafka.options, or the broker's certificate."
    )


def _no_token(bootstrap: str, why: str) -> BrokerError:
    return BrokerError(
        f"No token to log in with at the Kafka broker at {bootstrap}: {why}. "
        "Check sasl.oauthbearer.client.id, client.secret, scope and token.endpoint.url in kafka.options, "
        "and that the token endpoint can be reached from here."
    )


def is_ready(bootstrap: str, timeout: float) -> bool:
    """Whether the embedded broker answers within ``timeout`` seconds and can create a topic."""
    client = admin_client(bootstrap, {"reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "100"})
    probe = "medallion_ready"
    created = client.create_topics([NewTopic(probe, 1, 1)], validate_only=True, request_timeout=timeout)
    try:
        created[probe].result()
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True


def topic_names(bootstrap: str, options: Mapping[str, str]) -> list[str]:
    """Names of the broker's topics, sorted, without Kafka's internal topics.

    Raises:
        BrokerError: The broker does not answer the request.
    """
    return sorted(
        name for name in _partitions(admin_client(bootstrap, options), bootstrap) if not name.startswith("__")
    )


def missing_topics(bootstrap: str, names: Iterable[str], options: Mapping[str, str]) -> list[str]:
    """The topics that the broker lacks or hides from this user, in the given order.

    Raises:
        BrokerError: The broker does not answer the request.
    """
    there = _partitions(admin_client(bootstrap, options), bootstrap)
    return [name for name in dict.fromkeys(names) if name not in there]


def ensure_topics(
    bootstrap: str, names: Iterable[str], partitions: int, options: Mapping[str, str]
) -> list[str]:
    """Create the missing topics and return their names; existing topics are not changed.

    Raises:
        BrokerError: A topic cannot be created; names the topic and the reason.
    """
    client = admin_client(bootstrap, options)
    there = _partitions(client, bootstrap)
    missing = [name for name in dict.fromkeys(names) if name not in there]
    if not missing:
        return []
    created = client.create_topics(
        [NewTopic(name, partitions, 1) for name in missing], request_timeout=_REQUEST_SECONDS
    )
    for name, result in created.items():
        try:
            result.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise BrokerError(
                    f"Topic {name} cannot be created at {bootstrap}: {error.args[0].str()}."
                ) from error
    await_leaders(client, bootstrap, missing)
    return missing


def end_offsets(bootstrap: str, topics: Sequence[str], options: Mapping[str, str]) -> Offsets:
    """Per topic and partition, the end offset for a consumer that reads committed records only.

    A topic that does not exist has no partitions: ``{}``.

    Raises:
        BrokerError: The broker does not answer the request.
    """
    return _offsets(bootstrap, topics, options, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def first_offsets(bootstrap: str, topics: Sequence[str], options: Mapping[str, str]) -> Offsets:
    """Per topic and partition, the offset of the oldest record; the end offset if there is no record.

    A topic that does not exist has no partitions: ``{}``.

    Raises:
        BrokerError: The broker does not answer the request.
    """
    return _offsets(bootstrap, topics, options, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def offsets_at(
    bootstrap: str, topics: Sequence[str], options: Mapping[str, str], timestamp_ms: int
) -> Offsets:
    """Per topic and partition, the first offset whose record has this Kafka timestamp or a later one.

    It is -1 where the partition has no such record.

    Raises:
        BrokerError: The broker does not answer the request.
    """
    return _offsets(bootstrap, topics, options, OffsetSpec.for_timestamp(timestamp_ms))


def partition_offsets(
    bootstrap: str,
    topics: Sequence[str],
    options: Mapping[str, str],
    partitions: Mapping[str, Sequence[int]] | None = None,
) -> PartitionOffsets:
    """First offsets, last stable offsets and high watermarks of topics, by one client.

    Args:
        bootstrap: ``host:port[,host:port…]``.
        partitions: The partitions of each topic to ask for; None for all of them.

    Raises:
        BrokerError: The broker does not answer the request.
    """
    client = admin_client(bootstrap, options)
    there = _partitions(client, bootstrap) if partitions is None else partitions
    earliest, latest = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return PartitionOffsets(
        first=_listed(client, bootstrap, topics, there, earliest),
        # First the high watermark: the last stable offset that is read after it may only be larger.
        high=_listed(client, bootstrap, topics, there, latest, IsolationLevel.READ_UNCOMMITTED),
        end=_listed(client, bootstrap, topics, there, latest),
    )


def retention(bootstrap: str, topics: Sequence[str], options: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """What deletes records of each topic: ``retention.ms``, ``retention.bytes``, ``cleanup.policy.delete``.

    A limit of -1 is none; ``cleanup.policy.delete`` is 0 for a topic that is only compacted.

    Raises:
        BrokerError: The broker does not answer, or this user may not describe the topics' configuration.
    """
    client = admin_client(bootstrap, options)
    asked = client.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in topics], request_timeout=_REQUEST_SECONDS
    )
    found: dict[str, dict[str, int]] = {}
    for resource, answer in asked.items():
        with translated(f"configuration of {resource.name}", bootstrap):
            values = {name: entry.value for name, entry in answer.result().items()}
        found[resource.name] = {name: int(values.get(name) or -1) for name in _RETENTION} | {
            "cleanup.policy.delete": int("delete" in (values.get("cleanup.policy") or "delete"))
        }
    return found


def _offsets(bootstrap: str, topics: Sequence[str], options: Mapping[str, str], spec: OffsetSpec) -> Offsets:
    client = admin_client(bootstrap, options)
    return _listed(client, bootstrap, topics, _partitions(client, bootstrap), spec)


def _listed(  # noqa: PLR0913, PLR0917  # the parts of one request
    client: AdminClient,
    bootstrap: str,
    topics: Sequence[str],
    there: Mapping[str, Sequence[int]],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Offsets:
    found: Offsets = {topic: {} for topic in topics}
    requested = {TopicPartition(topic, number): spec for topic in found for number in there.get(topic, ())}
    deadline = time.monotonic() + _REQUEST_SECONDS
    while requested:
        answers = client.list_offsets(requested, isolation_level=isolation, request_timeout=_REQUEST_SECONDS)
        requested = {}
        for partition, answer in answers.items():
            with translated(f"offsets of {partition.topic}-{partition.partition}", bootstrap):
                try:
                    found[partition.topic][partition.partition] = answer.result().offset
                except KafkaException as error:
                    if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                        raise
                    requested[partition] = spec
        if requested:
            time.sleep(0.05)
    return {topic: dict(sorted(numbers.items())) for topic, numbers in found.items()}


def _partitions(client: AdminClient, bootstrap: str) -> dict[str, list[int]]:
    with translated("topics", bootstrap):
        listed = client.list_topics(timeout=_REQUEST_SECONDS).topics
    return {name: sorted(topic.partitions) for name, topic in listed.items()}


def await_leaders(client: AdminClient, bootstrap: str, names: Sequence[str]) -> None:
    """Wait until each partition of new topics has a leader, a moment after the controller has created them.

    Raises:
        BrokerError: A partition has none after half a minute.
    """
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        with translated("topics", bootstrap):
            topics = client.list_topics(timeout=_REQUEST_SECONDS).topics
        waiting = [
            n for n in names if n not in topics or any(p.leader < 0 for p in topics[n].partitions.values())
        ]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise BrokerError(
                f"Topics {', '.join(waiting)} were created at {bootstrap}, but no broker leads them."
            )
        time.sleep(0.05)


@contextmanager
def translated(what: str, bootstrap: str) -> Iterator[None]:
    """Raise ``BrokerError`` for an error of Kafka's client; ``what`` the broker did not return."""
    try:
        yield
    except KafkaException as error:
        raise BrokerError(
            f"The broker at {bootstrap} did not return its {what}: {error.args[0].str()}. "
            "Check that it runs, and that this user may describe its topics."
        ) from error


def admin_client(
    bootstrap: str, options: Mapping[str, str], on_error: Callable[[KafkaError], None] | None = None
) -> AdminClient:
    """An admin client that prints nothing; ``on_error`` gets the errors of its connections."""
    config: dict[str, Any] = librdkafka_options(options)
    # librdkafka retries forever and logs each attempt to stderr; errors come through error_cb instead.
    quiet = {
        _SERVERS: bootstrap,
        "log_level": 0,
        "error_cb": lambda error: on_error(error) if on_error else None,
    }
    config |= quiet
    return create_client(AdminClient, config)


def _reason(errors: Sequence[KafkaError]) -> str:
    """The last error that names a cause; "all brokers are down" names none."""
    causes = [error.str() for error in errors if "brokers are down" not in error.str()]
    return (
        re.sub(r"\s*\(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)", "", causes[-1])
        if causes
        else ""
    )
