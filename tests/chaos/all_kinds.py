"""A shop with every kind of gold table, and its events: in time order, each fifth sent a second time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from common.declare import (
    Aggregate,
    ChangeFeed,
    Custom,
    History,
    Join,
    Json,
    Message,
    Pipeline,
    Rule,
    Session,
    Silver,
    Stateful,
    Storage,
    Topic,
    Upsert,
    Window,
    Within,
)
from tests.support.oracles.numbered_rows import NumberedCustomers

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STEP = timedelta(milliseconds=100)
CUSTOMERS = 40
_COLUMNS = {name: name for name in ("id", "customer", "amount", "op", "at")}


def _silver(name: str, kind: str, **more: Any) -> Silver:
    return Silver(
        name,
        reads="bronze.events",
        value=Json("id string, kind string, customer int, amount int, op string, at timestamp"),
        columns=_COLUMNS,
        key=["id"],
        event_time="at",
        watermark="1 hour",
        where=f"kind = '{kind}'",
        **more,
    )


def _copy(rows: Any, writer: Any) -> None:
    writer.append(rows.selectExpr("id", "amount * 2 as twice"), "copied")


ORDERS = "silver.orders"
_NUMBERED = "customer int, n int"
PIPELINE = Pipeline(
    name="kinds",
    bronze=[Topic("events", topics=["events"])],
    silver=[
        _silver("orders", "order", rules=[Rule("amount_positive", "amount > 0")]),
        _silver("payments", "payment"),
    ],
    gold=[
        Aggregate("totals", ORDERS, by=["customer"], measures={"n": "count(*)", "sum": "sum(amount)"}),
        Aggregate(
            "minutes", ORDERS, mode="update", window=Window("at", "1 minute"), measures={"n": "count(*)"}
        ),
        Aggregate("exact", ORDERS, mode="recompute", by=["customer"], measures={"ids": "count(distinct id)"}),
        Aggregate(
            "visits",
            ORDERS,
            mode="recompute",
            by=["customer"],
            window=Session("at", "10 seconds"),
            measures={"n": "count(*)"},
        ),
        Upsert(
            "newest",
            ORDERS,
            key=["customer"],
            newest_by=["at"],
            delete_when="op = 'd'",
            storage=Storage(change_feed=True),
        ),
        ChangeFeed("copy", ORDERS, key=["customer"], sequence_by=["at"]),
        History("states", ORDERS, key=["customer"], valid_by="at", columns=["op"]),
        Join(
            "with_newest",
            "silver.payments",
            joins="gold.newest",
            on={"customer": "customer"},
            columns={"id": "id", "order": "newest.id"},
        ),
        Join(
            "paid",
            ORDERS,
            joins="silver.payments",
            on={"customer": "customer"},
            columns={"id": "id", "payment": "payments.id"},
            how="inner",
            mode="stream",
            within=Within("at", "at", "0 seconds", "5 seconds", "1 hour", "1 hour"),
        ),
        Stateful("numbered", ORDERS, key=["customer"], processor=NumberedCustomers, output=_NUMBERED),
        Stateful(
            "last_number",
            ORDERS,
            key=["customer"],
            processor=NumberedCustomers,
            output=_NUMBERED,
            mode="update",
        ),
        Custom("copied", ORDERS, write=_copy, tables={"copied": "id string, twice int"}),
    ],
)


def events(seed: int) -> Iterator[Message]:
    """Messages without end."""
    draw = random.Random(seed)  # noqa: S311  # repeatable is what matters
    at, number = NOON, 0
    while True:
        at, number = at + STEP, number + 1
        customer = draw.randrange(CUSTOMERS)
        content = {
            "id": f"e{number}",
            "kind": "payment" if number % 3 == 0 else "order",
            "customer": customer,
            "amount": draw.randrange(-2, 100),
            "op": draw.choice("cuuud"),
            "at": at.isoformat(),
        }
        message = Message(str(customer).encode(), json.dumps(content).encode())
        yield message
        if draw.random() < 0.2:
            yield message
