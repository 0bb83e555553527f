"""The engine's own Kafka client: which broker is in force, are its topics there, how far do they reach.

The only module that calls confluent_kafka's admin client. Records are not read here: Spark does that.
Failures are ``BrokerError`` with the address; librdkafka's own lines never reach the terminal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from common.config.settings import Settings
from common.declare import KafkaSink, Pipeline, Topic
from common.errors import BrokerError, PipelineError, Problem
from orchestration.kafka.client_options import librdkafka_options

Offsets = dict[str, dict[int, int]]

_SERVERS = "bootstrap.servers"
_REQUEST_SECONDS = 30.0
# A partition was made, or went to another broker, a moment ago: asked again it answers.
_MOVING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
_UNKNOWN_OPTION = re.compile(r'No such configuration property: "([^"]+)"')


def resolve(pipeline: Pipeline, settings: Settings) -> str | None:
    """The address of the broker in force; None: the embedded one.

    Settings win over the pipeline, the pipeline over its topics.

    Raises:
        PipelineError: Its topics name different brokers, or only some of them name one.
    """
    named = (
        settings.kafka.bootstrap_servers
        or settings.kafka.options.get(_SERVERS)
        or pipeline.kafka.get(_SERVERS)
    )
    if named:
        return named
    addresses = {topic.kafka.get(_SERVERS) for topic in pipeline.bronze}
    if len(addresses) > 1:
        found = ", ".join(
            f"{topic.table}: {topic.kafka.get(_SERVERS) or 'none'}" for topic in pipeline.bronze
        )
        text = f"topics name different brokers ({found}); a pipeline reads from one: name it by kafka=…"
        raise PipelineError([Problem(f"Pipeline {pipeline.name!r}", text)])
    return addresses.pop()


def client_options(settings: Settings, pipeline: Pipeline, topic: Topic | None = None) -> dict[str, str]:
    """Kafka client options of a topic, as declared: the pipeline's, then the topic's, then the settings'.

    Without the address: that is ``resolve``'s.
    """
    options = {**pipeline.kafka, **(topic.kafka if topic else {}), **settings.kafka.options}
    options.pop(_SERVERS, None)
    return options


def sink_options(
    settings: Settings, pipeline: Pipeline, sink: KafkaSink, bootstrap_servers: str
) -> dict[str, str]:
    """Kafka client options of rows that are sent on, the address among them.

    A sink that names a broker of its own gets its own options alone: what opens one broker's door is
    another's to be kept from.
    """
    if _SERVERS in sink.kafka:
        return dict(sink.kafka)
    return {**client_options(settings, pipeline), **sink.kafka, _SERVERS: bootstrap_servers}


def wait_reachable(bootstrap: str, options: Mapping[str, str], timeout: float) -> None:
    """Return as soon as a broker answers at this address.

    Args:
        bootstrap: ``host:port[,host:port…]``.
        options: Kafka client options.
        timeout: Seconds to wait for an answer.

    Raises:
        BrokerError: None did in time; says why, as far as the client knows.
    """
    reasons: list[str] = []
    client = _client(bootstrap, options, reasons.append)
    deadline = time.monotonic() + timeout
    while True:
        try:
            client.list_topics(timeout=max(0.1, min(1.0, deadline - time.monotonic())))
        except KafkaException as error:
            client.poll(0)  # hands over what went wrong underneath, such as a refused connection
            if time.monotonic() < deadline:
                continue
            why = _reason(reasons) or error.args[0].str()
            raise BrokerError(
                f"No Kafka broker answered at {bootstrap} within {timeout:g} s: {why}. Check that it runs "
                "and that address and security options (kafka.bootstrap_servers, kafka.options) are right."
            ) from error
        return


def is_ready(bootstrap: str, timeout: float) -> bool:
    """Whether the embedded broker answers within this many seconds and its controller would make a topic."""
    client = _client(bootstrap, {"reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "100"})
    probe = "medallion_ready"
    made = client.create_topics([NewTopic(probe, 1, 1)], validate_only=True, request_timeout=timeout)
    try:
        made[probe].result()
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True


def topic_names(bootstrap: str, options: Mapping[str, str]) -> list[str]:
    """Names of the topics there, sorted, Kafka's internal ones left out.

    Raises:
        BrokerError: The broker cannot be asked.
    """
    return sorted(
        name for name in _partitions(_client(bootstrap, options), bootstrap) if not name.startswith("__")
    )


def missing_topics(bootstrap: str, names: Iterable[str], options: Mapping[str, str]) -> list[str]:
    """Which of these topics do not exist there, or are hidden from this user; in the order given.

    Raises:
        BrokerError: The broker cannot be asked.
    """
    there = _partitions(_client(bootstrap, options), bootstrap)
    return [name for name in dict.fromkeys(names) if name not in there]


def ensure_topics(
    bootstrap: str, names: Iterable[str], partitions: int, options: Mapping[str, str]
) -> list[str]:
    """Make the topics that are missing, and return their names; those that exist stay as they are.

    Raises:
        BrokerError: A topic cannot be made; names it and says why.
    """
    client = _client(bootstrap, options)
    there = _partitions(client, bootstrap)
    missing = [name for name in dict.fromkeys(names) if name not in there]
    if not missing:
        return []
    made = client.create_topics(
        [NewTopic(name, partitions, 1) for name in missing], request_timeout=_REQUEST_SECONDS
    )
    for name, result in made.items():
        try:
            result.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise BrokerError(
                    f"Topic {name} cannot be made at {bootstrap}: {error.args[0].str()}."
                ) from error
    _await_leaders(client, bootstrap, missing)
    return missing


def end_offsets(bootstrap: str, topics: Sequence[str], options: Mapping[str, str]) -> Offsets:
    """Per topic and partition the first offset that a read-committed consumer cannot read yet.

    A topic that does not exist has no partitions: ``{}``.

    Raises:
        BrokerError: The broker cannot be asked.
    """
    return _offsets(bootstrap, topics, options, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def first_offsets(bootstrap: str, topics: Sequence[str], options: Mapping[str, str]) -> Offsets:
    """Per topic and partition the offset of the oldest record kept; equals the end where there is none.

    A topic that does not exist has no partitions: ``{}``.

    Raises:
        BrokerError: The broker cannot be asked.
    """
    return _offsets(bootstrap, topics, options, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def _offsets(bootstrap: str, topics: Sequence[str], options: Mapping[str, str], spec: OffsetSpec) -> Offsets:
    client = _client(bootstrap, options)
    there = _partitions(client, bootstrap)
    found: Offsets = {topic: {} for topic in topics}
    asked = {TopicPartition(topic, number): spec for topic in found for number in there.get(topic, ())}
    deadline = time.monotonic() + _REQUEST_SECONDS
    while asked:
        answers = client.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_REQUEST_SECONDS
        )
        asked = {}
        for partition, answer in answers.items():
            with _translated(f"offsets of {partition.topic}-{partition.partition}", bootstrap):
                try:
                    found[partition.topic][partition.partition] = answer.result().offset
                except KafkaException as error:
                    if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                        raise
                    asked[partition] = spec
        if asked:
            time.sleep(0.05)
    return {topic: dict(sorted(numbers.items())) for topic, numbers in found.items()}


def _partitions(client: AdminClient, bootstrap: str) -> dict[str, list[int]]:
    with _translated("topics", bootstrap):
        listed = client.list_topics(timeout=_REQUEST_SECONDS).topics
    return {name: sorted(topic.partitions) for name, topic in listed.items()}


def _await_leaders(client: AdminClient, bootstrap: str, names: Sequence[str]) -> None:
    # The controller has made them; a moment passes until the broker leads them and takes records.
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        with _translated("topics", bootstrap):
            topics = client.list_topics(timeout=_REQUEST_SECONDS).topics
        waiting = [
            n for n in names if n not in topics or any(p.leader < 0 for p in topics[n].partitions.values())
        ]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise BrokerError(
                f"Topics {', '.join(waiting)} were made at {bootstrap}, but no broker leads them."
            )
        time.sleep(0.05)


@contextmanager
def _translated(what: str, bootstrap: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise BrokerError(
            f"The broker at {bootstrap} did not say its {what}: {error.args[0].str()}. "
            "Check that it runs, and that this user may describe its topics."
        ) from error


def _client(
    bootstrap: str, options: Mapping[str, str], tell: Callable[[str], None] | None = None
) -> AdminClient:
    config: dict[str, Any] = librdkafka_options(options)
    # Nothing printed: it would retry for ever and say so on stderr. What matters comes by error_cb.
    quiet = {
        _SERVERS: bootstrap,
        "log_level": 0,
        "error_cb": lambda error: tell(error.str()) if tell else None,
    }
    config |= quiet
    while True:
        try:
            return AdminClient(config)
        except KafkaException as error:
            said = error.args[0].str()
            unknown = _UNKNOWN_OPTION.search(said)
            # Only the JVM's client knows it. What tunes that one may be left out here; what secures may not.
            if unknown and unknown[1] in config and not unknown[1].startswith(("ssl.", "sasl.", "security.")):
                del config[unknown[1]]
                continue
            raise BrokerError(
                f"A Kafka client option does not fit: {said}. "
                "Options come from the setting kafka.options and from kafka=… in the pipeline."
            ) from error


def _reason(reasons: Sequence[str]) -> str:
    """The last thing said that names a cause; "all brokers are down" names none."""
    telling = [text for text in reasons if "brokers are down" not in text]
    return (
        re.sub(r"\s*\(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)", "", telling[-1])
        if telling
        else ""
    )
