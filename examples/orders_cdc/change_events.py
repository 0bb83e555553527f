"""Change events of a small shop's two tables, as Debezium sends them, with the troubles of the real ones.

``customers(seed)`` and ``orders(seed)`` are offline, endless, and byte for byte the same for the same seed.
Both come from one simulated shop, so that every order has a customer that was there when it was made. The
log position of a change (``source.lsn``) is its place among all changes of the shop; the clock starts at
``START_MS`` and goes on by ``STEP_MS`` with each of them.

Each topic is what a connector makes of it that was stopped and started again: some changes are sent twice,
and some come after later ones. A deletion is followed by a tombstone: the same key and no value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

from medallion import Message

START_MS = 1_767_225_600_000
"""The simulated clock's start, 2026-01-01 in UTC, in milliseconds since the epoch."""

STEP_MS = 1_000

CUSTOMERS = 20  # there when the connector begins: it reads them as a snapshot
CITIES = ("Bern", "Graz", "Lyon", "Oslo", "Porto", "Turku")
STATUSES = ("placed", "paid", "packed", "sent", "received")

# What happens next: shares of all changes; what is left changes an order.
NEW_CUSTOMER, MOVED, CLOSED, REOPENED = 0.05, 0.05, 0.02, 0.015
NEW_ORDER, CANCELLED, RESTORED = 0.35, 0.05, 0.03

TWICE = 0.03  # of a topic's changes: sent again, at once or after some others
HELD_BACK = 0.04  # of a topic's changes: sent after some that are later
FARTHEST = 12  # changes between; one of the same key is among them often enough
RECENT = 50  # rows that may change

Row = dict[str, Any]
Change = tuple[str, Message]
"""The table, and the message that tells of its change."""


class Shop:
    """The two tables as they are, and those rows of them that were deleted; each call is one change."""

    def __init__(self, seed: int) -> None:
        # Only random() is used: of all of Random, it alone is promised to be the same in every Python.
        self._random = Random(seed).random
        self._changes = 0
        self._tables: dict[str, dict[int, Row]] = {"customers": {}, "orders": {}}
        self._gone: dict[str, dict[int, Row]] = {"customers": {}, "orders": {}}

    def snapshot(self) -> Iterator[Message]:
        """The customers that were there before."""
        for number in range(1, CUSTOMERS + 1):
            yield self._put("customers", self._customer(number), "r")[1]

    def change(self) -> Change:
        """The next change."""
        draw = self._random()
        for share, happens in (
            (NEW_CUSTOMER, lambda: self._put("customers", self._customer(self._next("customers")))),
            (MOVED, lambda: self._put("customers", self._pick("customers") | {"city": self._city()})),
            (CLOSED, lambda: self._delete("customers")),
            (REOPENED, lambda: self._restore("customers")),
            (NEW_ORDER, lambda: self._put("orders", self._order(self._next("orders")))),
            (CANCELLED, lambda: self._delete("orders")),
            (RESTORED, lambda: self._restore("orders")),
        ):
            if draw < share:
                return happens()
            draw -= share
        return self._progress()

    def _customer(self, number: int) -> Row:
        return {"customer_id": number, "name": f"Customer {number}", "city": self._city()}

    def _order(self, number: int) -> Row:
        customer = self._pick("customers")["customer_id"]
        cents = 100 + int(self._random() * 20_000)
        return {
            "order_id": number,
            "customer_id": customer,
            "status": STATUSES[0],
            "cents": cents,
            "note": None,
        }

    def _progress(self) -> Change:
        """An order goes one step on; now and then its note is written, or rubbed out."""
        if not self._tables["orders"]:
            return self._put("orders", self._order(self._next("orders")))
        order = self._pick("orders")
        step = STATUSES.index(order["status"]) + 1
        note = "call before" if order["note"] is None and self._random() < 0.2 else None  # noqa: PLR2004
        return self._put("orders", order | {"status": STATUSES[step % len(STATUSES)], "note": note})

    def _city(self) -> str:
        return CITIES[int(self._random() * len(CITIES))]

    def _pick(self, table: str) -> Row:
        """One of the rows that changed last; the later, the more often."""
        rows = self._tables[table].values()
        back = int(min(RECENT, len(rows)) * self._random() ** 3)
        return next(islice(reversed(rows), back, None))

    def _next(self, table: str) -> int:
        return len(self._tables[table]) + len(self._gone[table]) + 1

    def _delete(self, table: str) -> Change:
        if not self._tables[table]:
            return self._put("orders", self._order(self._next("orders")))
        row = self._pick(table)
        number = next(iter(row.values()))
        self._gone[table][number] = self._tables[table].pop(number)
        return self._told(table, row, None, "d")

    def _restore(self, table: str) -> Change:
        """A row that was deleted comes back under its old key."""
        if not self._gone[table]:
            return self._put("orders", self._order(self._next("orders")))
        number = next(iter(self._gone[table]))
        return self._put(table, self._gone[table].pop(number))

    def _put(self, table: str, row: Row, op: str | None = None) -> Change:
        number = next(iter(row.values()))
        before = self._tables[table].pop(number, None)
        self._tables[table][number] = row
        return self._told(table, before, row, op or ("c" if before is None else "u"))

    def _told(self, table: str, before: Row | None, after: Row | None, op: str) -> Change:
        """The envelope."""
        self._changes += 1
        now_ms = START_MS + STEP_MS * self._changes
        key, number = next(iter((after or before or {}).items()))
        source = {
            "version": "3.2.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": now_ms,
            "snapshot": "true" if op == "r" else "false",
            "db": "shop",
            "schema": "public",
            "table": table,
            "lsn": 24_000_000 + 56 * self._changes,
        }
        value = {"before": before, "after": after, "source": source, "op": op, "ts_ms": now_ms + 40}
        return table, Message(_json({key: number}), _json(value))


def customers(seed: int) -> Iterator[Message]:
    """Messages of the topic of customers, without end."""
    return _topic(seed, "customers")


def orders(seed: int) -> Iterator[Message]:
    """Messages of the topic of orders, without end."""
    return _topic(seed, "orders")


def _topic(seed: int, table: str) -> Iterator[Message]:
    """A table's messages as they arrive: some twice, some late, and tombstones after deletions."""
    random = Random(f"{seed} {table}").random
    waiting: list[tuple[int, Message]] = []
    for number, message in enumerate(_of(seed, table)):
        draw = random()
        later = number + 1 + int(random() * FARTHEST)
        if draw < TWICE + HELD_BACK:
            waiting.append((later, message))
        if draw < TWICE or draw >= TWICE + HELD_BACK:
            yield from _sent(message)
        for each in [each for each in waiting if each[0] <= number]:
            waiting.remove(each)
            yield from _sent(each[1])


def _of(seed: int, table: str) -> Iterator[Message]:
    """A table's changes in their order."""
    shop = Shop(seed)
    first = list(shop.snapshot())
    if table == "customers":
        yield from first
    while True:
        changed, message = shop.change()
        if changed == table:
            yield message


def _sent(message: Message) -> Iterator[Message]:
    yield message
    if message.value is not None and b'"after":null' in message.value:
        yield Message(message.key, None)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
