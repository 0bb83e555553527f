"""Receipts: what a producer says it has sent, as records of a topic of their own.

A receipt names the offsets at which the broker has acknowledged records of one producer in one partition, how
many they are, and one SHA-256 of them all. The format, for producers in any language, is in
docs/records/receipts.md; ``medallion produce --receipts TOPIC`` writes it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaException, TopicPartition

from common.errors import BrokerError
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.single_records import open_consumer

VERSION = 1
MOST_RECORDS = 10_000
"""A receipt covers at most so many records."""

_SECONDS = 60.0
_POLL_SECONDS = 5.0

Span = tuple[int, int]
"""The first and the last offset of consecutive ones."""


def record_digest(key: bytes | None, value: bytes | None) -> str:
    """The SHA-256 of a record: of the text ``KEY:VALUE``, each in upper-case hex, ``-`` where it is null."""
    parts = ("-" if part is None else part.hex().upper() for part in (key, value))
    return hashlib.sha256(":".join(parts).encode()).hexdigest()


def joint_digest(digests: Iterable[str]) -> str:
    """The SHA-256 of the digests of records one after the other, in the order of their offsets."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a producer says it has sent to one partition.

    Attributes:
        topic: The topic.
        partition: The partition.
        offsets: The offsets of the records, as consecutive ones; in order, each offset once.
        sha256: The joint digest of the records.
        producer: Names the producer's run.
        topic_id: The topic's id; empty where the producer does not know it.
        signature: HMAC-SHA256 of ``signed``, in hex; None without a key.
    """

    topic: str
    partition: int
    offsets: tuple[Span, ...]
    sha256: str
    producer: str
    topic_id: str = ""
    signature: str | None = None

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(last - first + 1 for first, last in self.offsets)

    @property
    def signed(self) -> str:
        """The text that is signed."""
        spans = ",".join(f"{first}-{last}" for first, last in self.offsets)
        return f"{self.topic}/{self.topic_id}/{self.partition}/{spans}/{self.sha256}/{self.producer}"

    def with_signature(self, key: str) -> Receipt:
        """The receipt, signed."""
        return replace(self, signature=_hmac(key, self.signed))

    def is_signed_by(self, key: str) -> bool:
        """Whether the signature is of this key."""
        return self.signature is not None and hmac.compare_digest(self.signature, _hmac(key, self.signed))

    def message(self) -> tuple[bytes, bytes]:
        """Key and value of its record: the key keeps it in a compacted topic."""
        document: dict[str, Any] = {
            "version": VERSION,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partition": self.partition,
            "offsets": self.offsets,
            "records": self.records,
            "sha256": self.sha256,
            "producer": self.producer,
        }
        if self.signature is not None:
            document["signature"] = self.signature
        key = f"{self.producer}/{self.topic}/{self.partition}/{self.offsets[0][0]}"
        return key.encode(), json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, value: bytes) -> Receipt:
        """The receipt of a record's value.

        Raises:
            ValueError: It is none; says why.
        """
        document = json.loads(value)
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise ValueError(f"its version is not {VERSION}")
        try:
            spans = tuple((int(first), int(last)) for first, last in document["offsets"])
            found = cls(
                str(document["topic"]),
                int(document["partition"]),
                spans,
                str(document["sha256"]).lower(),
                str(document.get("producer", "")),
                str(document.get("topic_id", "")),
                document.get("signature"),
            )
            records = int(document["records"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{error} is missing or of another type") from error
        ends = [-1, *(offset for span in spans for offset in span)]
        if not spans or any(last < first for first, last in spans) or not _rise(ends):
            raise ValueError("its offsets are not in order")
        if records != found.records:
            raise ValueError(f"it counts {records} records, and names {found.records} offsets")
        return found


def _rise(ends: Sequence[int]) -> bool:
    """Whether -1, first, last, first, last … rise, where a first may equal its last."""
    return all(b > a for a, b in zip(ends[::2], ends[1::2], strict=False))


def _hmac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


@dataclass
class Collector:
    """Makes receipts of the records that a broker has acknowledged.

    Attributes:
        topic_id: The id of the topic.
        producer: Names this run.
    """

    topic_id: str = ""
    producer: str = field(default_factory=lambda: uuid4().hex)
    _sent: dict[tuple[str, int], dict[int, str]] = field(default_factory=dict)

    def acknowledged(self, topic: str, partition: int, offset: int, digest: str) -> None:
        """Note a record that is at this offset."""
        self._sent.setdefault((topic, partition), {})[offset] = digest

    def receipts(self, *, is_end: bool) -> Iterator[Receipt]:
        """The receipts that are due: of each partition with enough records, or at the end of all."""
        for (topic, partition), sent in self._sent.items():
            if not sent or (len(sent) < MOST_RECORDS and not is_end):
                continue
            for offsets in _cut(sorted(sent)):
                digest = joint_digest(sent[offset] for offset in offsets)
                yield Receipt(topic, partition, tuple(_spans(offsets)), digest, self.producer, self.topic_id)
            sent.clear()


def _cut(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    return (offsets[at : at + MOST_RECORDS] for at in range(0, len(offsets), MOST_RECORDS))


def _spans(offsets: Sequence[int]) -> Iterator[Span]:
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset != last + 1:
            yield first, last
            first = offset
        last = offset
    yield first, last


def read_receipts(
    bootstrap: str, topic: str, options: Mapping[str, str]
) -> tuple[list[Receipt], dict[str, int]]:
    """All receipts of a topic, each once, and how many records are none, by why.

    Raises:
        BrokerError: The topic cannot be read whole.
    """
    ends = kafka.end_offsets(bootstrap, [topic], options)[topic]
    firsts = kafka.first_offsets(bootstrap, [topic], options)[topic]
    left = {number for number, end in ends.items() if end > firsts[number]}
    found: dict[tuple[Any, ...], Receipt] = {}
    wrong: dict[str, int] = {}
    consumer = open_consumer(bootstrap, options)
    deadline = time.monotonic() + _SECONDS
    try:
        consumer.assign([TopicPartition(topic, number, firsts[number]) for number in left])
        while left:
            message = consumer.poll(_POLL_SECONDS)
            if message is not None and message.error() is None and (value := message.value()) is not None:
                try:
                    receipt = Receipt.parse(value)
                    found[receipt.topic, receipt.partition, receipt.offsets, receipt.producer] = receipt
                except ValueError as error:
                    wrong[str(error)] = wrong.get(str(error), 0) + 1
            # Behind the last record may be offsets without one, such as the marks of transactions.
            at = {each.partition: each.offset for each in consumer.position(consumer.assignment())}
            left = {number for number in left if at.get(number, 0) < ends[number]}
            if left and time.monotonic() > deadline:
                raise BrokerError(f"Topic {topic} at {bootstrap} was not read whole within {_SECONDS:.0f} s.")
    except KafkaException as error:
        raise BrokerError(
            f"Topic {topic} at {bootstrap} cannot be read: {error.args[0].str()}. Check that it exists, and "
            "that this user may read it."
        ) from error
    finally:
        consumer.close()
    return list(found.values()), wrong
