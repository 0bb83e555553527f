"""A brokerage day by day: customers, accounts, trades and cash as messages, prospects and prices as files.

``customers(seed)``, ``accounts(seed)``, ``trades(seed)`` and ``cash(seed)`` are offline, endless, and byte
for byte the same for the same seed. Some messages are sent twice, and some come after later ones. A file of
prospects is the whole list as of its day. A file of prices has those of its day, the first one also a price a
week of the eighty weeks before. ``python brokerage.py`` writes the files of the first five days,
``python brokerage.py 9`` those of nine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from medallion import Message

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
WEEKS_BEFORE = 80
CITIES = ("Berlin", "Hamburg", "Köln", "Lyon", "Paris")
NAMES = ("Ada", "Ben", "Chloé", "Dario", "Emil", "Fay", "Gus", "Hana", "Ines", "Jon")
BROKERS = ("north", "south", "online")
SYMBOLS = ("ALBA", "BRIO", "CIRO", "DUNE", "ECHO", "FARO")
PROSPECTS = 14

IS_PROSPECT = 0.75  # of the days on which a prospect is on the list
IS_TRADED = 0.9  # of the days on which a symbol has a price

TWICE = 0.04  # of a topic's messages: sent again, after some others
HELD_BACK = 0.05  # of a topic's messages: sent after some that are later
FARTHEST = 6  # messages between

Row = dict[str, Any]


class Brokerage:
    """Customers, accounts and trades so far; each call of ``day`` is one day."""

    def __init__(self, seed: int) -> None:
        # Only random() is used: of all of Random, it alone is promised to be the same in every Python.
        self._random = Random(seed).random
        self._days, self._seconds, self._changes = 0, 0, 0
        self._customers: list[int] = []
        self._accounts: list[int] = []
        self._trades: list[Row] = []

    def day(self) -> Iterator[tuple[str, Row]]:
        """A topic and a row for each event of the next day."""
        self._seconds = 0
        for _ in range(3 if self._days == 0 else 1):
            yield "customers", self._new_customer()
            yield "accounts", self._new_account()
        for _ in range(4):
            yield "customers", self._customer_change()
            yield "accounts", self._account_change()
        for _ in range(6):
            yield "trades", self._trade()
            yield "cash", self._deposit()
        yield "trades", self._correction()
        self._days += 1

    def _new_customer(self) -> Row:
        self._customers.append(100 + len(self._customers))
        values = {
            "name": self._one_of(NAMES),
            "city": self._one_of(CITIES),
            "tier": 1,
            "phone": self._phone(),
        }
        return self._change("customer_id", self._customers[-1], "new", values)

    def _customer_change(self) -> Row:
        """Some values, the others null; or seldom the end."""
        number = self._one_of(self._customers)
        if self._happens(0.06):
            return self._change("customer_id", number, "close", {})
        values = {
            "city": self._one_of(CITIES) if self._happens(0.4) else None,
            "tier": 1 + self._below(3) if self._happens(0.4) else None,
            "phone": self._phone() if self._happens(0.5) else None,
        }
        return self._change("customer_id", number, "update", values)

    def _new_account(self) -> Row:
        self._accounts.append(500 + len(self._accounts))
        values = {
            "customer_id": self._one_of(self._customers),
            "broker": self._one_of(BROKERS),
            "status": "active",
        }
        return self._change("account_id", self._accounts[-1], "new", values)

    def _account_change(self) -> Row:
        """Another broker or status, or another owner."""
        values = {
            "customer_id": self._one_of(self._customers) if self._happens(0.3) else None,
            "broker": self._one_of(BROKERS) if self._happens(0.4) else None,
            "status": self._one_of(("active", "held")) if self._happens(0.3) else None,
        }
        return self._change("account_id", self._one_of(self._accounts), "update", values)

    def _change(self, key: str, number: int, action: str, values: Row) -> Row:
        self._changes += 1
        row = {"change_id": self._changes, "action": action, key: number, **values}
        return row | {"changed_at": self._now()}

    def _trade(self) -> Row:
        side = 1 if self._happens(0.6) else -1
        trade = {
            "trade_id": 9_000 + len(self._trades),
            "revision": 1,
            "status": "done",
            "account_id": self._one_of(self._accounts),
            "symbol": self._one_of(SYMBOLS),
            "quantity": side * 10 * (1 + self._below(5)),
            "price": round(20 + self._below(8_000) / 100, 2),
            "fee": round(1 + self._below(300) / 100, 2),
            "traded_at": self._now(),
        }
        self._trades.append(trade)
        return trade

    def _correction(self) -> Row:
        """A trade that was there before, with another price, or cancelled."""
        place = self._below(len(self._trades))
        trade = {**self._trades[place], "revision": self._trades[place]["revision"] + 1}
        trade["status"] = "cancelled" if self._happens(0.4) else "done"
        trade["price"] = round(20 + self._below(8_000) / 100, 2)
        self._trades[place] = trade
        return trade

    def _deposit(self) -> Row:
        self._changes += 1
        amount = round((self._below(100_000) - 20_000) / 100, 2)
        account = self._one_of(self._accounts)
        return {"move_id": self._changes, "account_id": account, "amount": amount, "moved_at": self._now()}

    def _now(self) -> str:
        self._seconds += 60
        at = START + timedelta(days=self._days, seconds=self._seconds)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _phone(self) -> str:
        return f"+49 30 {self._below(10_000):04d}"

    def _happens(self, share: float) -> bool:
        return self._random() < share

    def _below(self, end: int) -> int:
        return int(self._random() * end)

    def _one_of(self, values: Any) -> Any:
        return values[self._below(len(values))]


def customers(seed: int) -> Iterator[Message]:
    """Changes of customers, without end."""
    return _topic(seed, "customers", "customer_id")


def accounts(seed: int) -> Iterator[Message]:
    """Changes of accounts, without end."""
    return _topic(seed, "accounts", "account_id")


def trades(seed: int) -> Iterator[Message]:
    """Trades and their corrections, without end."""
    return _topic(seed, "trades", "trade_id")


def cash(seed: int) -> Iterator[Message]:
    """Money that comes to an account or leaves it, without end."""
    return _topic(seed, "cash", "account_id")


def prospects_of(seed: int, day: int) -> str:
    """The CSV file of a day: all prospects that there are on it."""
    lines = ["prospect_id,name,city,net_worth"]
    for number in range(PROSPECTS):
        person, today = Random(f"{seed} prospect {number}").random, Random(f"{seed} {number} {day}").random
        name, city, worth = NAMES[int(person() * len(NAMES))], CITIES[int(person() * len(CITIES))], person()
        moves_on = int(person() * 8)
        if day >= moves_on:
            city = CITIES[int(person() * len(CITIES))]
        if today() < IS_PROSPECT:
            lines.append(f"{number},{name},{city},{int(worth * 900) * 1_000}")
    return "\n".join(lines) + "\n"


def prices_of(seed: int, day: int) -> str:
    """The CSV file of a day: the price of most symbols."""
    days = [START.date() + timedelta(days=day)]
    if day == 0:
        days = [START.date() - timedelta(weeks=week) for week in range(WEEKS_BEFORE, 0, -1)] + days
    lines = ["symbol,day,close,high,low"]
    lines += [
        _price(seed, symbol, each) for each in days for symbol in SYMBOLS if _is_traded(seed, symbol, each)
    ]
    return "\n".join(lines) + "\n"


def write_day(folder: Path, seed: int, day: int) -> list[Path]:
    """Write the two files of a day."""
    on = START.date() + timedelta(days=day)
    written = []
    for name, text in (
        (f"prospects/taken_on={on}/prospects.csv", prospects_of(seed, day)),
        (f"prices/{on}.csv", prices_of(seed, day)),
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def _is_traded(seed: int, symbol: str, day: date) -> bool:
    return Random(f"{seed} {symbol} {day} traded").random() < IS_TRADED


def _price(seed: int, symbol: str, day: date) -> str:
    draw = Random(f"{seed} {symbol} {day}").random
    close = 20 + int(draw() * 8_000) / 100
    return f"{symbol},{day},{close:.2f},{close + draw() * 5:.2f},{close - draw() * 5:.2f}"


def _topic(seed: int, topic: str, key: str) -> Iterator[Message]:
    """A topic's messages as they arrive: some twice, some late."""
    random = Random(f"{seed} {topic}").random
    waiting: list[tuple[int, Message]] = []
    for number, row in enumerate(_of(seed, topic)):
        message = Message(str(row[key]).encode(), json.dumps(row, separators=(",", ":")).encode())
        draw = random()
        later = number + 1 + int(random() * FARTHEST)
        if draw < TWICE + HELD_BACK:
            waiting.append((later, message))
        if draw < TWICE or draw >= TWICE + HELD_BACK:
            yield message
        for each in [each for each in waiting if each[0] <= number]:
            waiting.remove(each)
            yield each[1]


def _of(seed: int, topic: str) -> Iterator[Row]:
    """A topic's rows in the order of their events."""
    brokerage = Brokerage(seed)
    while True:
        yield from (row for found, row in brokerage.day() if found == topic)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        write_day(Path(__file__).parent, 1, number)
