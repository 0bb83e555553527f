"""Orders with lines from a real topic: each line is a row of silver, once; gold counts them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.declare import Json, Message, Pipeline, Rule, Silver, Topic, View
from orchestration.records.audit.audit import audit
from tests.conftest import make_settings
from tests.support.engine import Engine

SKUS = ["pen", "ink", "cup", "pad", "mug"]
ROTTEN: list[bytes | None] = [None, b"rot", b'{"order": "x", "lines": []}', b'{"order": "x", "lines": 7}']


def declared(topic: str) -> Pipeline:
    return Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[
            Silver(
                "lines",
                reads="bronze.orders",
                each="lines",
                value=Json("order string, lines array<struct<sku: string, amount: int>>"),
                columns={
                    "order_id": "order",
                    "sku": "lines.sku",
                    "amount": "lines.amount",
                    "sent_at": "_kafka.timestamp",
                },
                key=["order_id", "sku"],
                event_time="sent_at",
                watermark="1 day",
                rules=[Rule("amount_positive", "amount > 0")],
            )
        ],
        gold=[View("sold", sql="select sku, sum(amount) as amount from silver.lines group by sku")],
    )


@pytest.mark.long
def test_each_line_is_a_row_once(
    spark: Any, tmp_path: Path, broker: str, topic: str, send: Callable[[str, list[Message]], None]
) -> None:
    engine = Engine(spark, declared(topic), make_settings(tmp_path, broker), broker)
    chance = random.Random(41)  # noqa: S311
    kept: dict[tuple[str, str], int] = {}
    found: Counter[str] = Counter()
    for part in range(3):
        messages = [Message(None, value) for value in ROTTEN]
        found.update(("tombstones", "quarantine", "empty", "quarantine"))
        for number in range(40):
            # Of one order all lines are in one record: between partitions the order of arrival is open.
            name, lines = f"o{part}-{number}", []
            for _ in range(chance.randrange(6)):
                sku, amount = chance.choice(SKUS), chance.randrange(5)
                lines.append({"sku": sku, "amount": amount})
                if not amount:
                    found["quarantine"] += 1
                elif (name, sku) in kept:
                    found["duplicates"] += 1
                else:
                    kept[name, sku] = amount
                    found["silver"] += 1
            found["empty"] += not lines
            messages.append(Message(name.encode(), json.dumps({"order": name, "lines": lines}).encode()))
        send(topic, messages)
        engine.run()
        if part == 1:  # killed after its writes: the next start does the micro-batch again
            engine.undo_last_commit("silver.lines")
    rows = engine.rows("silver.lines")
    assert Counter((row["order_id"], row["sku"], row["amount"]) for row in rows) == Counter(
        (*key, amount) for key, amount in kept.items()
    )
    sold: Counter[str] = Counter()
    for (_, sku), amount in kept.items():
        sold[sku] += amount
    assert {row["sku"]: row["amount"] for row in engine.rows("gold.sold")} == sold
    account = audit(spark, engine.pipeline, engine.pipeline.silver[0], engine.layout, again_seconds=0)
    assert account.faults == ()
    assert {name: count for name, count in account.totals.items() if count} == found
    assert account.offsets == 3 * 44
