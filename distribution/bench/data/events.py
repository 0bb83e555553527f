"""The events that every workload sends: made by seed, at native speed, any stretch of them at any time.

Grain: one message. Message ``n`` of a stream is a pure function of the stream and ``n``, so a sender, a
topic and an oracle in three processes agree without a word between them. A valid message is a JSON object
of about 500 bytes with 17 leaf fields, two of its fields objects. A duplicate is an earlier message, byte
by byte; a late event carries an older event time; a malformed message has no event.

    stream = Stream(seed=1)
    batch = stream.batch(0, 10_000)     # columns
    batch.values()                      # the same as bytes

Columns are numpy arrays of equal length. Times are microseconds since 1970 in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from distribution.bench.data.text_rows import Bytes, Integers, digits, hexed, iso, quoted, table, texts

PRODUCTS = 5_000
USERS = 100_000
FIRST_USER = 100_000
PARTITIONS = 4
WATERMARK_SECONDS = 600
"""How late an event may be; those that are later at all are later by a minute and more."""

TRUNCATED, WRONG_TYPE, NOT_UTF8, EMPTY = 1, 2, 3, 4
"""Kinds of malformed message; 0 is none."""

KINDS = ("view", "cart", "order", "return")
COUNTRIES = ("DE", "FR", "PL", "VN", "US", "BR", "IN", "JP")

_ZIPF = 1.05
_SECOND = 1_000_000
_SOON = 1_000
"""Most duplicates come within so many messages."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A stretch of a stream, in the order in which it is sent.

    Attributes:
        number: Of the message.
        event: Number of the message that had this event first: less than ``number`` for a duplicate.
        malformed: Its kind; 0 for a valid message.
        late: By how many microseconds the event is older than the moment of its sending.
        seed: Of the stream.
        note: Bytes of the event's note, its longest field.
    """

    seed: int
    number: Integers
    event: Integers
    malformed: Integers
    late: Integers
    sent_at: Integers
    event_time: Integers
    user: Integers
    product: Integers
    cents: Integers
    quantity: Integers
    kind: Integers
    country: Integers
    note: int

    def __len__(self) -> int:
        return len(self.number)

    @property
    def is_valid(self) -> NDArray[np.bool_]:
        """Whether there is an event in the message."""
        return self.malformed == 0

    @property
    def is_beyond(self) -> NDArray[np.bool_]:
        """Whether the event is later than the watermark allows."""
        return self.late > WATERMARK_SECONDS * _SECOND

    @property
    def partition(self) -> Integers:
        """Where the message goes: all events of one user to one partition."""
        return self.user % PARTITIONS

    def event_ids(self) -> NDArray[np.bytes_]:
        """Ids, such as ``e0123456789abcdef``: as many as there are events, in no order."""
        return texts(_event_ids(self))

    def products(self) -> NDArray[np.bytes_]:
        """Names of the products, such as ``p0042``."""
        return texts(_product_names()[self.product])

    def values(self) -> list[bytes]:
        """The messages."""
        found: list[bytes] = texts(_documents(self)).tolist()
        for at in np.flatnonzero(self.malformed).tolist():
            found[at] = _spoilt(found[at], int(self.malformed[at]), int(self.number[at]))
        return found

    def keys(self) -> list[bytes]:
        """Keys of the messages: the user."""
        found: list[bytes] = texts(digits(self.user, 6)).tolist()
        return found


@dataclass(frozen=True, slots=True)
class Stream:
    """All messages that a seed gives.

    Attributes:
        seed: Another seed, other messages.
        start: When the first message is to be sent.
        per_second: Messages per second; a divisor of a million.
        malformed: Share of messages that cannot be read.
        duplicates: Share of messages that were sent before.
        late: Share of events that are older than their sending, one in twenty of them beyond the watermark.
        zipf: Exponent of the frequencies of products.
        users_zipf: The same of users; None: many users, none of them frequent.
        hot: Share of events of one user and one product, beside the others.
        products: How many products there are.
        note: Bytes of each event's note: with 135 of them a message has 478 bytes, with 200 it has 543.
    """

    seed: int = 1
    start: int = 1_735_689_600 * _SECOND  # 2025-01-01
    per_second: int = 2_000
    malformed: float = 0.01
    duplicates: float = 0.05
    late: float = 0.02
    zipf: float = _ZIPF
    users_zipf: float | None = None
    hot: float = 0.0
    products: int = PRODUCTS
    note: int = 200

    @property
    def step(self) -> int:
        """Microseconds from one message to the next."""
        return _SECOND // self.per_second

    def batch(self, first: int, count: int) -> Batch:
        """Messages ``first`` to ``first + count``."""
        number = np.arange(first, first + count, dtype=np.int64)
        event = self._events(number)
        return self._of(number, event)

    def _of(self, number: Integers, event: Integers) -> Batch:
        sent_at = self.start + event * self.step
        late = self._late(event)
        return Batch(
            seed=self.seed,
            number=number,
            event=event,
            malformed=self._malformed(number),
            late=late,
            sent_at=sent_at,
            event_time=sent_at - late,
            user=FIRST_USER + np.where(self._is_hot(event), 0, self._users(event)),
            product=np.where(self._is_hot(event), 0, self._products(event)),
            cents=10_000 + self._below(event, 3, 90_000),
            quantity=1 + self._below(event, 4, 9),
            kind=self._below(event, 5, len(KINDS)),
            country=self._below(event, 6, len(COUNTRIES)),
            note=self.note,
        )

    def _users(self, event: Integers) -> Integers:
        chance = self._chance(event, 1)
        if self.users_zipf is None:
            return (np.square(chance) * USERS).astype(np.int64)
        return np.searchsorted(_zipf(USERS, self.users_zipf), chance).astype(np.int64)

    def _products(self, event: Integers) -> Integers:
        return np.searchsorted(_zipf(self.products, self.zipf), self._chance(event, 2)).astype(np.int64)

    def _is_hot(self, event: Integers) -> NDArray[np.bool_]:
        return self._chance(event, 13) < self.hot

    def _events(self, number: Integers) -> Integers:
        """The message whose event each one carries: itself, or an earlier one that is no duplicate."""
        chance = self._chance(number, 7)
        reach = np.where(
            chance < self.duplicates * 0.9,
            _SOON,
            np.where(chance < self.duplicates * 0.999, _SOON * 50, 2**40),
        )
        back = 1 + (self._chance(number, 8) * np.minimum(reach, np.maximum(number, 1))).astype(np.int64)
        again = self._is_duplicate(number)
        source = np.where(again, np.maximum(number - back, 0), number)
        while True:
            bad = again & (self._is_duplicate(source) | (self._malformed(source) > 0))
            if not bad.any():
                return source
            stuck = bad & (source == 0)
            source = np.where(stuck, number, np.where(bad, source - 1, source))
            again = again & ~stuck

    def _is_duplicate(self, number: Integers) -> NDArray[np.bool_]:
        return (self._chance(number, 7) < self.duplicates) & (self._malformed(number) == 0) & (number > 0)

    def _malformed(self, number: Integers) -> Integers:
        kind = 1 + self._below(number, 10, EMPTY)
        return np.where(self._chance(number, 9) < self.malformed, kind, 0)

    def _late(self, event: Integers) -> Integers:
        chance = self._chance(event, 11)
        how = self._chance(event, 12)
        bound = WATERMARK_SECONDS - 60
        some = _SECOND + (how * (bound - 1) * _SECOND).astype(np.int64)
        much = ((WATERMARK_SECONDS + 60 + how * 6_000) * _SECOND).astype(np.int64)
        return np.where(chance < self.late, np.where(chance < self.late / 20, much, some), 0)

    def _chance(self, number: Integers, field: int) -> NDArray[np.float64]:
        return (_mixed(number, self.seed, field) >> np.uint64(11)).astype(np.float64) / 2.0**53

    def _below(self, number: Integers, field: int, bound: int) -> Integers:
        return (_mixed(number, self.seed, field) % np.uint64(bound)).astype(np.int64)


def _mixed(number: Integers, seed: int, field: int) -> NDArray[np.uint64]:
    """Splitmix64: a bijection of numbers that leaves no trace of their order."""
    with np.errstate(over="ignore"):
        z = number.astype(np.uint64) + np.uint64((seed * 1_000_003 + field) * 0x9E3779B97F4A7C15 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@cache
def _zipf(count: int, exponent: float) -> NDArray[np.float64]:
    weight = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    total = np.cumsum(weight) / weight.sum()
    total[-1] = 1.0
    return total


# A document is a row of bytes: its fixed text, with the fields laid over it. Blanks fill what is short.
_FIELDS = (
    '{"event_id":"',
    '","event_time":"',
    '","sent_at":',
    ',"kind":',
    ',"product":"',
    '","cents":',
    ',"quantity":',
    ',"currency":"EUR","discount":0.',
    '5,"user":{"id":',
    ',"name":',
    ',"country":"',
    '","is_member":',
    '},"device":{"os":',
    ',"model":"m',
    '","locale":"',
    '"},"note":"',
    '"}',
)
_NAMES = quoted(("Ada Lovelace", "Lu Zak", "J-P Dupont", "Ngoc Tran", "Jo Li"), 14)
_SYSTEMS = quoted(("ios", "android", "linux"), 9)
_LOCALES = table(("de-DE", "en-US", "pl-PL", "vi-VN"), 5)
_TRUTHS = table(("true", "false"), 5)
_KINDS = quoted(KINDS, 8)
_COUNTRIES = table(COUNTRIES, 2)
_WORDS = ["left", "at", "the", "door", "gift", "call", "before", "ring", "twice", "fragile", "this", "side"]
_PHRASES = 4_096


def _documents(batch: Batch) -> Bytes:
    def pick(field: int, bound: int) -> Integers:
        return (_mixed(batch.event, batch.seed, field) % np.uint64(bound)).astype(np.int64)

    phrases = _phrases(batch.seed)
    columns = (
        _event_ids(batch),
        iso(batch.event_time),
        digits(batch.sent_at, 16),
        _KINDS[batch.kind],
        _product_names()[batch.product],
        digits(batch.cents, 5),
        digits(batch.quantity, 1),
        digits(pick(21, 1_000), 3),
        digits(batch.user, 6),
        _NAMES[pick(22, len(_NAMES))],
        _COUNTRIES[batch.country],
        _TRUTHS[pick(23, 2)],
        _SYSTEMS[pick(24, len(_SYSTEMS))],
        digits(pick(25, 400), 4),
        _LOCALES[pick(26, len(_LOCALES))],
        np.concatenate([phrases[pick(30 + slot, _PHRASES)] for slot in range(5)], axis=1)[:, : batch.note],
        None,
    )
    widths = [0 if column is None else column.shape[1] for column in columns]
    rows = np.empty((len(batch), sum(map(len, _FIELDS)) + sum(widths)), dtype=np.uint8)
    at = 0
    for text, width, column in zip(_FIELDS, widths, columns, strict=True):
        rows[:, at : at + len(text)] = np.frombuffer(text.encode(), dtype=np.uint8)
        at += len(text)
        if column is not None:
            rows[:, at : at + width] = column
            at += width
    return rows


def _spoilt(value: bytes, kind: int, number: int) -> bytes:
    if kind == TRUNCATED:
        return value[: 20 + number * 7919 % (len(value) - 40)]
    if kind == WRONG_TYPE:
        at = value.index(b'"cents":') + len(b'"cents":')
        return value[:at] + b'"lots"' + value[at + 5 :]
    if kind == NOT_UTF8:
        return b"\xff\xfe" + value[2:200]
    return b""


def _event_ids(batch: Batch) -> Bytes:
    letter = np.full((len(batch), 1), ord("e"), dtype=np.uint8)
    return np.concatenate([letter, hexed(_mixed(batch.event, batch.seed, 0))], axis=1)


@cache
def _product_names() -> Bytes:
    return table(tuple(f"p{number:04}" for number in range(PRODUCTS)), 5)


@cache
def _phrases(seed: int) -> Bytes:
    chance = np.random.default_rng(seed)
    made = (" ".join(chance.choice(_WORDS, 12))[:32].ljust(32) for _ in range(_PHRASES))
    return table(tuple(f"{text}#{number:06} " for number, text in enumerate(made)), 40)
