"""A small shop with all kinds of gold, what was sent to it, and an oracle without Spark for its tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from common.declare import (
    Aggregate,
    Custom,
    Gold,
    History,
    Join,
    Json,
    Pipeline,
    Rule,
    Silver,
    Storage,
    Topic,
    Upsert,
    View,
    Window,
    Within,
)
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from tests.support.bronze_batches import append_batch
from tests.support.engine import Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENING = NOON + timedelta(hours=10)
BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""When bronze read the first micro-batch; each later one was read a day later."""

READS = "silver.orders"
SIDES = (f"{READS}__quarantine", f"{READS}__late")
Place = tuple[str, int, int]
Rows = list[dict[str, Any]]


def _noted(rows: Any, gold: Any) -> None:
    gold.append(rows.select("order_id"), "noted")


_SUMS = {"n": "count(*)", "total": "sum(amount)"}
_BESIDE = {"joins": "gold.latest", "on": {"customer": "customer"}}
GOLD: tuple[Gold, ...] = (
    Aggregate("counts", READS, by=["customer"], measures=_SUMS),
    Aggregate("again", READS, by=["customer"], measures=_SUMS, mode="recompute"),
    Aggregate(
        "days",
        READS,
        window=Window("ordered_at", "1 day"),
        measures={"n": "count(*)"},
        mode="update",
        watermark="300 days",
    ),
    Upsert(
        "latest",
        READS,
        key=["customer"],
        newest_by=["ordered_at"],
        columns=["customer", "order_id", "ordered_at", "amount"],
        storage=Storage(change_feed=True),
    ),
    History("states", READS, key=["customer"], valid_by="ordered_at", columns=["order_id"]),
    Join("joined", READS, columns={"order_id": "order_id", "last": "latest.order_id"}, **_BESIDE),
    Join("looked", READS, columns={"order_id": "order_id"}, mode="lookup", **_BESIDE),
    Join(
        "pairs",
        READS,
        joins=f"{READS}__late",
        on={"order_id": "order_id"},
        columns={"order_id": "order_id"},
        how="inner",
        mode="stream",
        within=Within(
            on="ordered_at",
            joins_on="ordered_at",
            after="-1 hour",
            before="1 hour",
            watermark="300 days",
            joins_watermark="300 days",
        ),
    ),
    View("seen", sql=f"select customer, count(*) as n, max(amount) as most from {READS} group by customer"),
    Custom("noted", READS, write=_noted, tables={"noted": "order_id string"}),
)
ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, customer string, ms bigint, amount int"),
    columns={
        "order_id": "id",
        "customer": "customer",
        "ordered_at": "timestamp_millis(ms)",
        "amount": "amount",
    },
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
    rules=[Rule("amount_positive", "amount > 0")],
    late="merge",
)
SHOP = Pipeline(name="shop", bronze=[Topic("orders", keep="90 days")], silver=[ORDERS], gold=list(GOLD))


@dataclass(frozen=True)
class Order:
    """A record's content; equal ids are copies of one event. ``is_late``: it comes behind the watermark."""

    id: str
    customer: str
    at: datetime
    amount: int = 5
    is_late: bool = False

    @property
    def value(self) -> bytes:
        """The record's bytes."""
        ms = round(self.at.timestamp() * 1000)
        return json.dumps(
            {"id": self.id, "customer": self.customer, "ms": ms, "amount": self.amount}
        ).encode()


def _at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


_A, _B, _D = Order("a", "C7", _at(0)), Order("b", "C1", _at(1)), Order("d", "C8", _at(3))
_H = Order("h", "C2", EVENING)
FILL: tuple[Mapping[int, list[Order | None]], ...] = (
    {0: [_A, _B, _A, None, Order("e", "C7", _at(4), -1)], 1: [Order("c", "C2", _at(2)), _D, _D]},
    {
        0: [_H, Order("f", "C1", EVENING, -1)],
        1: [
            Order("z", "C7", EVENING + timedelta(minutes=1)),
            Order("y", "C8", EVENING + timedelta(minutes=2)),
        ],
    },
    {
        0: [Order("k", "C1", _at(5), is_late=True), replace(_B, is_late=True)],
        1: [Order("l", "C7", _at(6), is_late=True)],
    },
)
"""The first micro-batches; None is a record that cannot be read. The third one comes behind the watermark."""


@dataclass
class Shop:
    """What was sent, what was erased, and what became of the declaration.

    Attributes:
        ends: By partition, the next offset.
        batches: Number of bronze's micro-batches.
        sent: The order of each record; None for one that cannot be read.
        erased: Customers whose records were erased.
        keeps_late: Whether late rows are no longer merged.
        is_relaxed: Whether the rule was relaxed, by which some records are not accepted.
        by_hand: Gold tables that a command has named as not following, without a command for them.
        gold: The declarations of gold.
    """

    ends: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    batches: int = 0
    sent: dict[Place, Order | None] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    keeps_late: bool = False
    is_relaxed: bool = False
    by_hand: set[str] = field(default_factory=set)
    gold: Sequence[Gold] = GOLD

    def copied(self) -> Shop:
        """The same, to go on by itself."""
        own = {"ends": dict(self.ends), "sent": dict(self.sent)}
        return replace(self, **own, erased=set(self.erased), by_hand=set(self.by_hand))

    @property
    def pipeline(self) -> Pipeline:
        """The declaration of now."""
        rules = [Rule("amount_positive", "amount > -9")] if self.is_relaxed else ORDERS.rules
        silver = replace(ORDERS, rules=rules, late="keep" if self.keeps_late else "merge")
        return replace(SHOP, silver=[silver], gold=list(self.gold))

    def send(self, engine: Engine, orders: Mapping[int, list[Order | None]]) -> None:
        """One micro-batch of bronze."""
        for partition, each in orders.items():
            for place, order in enumerate(each, self.ends[partition]):
                self.sent["t", partition, place] = order
        values = {
            partition: [b"rot" if order is None else order.value for order in each]
            for partition, each in orders.items()
        }
        append_batch(engine, self.batches, values, self.ends, BEGAN + timedelta(days=self.batches))
        self.batches += 1

    def send_more(self, engine: Engine) -> None:
        """A new event, the copy of an old one, a late event, and one that breaks the rule."""
        number = self.batches
        later = EVENING + timedelta(minutes=2 + number)
        late = Order(f"late{number}", "C2", _at(20 + number), is_late=True)
        bad = Order(f"bad{number}", "C1", later + timedelta(seconds=1), -1)
        self.send(engine, {0: [Order(f"new{number}", "C1", later), _H], 1: [late, bad]})

    def problems(self, engine: Engine) -> Iterator[str]:
        """What is not as it must be, in any table."""
        rows = {table: engine.rows(table) for table in ("bronze.orders", READS, *SIDES)}
        yield from self._places(engine, rows)
        yield from self._events(rows)
        wanted = expected_gold(rows)
        for table in (one.table for one in self.gold if one.table not in self.by_hand):
            names, expected = wanted[table]
            if (found := _tuples(engine.rows(table), names)) != expected:
                yield f"{table} has {_text(found - expected)}, and lacks {_text(expected - found)}"

    def _is_erased(self, order: Order | None) -> bool:
        return order is not None and order.customer in self.erased

    def _places(self, engine: Engine, rows: Mapping[str, Rows]) -> Iterator[str]:
        """Records that are gone, there again, or in a table twice."""
        expired = expired_topics(LogReader(engine.path("bronze.orders")).properties())
        ends = expired["t"].offsets if expired else {}
        must = {
            place
            for place, order in self.sent.items()
            if not self._is_erased(order) and place[2] >= ends.get(place[1], (0, 0))[1]
        }
        for table, found in rows.items():
            places = Counter(place_of(row) for row in found)
            if twice := [place for place, count in places.items() if count > 1]:
                yield f"{table} has {twice} twice"
            if erased := [place for place in places if self._is_erased(self.sent[place])]:
                yield f"{table} has erased records {sorted(erased)}"
            if table == "bronze.orders" and (lost := must - places.keys()):
                yield f"{table} has lost {sorted(lost)}"

    def _events(self, rows: Mapping[str, Rows]) -> Iterator[str]:
        """Events that are not in the one place where they must be."""
        silver = Counter(row["order_id"] for row in rows[READS])
        late = {self.sent[place_of(row)] for row in rows[SIDES[1]]}
        aside = {self.sent[place_of(row)] for row in rows[SIDES[0]]}
        by_id = {one.id: one for one in self.sent.values() if one is not None}
        for row in rows[READS]:
            order = self.sent[place_of(row)]
            if order is None or (order.id, order.customer, order.amount) != (
                row["order_id"],
                row["customer"],
                row["amount"],
            ):
                yield f"{READS} has {row}, but {order} was sent"
        for name, order in by_id.items():
            count = silver.pop(name, 0)
            copies = [one for one in self.sent.values() if one is not None and one.id == name]
            is_late = all(one.is_late for one in copies)
            if order.customer in self.erased:
                must = (0,)
            elif order.amount < 0:
                is_aside = order in aside
                must = ((0,) if is_aside else (1,)) if self.is_relaxed else (0,)
                if not is_aside and not self.is_relaxed:
                    yield f"{name} is not in quarantine"
            elif is_late and self.keeps_late:
                must = (1,) if not any(one in late for one in copies) else (0, 1)
            else:
                must = (1,)
            if count not in must:
                yield f"{READS} has {name} {count} times, not {must}"
        if silver:
            yield f"{READS} has {dict(silver)}, which was never sent"


def place_of(row: Mapping[str, Any]) -> Place:
    """The coordinates of a row of bronze, silver, late or quarantine."""
    prefix = "_kafka_" if "_kafka_topic" in row else ""
    return row[f"{prefix}topic"], row[f"{prefix}partition"], row[f"{prefix}offset"]


def expected_gold(rows: Mapping[str, Rows]) -> dict[str, tuple[tuple[str, ...], Counter[Any]]]:
    """Per gold table, some of its columns, and the rows that silver's rows give."""
    silver = sorted(rows[READS], key=lambda row: row["ordered_at"])
    of: dict[str, Rows] = {}
    for row in silver:
        of.setdefault(row["customer"], []).append(row)
    sums = Counter((name, len(each), sum(one["amount"] for one in each)) for name, each in of.items())
    last = {name: each[-1]["order_id"] for name, each in of.items()}
    ids = Counter(row["order_id"] for row in silver)
    late = Counter(row["order_id"] for row in rows[SIDES[1]])
    expected: dict[str, tuple[tuple[str, ...], Counter[Any]]] = {
        "counts": (("customer", "n", "total"), sums),
        "again": (("customer", "n", "total"), sums),
        "days": (("n",), Counter((n,) for n in Counter(r["ordered_at"].date() for r in silver).values())),
        "latest": (("customer", "order_id"), Counter(last.items())),
        "states": (("customer", "order_id"), Counter((r["customer"], r["order_id"]) for r in silver)),
        "joined": (("order_id", "last"), Counter((r["order_id"], last[r["customer"]]) for r in silver)),
        "looked": (("order_id",), Counter((name,) for name in ids.elements())),
        "pairs": (
            ("order_id",),
            Counter({(name,): count * late[name] for name, count in ids.items() if late[name]}),
        ),
        "seen": (
            ("customer", "n", "most"),
            Counter((name, len(each), max(one["amount"] for one in each)) for name, each in of.items()),
        ),
        "noted": (("order_id",), Counter((name,) for name in ids.elements())),
    }
    return {f"gold.{table}": wanted for table, wanted in expected.items()}


def _tuples(rows: Rows, names: tuple[str, ...]) -> Counter[Any]:
    return Counter(tuple(row[name] for name in names) for row in rows)


def _text(rows: Counter[Any]) -> str:
    return ", ".join(map(str, sorted(rows.elements(), key=str)[:4])) or "nothing more"
