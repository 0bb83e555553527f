"""The ids and offsets of topics, as the broker has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from common.streaming.topic_identity import BrokerTopic
from orchestration.access.kafka.client import admin_client, translated

_REQUEST_SECONDS = 30.0
_HIDDEN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}
_NO_ID = str(Uuid(0, 0))


def topic_ids(
    bootstrap: str, names: Iterable[str], options: Mapping[str, str], timeout: float = _REQUEST_SECONDS
) -> dict[str, str]:
    """The ids of topics (KIP-516); empty where the broker is older than Kafka 2.8.

    A topic that does not exist, or that the broker hides from this user, is left out.

    Raises:
        BrokerError: The broker does not answer within ``timeout`` seconds.
    """
    client = admin_client(bootstrap, options)
    return {name: each[0] for name, each in _described(client, bootstrap, names, timeout).items()}


def broker_topics(
    bootstrap: str, names: Iterable[str], options: Mapping[str, str], timeout: float = _REQUEST_SECONDS
) -> dict[str, BrokerTopic]:
    """Topics with their ids and with the first and the next offset of every partition; as ``topic_ids``.

    Raises:
        BrokerError: The broker does not answer within ``timeout`` seconds.
    """
    client = admin_client(bootstrap, options)
    described = _described(client, bootstrap, names, timeout)
    places = [TopicPartition(name, number) for name, (_, numbers) in described.items() for number in numbers]
    first = _offsets(client, bootstrap, places, OffsetSpec.earliest(), timeout)  # type: ignore[no-untyped-call]
    end = _offsets(client, bootstrap, places, OffsetSpec.latest(), timeout)  # type: ignore[no-untyped-call]
    return {
        name: BrokerTopic(topic_id, first.get(name, {}), end.get(name, {}))
        for name, (topic_id, _) in described.items()
    }


def _described(
    client: AdminClient, bootstrap: str, names: Iterable[str], timeout: float
) -> dict[str, tuple[str, list[int]]]:
    """Per topic its id and its partitions."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    found: dict[str, tuple[str, list[int]]] = {}
    with translated("topics", bootstrap):
        answers = client.describe_topics(TopicCollection(wanted), request_timeout=timeout)
        for name, answer in answers.items():
            try:
                topic = answer.result()
            except KafkaException as error:
                if error.args[0].code() not in _HIDDEN:
                    raise
                continue
            topic_id = str(topic.topic_id)
            found[name] = ("" if topic_id == _NO_ID else topic_id, [part.id for part in topic.partitions])
    return found


def _offsets(
    client: AdminClient, bootstrap: str, places: Sequence[TopicPartition], spec: OffsetSpec, timeout: float
) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    if not places:
        return found
    answers = client.list_offsets(
        dict.fromkeys(places, spec),
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=timeout,
    )
    for place, answer in answers.items():
        with translated(f"offsets of {place.topic}-{place.partition}", bootstrap):
            found.setdefault(place.topic, {})[place.partition] = answer.result().offset
    return found
