"""Single records of a broker: read, at the end of their partition, or not answered; the client is a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import KafkaError, TopicPartition

from common.errors import BrokerError
from orchestration.access.kafka import single_records
from orchestration.access.kafka.single_records import Record, SingleRecords, digest

END, DENIED, AWAY = (
    KafkaError._PARTITION_EOF,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._ALL_BROKERS_DOWN,
)


class Message:
    """A record at offset 7, or what is told of a partition in place of one."""

    def __init__(self, partition: int, code: int | None) -> None:
        self._partition, self._code = partition, code

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return (1, 1000)

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> None:
        return None


class Consumer:
    """Gives the answers of the partitions that it is assigned, once each."""

    def __init__(self, answers: Mapping[int, int | None]) -> None:
        self.answers = answers
        self.messages: list[Message] = []

    def assign(self, places: Sequence[TopicPartition]) -> None:
        asked = [place.partition for place in places]
        self.messages = [Message(n, code) for n, code in self.answers.items() if n in asked]

    def poll(self, timeout: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None: ...

    def unassign(self) -> None: ...

    def close(self) -> None: ...


def read(answers: Mapping[int, int | None], monkeypatch: pytest.MonkeyPatch) -> dict[int, Record]:
    """The records of partitions 0 and 1, by partition."""
    monkeypatch.setattr(single_records, "open_consumer", lambda *_: Consumer(answers))
    with SingleRecords("b:1", {}) as client:
        found = client.first([("t", 0, 5), ("t", 1, 5)], seconds=0.02)
    return {number: record for (_, number, _), record in found.items()}


def test_a_partition_that_ends_has_no_record_there(monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(7, 1000, digest(None, b"v", ()))
    assert read({0: None, 1: None}, monkeypatch) == {0: record, 1: record}
    assert read({0: None, 1: END}, monkeypatch) == {0: record}
    assert read({0: END, 1: END}, monkeypatch) == {}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({0: None}, "b:1 did not give a record of topic t, partition 1, within 0 seconds"),
        ({0: END, 1: AWAY}, "did not give a record of topic t, partition 1, within"),
        ({}, "did not give a record of topic t, partition 0 and of 1 more, within"),
        ({0: None, 1: DENIED}, "Check that this user may read the topics"),
    ],
)
def test_no_answer_is_not_taken_for_no_record(
    answers: Mapping[int, int | None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BrokerError, match=words):
        read(answers, monkeypatch)
