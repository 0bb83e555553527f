"""What the golden pipeline's topics hold, in rounds; a run of all queries follows each round.

The rounds of ``BEFORE`` are in an archive's tables; those of ``AFTER`` come to them later. Every round fills
whole micro-batches (six orders, three payments, three baskets), so that a fresh pipeline, which reads all
rounds in one run, has the same micro-batches. Times are those of one day. A late row is hours late: it is
late whether or not a micro-batch without rows has moved a watermark in between.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

DAY = datetime(2026, 1, 5, tzinfo=UTC)
TOPICS = {
    "golden_orders": 1,
    "golden_payments": 1,
    "golden_customers": 2,
    "golden_baskets": 1,
    "golden_published": 1,
}
"""Partitions by topic."""


def _at(time: str) -> str:
    return f"{DAY:%Y-%m-%d}T{time}:00Z"


def _message(topic: str, partition: int, key: str, value: str | None, sent: str) -> dict[str, Any]:
    hours, minutes = map(int, sent.split(":"))
    moment = DAY + timedelta(hours=hours, minutes=minutes)
    return {
        "topic": topic,
        "partition": partition,
        "key": key,
        "value": value,
        "timestamp": int(moment.timestamp() * 1000),
    }


def _orders(sent: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Messages of one micro-batch: ``(id, customer, country, amount, state, at, unknown fields)``.

    A row of an id alone is a tombstone; one of an id and a text has that text as its value.
    """
    found = []
    for key, *rest in rows:
        value: str | None = rest[0] if rest else None
        if len(rest) > 1:
            customer, country, amount, state, at, *unknown = rest
            fields = {"id": key, "customer": customer, "country": country, "amount": amount, "state": state}
            value = json.dumps({**fields, "at": _at(at), **(unknown[0] if unknown else {})})
        found.append(_message("golden_orders", 0, key, value, sent))
    return found


def _payments(sent: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Messages of one micro-batch: ``(order, paid, at, unknown fields)``."""
    return [
        _message(
            "golden_payments",
            0,
            order,
            json.dumps({"order": order, "paid": paid, "at": _at(at), **(unknown[0] if unknown else {})}),
            sent,
        )
        for order, paid, at, *unknown in rows
    ]


def _customers(sent: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Change envelopes: ``(operation, position in the log, id, name, country)``."""
    found = []
    for op, lsn, key, *rest in rows:
        row = {"id": key, "name": rest[0], "country": rest[1]} if rest else {"id": key}
        found.append(
            _message(
                "golden_customers",
                int(key[1:]) % 2,
                key,
                json.dumps(
                    {
                        "before": row if op == "d" else None,
                        "after": None if op == "d" else row,
                        "op": op,
                        "ts_ms": int(DAY.timestamp() * 1000) + lsn,
                        "source": {"connector": "postgresql", "lsn": lsn},
                    }
                ),
                sent,
            )
        )
    return found


def _baskets(sent: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Messages of one micro-batch: ``(id, at, (sku, number) of each line)``.

    A basket without a time has a text in the place of its lines.
    """
    found = []
    for basket, at, *lines in rows:
        elements: object = [{"sku": sku, "number": number} for sku, number in lines] if at else "none"
        value = json.dumps({"basket": basket, "at": _at(at or sent), "lines": elements})
        found.append(_message("golden_baskets", 0, basket, value, sent))
    return found


BEFORE: list[list[dict[str, Any]]] = [
    [
        *_customers(
            "08:00",
            ("r", 1, "c1", "Ada", "DE"),
            ("r", 2, "c2", "Ben", "FR"),
            ("r", 3, "c3", "Cleo", "DE"),
            ("c", 4, "c6", "Finn", "FR"),
            ("c", 5, "c7", "Gil", "IT"),
            ("u", 6, "c2", "Benoit", "FR"),
            ("u", 6, "c2", "Benoit", "FR"),
        ),
        *_orders(
            "08:30",
            ("o1", "c1", "DE", 10, "new", "08:00"),
            ("o2", "c2", "FR", 20, "new", "08:05"),
            ("o3", "c3", "DE", 30, "new", "08:10"),
            ("o4", "c1", "DE", 5, "new", "08:15"),
            ("o1", "c1", "DE", 10, "new", "08:00"),
            ("o9", "{not JSON"),
        ),
        *_payments("08:50", ("o1", 10, "08:30"), ("o2", 20, "08:35"), ("o1", 10, "08:30")),
        *_baskets(
            "08:55",
            ("b1", "08:00", ("pen", 2), ("ink", 0), ("cup", "many"), ("pen", 9), ("gift", 1)),
            ("b2", "08:10"),
            ("b3", None),
        ),
        *_orders(
            "10:30",
            ("o1", "c1", "DE", 10, "paid", "10:00"),
            ("o5", "c2", "FR", 50, "new", "10:10"),
            ("o2", "c2", "FR", -1, "new", "10:15"),
            ("o6", "c3", "DE", 0, "new", "10:20"),
            ("o4",),
            ("o8", "c1", "DE", 1, "test", "10:30"),
        ),
        *_payments("10:50", ("o5", 50, "10:30"), ("o3", 30, "10:00"), ("o6", 0, "10:40")),
        *_baskets(
            "10:55",
            ("b4", "10:00", ("pen", 1), ("cup", 4)),
            ("b1", "08:00", ("pen", 2), ("ink", 5)),
            ("b5", "10:20", ("ink", 3), (None, 1)),
        ),
    ],
    [
        *_customers(
            "12:00",
            ("c", 7, "c4", "Dora", "DE"),
            ("u", 8, "c1", "Ada L.", "DE"),
            ("d", 9, "c6"),
        ),
        *_orders(
            "12:50",
            ("o2", "c2", "FR", 20, "paid", "12:00"),
            ("o5", "c2", "FR", 50, "paid", "12:05"),
            ("o3", "c3", "DE", 30, "shipped", "12:10"),
            ("o10", "c1", "DE", 70, "new", "12:15"),
            ("o10", "c1", "DE", 70, "paid", "12:40"),
            ("o6", "c3", "DE", 6, "paid", "12:20", {"gift": True}),
        ),
        *_payments(
            "12:50", ("o2", 20, "12:30"), ("o5", 50, "12:35", {"method": "card"}), ("o2", 20, "08:35")
        ),
        *_baskets(
            "12:55",
            ("b6", "12:00", ("pen", 6), ("pen", 6)),
            ("b4", "10:00", ("cup", 4), ("ink", 1)),
            ("b7", "12:30", ("gift", 2)),
        ),
        *_orders(
            "14:30",
            ("o11", "c2", "FR", 11, "new", "05:30"),
            ("o5", "c2", "FR", 50, "deleted", "14:00"),
            ("o1", "c1", "DE", 10, "new", "08:00"),
            ("o12", "c4", "DE", 120, "new", "14:10"),
            ("o3", "c3", "DE", 30, "delivered", "14:20"),
            ("o10", "c1", "DE", 70, "checked", "12:30"),
        ),
        *_payments(
            "14:50", ("o12", 100, "14:30"), ("o12", 20, "14:40", {"method": "cash"}), ("o3", 1, "14:25")
        ),
    ],
]

AFTER: list[list[dict[str, Any]]] = [
    [
        *_customers(
            "16:00",
            ("c", 10, "c5", "Enzo", "IT"),
            ("d", 11, "c7"),
            ("u", 0, "c1", "too old", "DE"),
            ("c", 12, "c6", "Finn again", "FR"),
            ("u", 8, "c1", "Ada L.", "DE"),
        ),
        *_orders(
            "16:30",
            ("o13", "c1", "DE", 13, "new", "16:00"),
            ("o13", "c1", "DE", 13, "new", "16:00"),
            ("o1", "c1", "DE", 10, "paid", "10:00"),
            ("o2", "c2", "FR", 20, "shipped", "16:10"),
            ("o10", "c1", "DE", 70, "shipped", "16:20"),
            ("o14", "c5", "IT", 14, "new", "16:25"),
        ),
        *_payments("16:50", ("o13", 13, "16:30"), ("o14", 14, "16:45", {"tip": 3}), ("o1", 10, "08:30")),
        *_baskets(
            "16:55",
            ("b6", "12:00", ("pen", 7), ("cup", 1)),
            ("b8", "16:00", ("ink", 8), ("ink", -8), ("pen", 8)),
            ("b9", "05:00", ("pen", 9)),
        ),
        *_orders(
            "18:30",
            ("o15", "c3", "DE", 15, "new", "05:45"),
            ("o11", "c2", "FR", 11, "new", "05:30"),
            ("o3", "c3", "DE", 30, "deleted", "18:00"),
            ("o6",),
            ("o5", "c2", "FR", 55, "new", "18:10"),
            ("o16", "{not JSON either"),
        ),
        *_payments("18:50", ("o9", 9, "05:00"), ("o13", 13, "16:30"), ("o5", 55, "18:30")),
        *_baskets(
            "18:55",
            ("b8", "16:00", ("pen", 8)),
            ("b10", "18:00", ("cup", 10), ("gift", 1)),
            ("b11", None),
        ),
        *_orders(
            "20:30",
            ("o13", "c1", "DE", 13, "paid", "20:00"),
            ("o1", "c1", "DE", 10, "shipped", "19:00"),
            ("o17", "c2", "FR", -5, "new", "20:05"),
            ("o18", "c2", "FR", 18, "test", "20:06"),
            ("o12", "c4", "DE", 0, "paid", "20:10"),
            ("o15", "c3", "DE", 15, "paid", "20:20"),
        ),
        *_payments(
            "20:50", ("o13", 13, "20:30"), ("o12", 1, "20:40", {"method": "cash"}), ("o12", "?", "20:45")
        ),
    ],
]
