"""The pipeline whose cycle is cut: gold tables that are merged and overwritten, two of them from state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from common.config.settings import Settings
from common.declare import Aggregate, Json, Message, Pipeline, Rule, Silver, Stateful, Topic, Upsert
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.numbered_rows import NumberedOrders

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SILVER = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp, amount bigint"),
    columns={"order_id": "id", "ordered_at": "at", "amount": "amount"},
    key=["order_id", "ordered_at"],
    event_time="ordered_at",
    watermark="30 minutes",
    rules=[Rule("amount_positive", "amount > 0")],
)
GOLD = (
    Upsert(
        "latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"], delete_when="amount = 13"
    ),
    Aggregate("by_amount", reads="silver.orders", by=["amount"], measures={"orders": "count(*)"}),
    Stateful(
        "numbered",
        reads="silver.orders",
        key=["order_id"],
        processor=NumberedOrders,
        output="order_id string, n int",
    ),
    Stateful(
        "last_number",
        reads="silver.orders",
        key=["order_id"],
        processor=NumberedOrders,
        output="order_id string, n int",
        mode="update",
    ),
)
TABLES = (
    *("bronze.orders", "silver.orders", "silver.orders__quarantine", "silver.orders__late"),
    *(name for gold in GOLD for name in (gold.table, *gold.side_tables)),
)
_VARYING = {"ingested_at", "_ingested_at"}
"""Columns that differ if a record is read by a later attempt that was not planned before."""


def pipeline(topic: str) -> Pipeline:
    """The pipeline on a topic."""
    return Pipeline(name="shop", bronze=[Topic("orders", topics=[topic])], silver=[SILVER], gold=list(GOLD))


def settings(folder: Path, broker: str) -> Settings:
    """Small micro-batches, so that each query runs several in a cycle."""
    return make_settings(folder, broker, "bronze.max_offsets_per_trigger=6", "silver.max_files_per_trigger=1")


def engine(spark: Any, folder: Path, broker: str, topic: str) -> Engine:
    """The pipeline in a folder."""
    return Engine(spark, pipeline(topic), settings(folder, broker), broker)


def message(key: str, minute: int, amount: int) -> Message:
    """An order."""
    at = (NOON + timedelta(minutes=minute)).isoformat()
    return Message(key.encode(), json.dumps({"id": key, "at": at, "amount": amount}).encode())


BEFORE = [message("a", 0, 5), message("b", 1, 7), message("a", 2, 6), Message(b"x", b"{"), message("c", 3, 5)]
"""What is in the tables before the recorded cycle."""

NEW = [
    *(message("a", 100, 9), message("b", 101, 13), message("a", 100, 9), message("d", 102, -1)),
    *(message("e", 103, 4), Message(b"n", None), message("f", 2, 3), message("f", 104, 3)),
    *(message("a", 105, 1), message("g", 4, 2), message("b", 106, 8), Message(b"y", b"nothing")),
]
"""What the recorded cycle processes: updates, a delete, duplicates, late and broken records."""


def content(shop: Engine) -> Mapping[str, Counter[str]]:
    """Rows of all tables as multisets, without what differs from attempt to attempt."""
    return {
        table: Counter(
            repr([(name, value) for name, value in row.items() if name not in _VARYING])
            for row in shop.rows(table)
        )
        for table in TABLES
    }
