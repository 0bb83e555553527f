"""A shop whose declarations tests change: what its tables hold before a change, and what comes after it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from common.declare import (
    Aggregate,
    Custom,
    ForeachSink,
    History,
    Join,
    Json,
    Pipeline,
    Publish,
    Rule,
    Silver,
    Storage,
    Topic,
    Upsert,
    Window,
)

DAY = datetime(2026, 1, 10, tzinfo=UTC)
FIELDS = "id string, country string, amount int, kind string, at timestamp, sent timestamp"
COLUMNS = {name: name for name in ("id", "country", "amount", "at", "sent")}


def record(
    offset: int, key: str | None, *, days: float = 0, sent: float = 0, **fields: Any
) -> tuple[Any, ...]:
    """A row of bronze; without an id it is a tombstone."""
    at, later = DAY + timedelta(days=days), DAY + timedelta(days=sent)
    content = {"id": key, "country": "DE", "amount": 5, "kind": "web", "at": at, "sent": later, **fields}
    value = None if key is None else json.dumps(content, default=datetime.isoformat).encode()
    return ("orders", 0, offset, DAY, 0, DAY, b"k", value, None)


FIRST = [record(0, "a"), record(1, "b", country="FR", amount=7), record(2, "c", kind="app", amount=9)]
THEN = [
    record(3, "d", amount=8),
    record(4, "e", amount=0),
    record(5, "a", country="FR", days=0.01, amount=6),
    record(6, "g", days=-10),
    record(7, None),
    record(8, "i", extra=1, kind="app", sent=-20),
    record(9, "j", days=0.02),
]


def noted(rows: Any, gold: Any) -> None:
    """Write the ids of the rows that are new."""
    gold.append(rows.selectExpr("id", "amount as n"), "noted")


def noted_negative(rows: Any, gold: Any) -> None:
    """Write the ids of the rows that are new, with another number."""
    gold.append(rows.selectExpr("id", "-amount as n"), "noted")


def ignore(_: Any) -> None:
    """Publish a row nowhere."""


def orders(**changes: Any) -> Silver:
    """The silver table."""
    given: dict[str, Any] = {
        "name": "orders",
        "reads": "bronze.orders",
        "value": Json(FIELDS),
        "columns": COLUMNS,
        "key": ["id"],
        "event_time": "at",
        "watermark": "1 day",
        "rules": [Rule("amount_positive", "amount > 0")],
    }
    return Silver(**given | changes)


READS = "silver.orders"
GOLD: dict[str, Any] = {
    "counts": Aggregate(
        "counts", reads=READS, by=["country"], measures={"n": "count(*)", "most": "max(amount)"}
    ),
    "again": Aggregate("again", READS, by=["country"], measures={"n": "count(*)"}, mode="recompute"),
    "days": Aggregate(
        "days",
        READS,
        measures={"n": "count(*)"},
        window=Window("at", "1 day"),
        mode="update",
        watermark="30 days",
    ),
    "latest": Upsert(
        "latest", READS, key=["id"], newest_by=["at"], columns=["id", "country", "amount", "at"]
    ),
    "states": History("states", READS, key=["id"], valid_by="at", columns=["country"]),
    "joined": Join(
        "joined",
        READS,
        joins="silver.exact",
        on={"id": "id"},
        columns={"id": "id", "other": "exact.amount"},
    ),
    "noted": Custom("noted", READS, write=noted, tables={"noted": "id string, n int"}),
    "stored": Upsert("stored", READS, key=["id"], newest_by=["at"], storage=Storage(change_feed=True)),
}
PUBLISH = Publish("sent", reads="silver.orders", to=ForeachSink(ignore))
BASE = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("others")],
    silver=[orders(), orders(name="exact", dedupe="exact")],
    gold=list(GOLD.values()),
    publish=[PUBLISH],
)


def only(table: str, pipeline: Pipeline) -> Pipeline:
    """The pipeline with no more queries than a table needs."""
    layer, _, name = table.partition(".")
    if layer == "silver":
        return replace(
            pipeline, silver=[one for one in pipeline.silver if one.name == name], gold=[], publish=[]
        )
    if layer == "publish":
        return replace(pipeline, gold=[])
    return replace(pipeline, gold=[one for one in pipeline.gold if one.name == name], publish=[])
