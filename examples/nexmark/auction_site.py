"""Events of an online auction in the shape of the Nexmark benchmark: persons, auctions and bids.

``persons(seed)``, ``auctions(seed)`` and ``bids(seed)`` are offline, endless, and byte for byte the same for
the same seed. All come from one simulated site: of 50 events one is a person and three are auctions, as in
the benchmark, and each names persons and auctions that were there before. The clock starts at ``START_MS``
and goes on by ``STEP_MS`` with each event. The benchmark's own generator has no accidents; here some events
are sent twice, and some come after later ones. ``side_input(seed)`` is its table beside the stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from medallion import Message

START_MS = 1_767_225_540_000
"""The simulated clock's start, 2025-12-31 23:59:00 in UTC, in milliseconds since the epoch."""

STEP_MS = 1_000
SIDE_KEYS = 100
"""Keys of the side input; the benchmark has 10,000."""

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne")
NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CATEGORIES = 5  # from FIRST_CATEGORY on
FIRST_CATEGORY = 10
FIRST_ID = 1_100  # soon an auction has a number that the query q2 asks for

ROUND = 50  # events: a person, AUCTIONS auctions, and bids
AUCTIONS = 3
RECENT = 10  # persons and auctions that take part
HOT = 0.5  # of the bids: for the newest auction
SELLS_AT_ONCE = 0.5  # of the persons: sell something with the next event

TWICE = 0.03  # of a topic's events: sent again, after some others
HELD_BACK = 0.04  # of a topic's events: sent after some that are later
FARTHEST = 12  # events between

Row = dict[str, Any]


class Site:
    """What the persons and auctions are so far; each call is one event."""

    def __init__(self, seed: int) -> None:
        # Only random() is used: of all of Random, it alone is promised to be the same in every Python.
        self._random = Random(seed).random
        self._events, self._persons, self._auctions = 0, 0, 0

    def event(self) -> tuple[str, Row]:
        """The topic, and the next event."""
        place, now_ms = self._events % ROUND, START_MS + STEP_MS * self._events
        self._events += 1
        if place == 0:
            return "persons", self._person(now_ms)
        if place <= AUCTIONS:
            return "auctions", self._auction(now_ms, is_first=place == 1)
        return "bids", self._bid(now_ms)

    def _person(self, now_ms: int) -> Row:
        number = FIRST_ID + self._persons
        self._persons += 1
        home = self._below(len(STATES))
        name = NAMES[self._below(len(NAMES))]
        return {
            "id": number,
            "name": name,
            "emailAddress": f"{name.lower()}@example.com",
            "creditCard": " ".join(f"{self._below(10_000):04d}" for _ in range(4)),
            "city": CITIES[home],
            "state": STATES[home],
            "dateTime": now_ms,
            "extra": self._text(8),
        }

    def _auction(self, now_ms: int, *, is_first: bool) -> Row:
        number = FIRST_ID + self._auctions
        self._auctions += 1
        is_new = is_first and self._random() < SELLS_AT_ONCE
        initial = self._price()
        return {
            "id": number,
            "itemName": self._text(6),
            "description": self._text(12),
            "initialBid": initial,
            "reserve": initial + self._price(),
            "dateTime": now_ms,
            "expires": now_ms + STEP_MS * (10 + self._below(100)),
            "seller": FIRST_ID + self._persons - 1 if is_new else self._one_of(self._persons),
            "category": FIRST_CATEGORY + self._below(CATEGORIES),
            "extra": self._text(8),
        }

    def _bid(self, now_ms: int) -> Row:
        is_hot = self._random() < HOT
        place = self._below(2 * len(CHANNELS))
        known = place < len(CHANNELS)
        channel = CHANNELS[place] if known else f"channel-{place}"
        path = "/".join(self._text(3) for _ in range(3))
        query = "query=1" if known or place % 2 else f"query=1&channel_id={self._below(1_000)}"
        return {
            "auction": FIRST_ID + self._auctions - 1 if is_hot else self._one_of(self._auctions),
            "bidder": self._one_of(self._persons),
            "price": self._price(),
            "channel": channel,
            "url": f"https://auction.example.com/{path}/item.htm?{query}",
            "dateTime": now_ms,
            "extra": self._text(10),
        }

    def _below(self, end: int) -> int:
        return int(self._random() * end)

    def _one_of(self, count: int) -> int:
        """One of the newest of so many ids."""
        return FIRST_ID + max(0, count - 1 - self._below(RECENT))

    def _price(self) -> int:
        """Between 100 and 100 million, each power of ten as often."""
        return round(10 ** (self._random() * 6) * 100)

    def _text(self, length: int) -> str:
        return "".join("abcdefgh"[self._below(8)] for _ in range(length))


def persons(seed: int) -> Iterator[Message]:
    """Messages of the topic of persons, without end."""
    return _topic(seed, "persons")


def auctions(seed: int) -> Iterator[Message]:
    """Messages of the topic of auctions, without end."""
    return _topic(seed, "auctions")


def bids(seed: int) -> Iterator[Message]:
    """Messages of the topic of bids, without end; a bid's key is its auction."""
    return _topic(seed, "bids")


def side_input(seed: int) -> Iterator[Message]:
    """The side input: a key and a value; after all keys the same messages come again."""
    random = Random(f"{seed} side_input").random
    values = [f"value-{int(random() * 1_000)}" for _ in range(SIDE_KEYS)]
    while True:
        for key, value in enumerate(values):
            yield _message(str(key), {"key": key, "value": value})


def _topic(seed: int, topic: str) -> Iterator[Message]:
    """A topic's messages as they arrive: some twice, some late."""
    random = Random(f"{seed} {topic}").random
    waiting: list[tuple[int, Message]] = []
    for number, message in enumerate(_of(seed, topic)):
        draw = random()
        later = number + 1 + int(random() * FARTHEST)
        if draw < TWICE + HELD_BACK:
            waiting.append((later, message))
        if draw < TWICE or draw >= TWICE + HELD_BACK:
            yield message
        for each in [each for each in waiting if each[0] <= number]:
            waiting.remove(each)
            yield each[1]


def _of(seed: int, topic: str) -> Iterator[Message]:
    """A topic's messages in the order of their events."""
    site = Site(seed)
    while True:
        found, row = site.event()
        if found == topic:
            yield _message(str(row["auction" if topic == "bids" else "id"]), row)


def _message(key: str, row: Row) -> Message:
    return Message(key.encode(), json.dumps(row, separators=(",", ":")).encode())
