"""Receipts: what a producer says it has sent, as records of a topic of their own.

A receipt names the offsets at which the broker has acknowledged records of one producer in one partition, how
many they are, and one SHA-256 of them all. The format, for producers in any language, is in
docs/records/receipts.md; ``medallion produce --receipts TOPIC`` writes it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from uuid import uuid4

VERSION = 1
MOST_RECORDS = 10_000
"""A receipt of ``medallion produce`` covers at most so many records."""

_LARGEST = 100_000  # a receipt's digests are put together in the memory of one task
_TOPIC = r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}"
_TOPIC_ID = r"[A-Za-z0-9_-]{0,64}"
_SHA256 = r"[0-9a-fA-F]{64}"
_LONGEST_NAME = 255

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
    """What a producer says it has sent to one partition."""

    topic: str  # the topic
    partition: int  # the partition
    offsets: tuple[Span, ...]  # the offsets of the records, as consecutive ones; in order, each offset once
    sha256: str  # the joint digest of the records
    producer: str  # names the producer's run
    topic_id: str = ""  # the topic's id; empty where the producer does not know it
    # Counts the receipts of the run for this partition, from 1; None: they are not counted
    number: int | None = None
    signature: str | None = None  # HMAC-SHA256 of ``signed``, in hex; None without a key
    # Names the record that it was read from, by its bytes; empty: it was not read
    name: str = field(default="", compare=False)

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(last - first + 1 for first, last in self.offsets)

    @property
    def signed(self) -> str:
        """The text that is signed. Only the producer may have a slash, so no two receipts have the same."""
        spans = ",".join(f"{first}-{last}" for first, last in self.offsets)
        number = "" if self.number is None else f"{self.number}/"
        return f"{self.topic}/{self.topic_id}/{self.partition}/{number}{spans}/{self.sha256}/{self.producer}"

    def with_signature(self, key: str) -> Receipt:
        """The receipt, signed."""
        return replace(self, signature=_hmac(key, self.signed))

    def is_signed_by(self, key: str) -> bool:
        """Whether the signature is of this key."""
        given = (self.signature or "").encode()
        return hmac.compare_digest(given, _hmac(key, self.signed).encode())

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
        if self.number is not None:
            document["number"] = self.number
        if self.signature is not None:
            document["signature"] = self.signature
        key = f"{self.producer}/{self.topic}/{self.partition}/{self.offsets[0][0]}"
        return key.encode(), json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, value: bytes) -> Receipt:
        """The receipt of a record's value, which anybody may have written.

        Raises:
            ValueError: It is none; says why, in one of few texts.
        """
        document = _document(value)
        spans = _spans_of(document)
        signature = document.get("signature")
        found = cls(
            _text(document, "topic", _TOPIC),
            _count(document, "partition", 0, 2**31 - 1),
            spans,
            _text(document, "sha256", _SHA256).lower(),
            _name(document, "producer"),
            _text(document, "topic_id", _TOPIC_ID) if "topic_id" in document else "",
            None if document.get("number") is None else _count(document, "number", 1, 2**63 - 1),
            None if signature is None else _text(document, "signature", _SHA256).lower(),
        )
        if not _rise([-1, *(offset for span in spans for offset in span)]):
            raise ValueError("its offsets are not in order")
        if _count(document, "records", 1, 2**63 - 1) != found.records:
            raise ValueError("its records are not as many as its offsets")
        if found.records > _LARGEST:
            raise ValueError(f"it is of more than {_LARGEST:,} records")
        return found


def _document(value: bytes) -> Mapping[str, Any]:
    """The object of a record's value."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    version = found.get("version") if isinstance(found, dict) else None
    if type(version) is not int or version != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    return dict(found)


def _count(document: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """An integer between two; neither a truth value nor a number with a fraction."""
    found = document.get(name)
    if type(found) is not int or not least <= found <= most:
        raise ValueError(f"its {name} is missing or is no integer from {least}")
    return found


def _text(document: Mapping[str, Any], name: str, pattern: str) -> str:
    """A text of a pattern."""
    found = document.get(name)
    if type(found) is not str or re.fullmatch(pattern, found) is None:
        raise ValueError(f"its {name} is missing or has another form")
    return found


def _name(document: Mapping[str, Any], name: str) -> str:
    """A text that can be shown; empty if it is left out."""
    found = document.get(name, "")
    if type(found) is not str or len(found) > _LONGEST_NAME or not found.isprintable():
        raise ValueError(f"its {name} is no printable text of at most {_LONGEST_NAME} letters")
    return found


def _spans_of(document: Mapping[str, Any]) -> tuple[Span, ...]:
    """The offsets of a document, in any order."""
    found = document.get("offsets")
    if type(found) is not list or not found or not all(map(_is_span, found)):
        raise ValueError("its offsets are missing or are no pairs of offsets")
    return tuple((first, last) for first, last in found)


def _is_span(found: object) -> bool:
    """Whether it is a list of two offsets."""
    if type(found) is not list or [type(one) for one in found] != [int, int]:
        return False
    return bool(max(found) < 2**63)


def _rise(ends: Sequence[int]) -> bool:
    """Whether -1, first, last, first, last … rise, where a first may equal its last."""
    return all(b > a or (at % 2 == 1 and b == a) for at, (a, b) in enumerate(pairwise(ends)))


def _hmac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


@dataclass
class Collector:
    """Makes receipts of the records that a broker has acknowledged."""

    topic_id: str = ""  # the id of the topic
    producer: str = field(default_factory=lambda: uuid4().hex)  # names this run
    _sent: dict[tuple[str, int], dict[int, str]] = field(default_factory=dict)
    _made: dict[tuple[str, int], int] = field(default_factory=dict)

    def acknowledged(self, topic: str, partition: int, offset: int, digest: str) -> None:
        """Note a record that is at this offset."""
        self._sent.setdefault((topic, partition), {})[offset] = digest

    def receipts(self, *, is_end: bool) -> Iterator[Receipt]:
        """The receipts that are due: of each partition with enough records, or at the end of all."""
        for (topic, partition), sent in self._sent.items():
            if not sent or (len(sent) < MOST_RECORDS and not is_end):
                continue
            for offsets in _cut(sorted(sent)):
                number = self._made[topic, partition] = self._made.get((topic, partition), 0) + 1
                digest = joint_digest(sent[offset] for offset in offsets)
                spans = tuple(_spans(offsets))
                yield Receipt(topic, partition, spans, digest, self.producer, self.topic_id, number)
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
