"""The proof by DuckDB of tables whose deleted rows are marked by deletion vectors."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Pipeline, Storage, Topic, Upsert, View
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.engine import Engine
from tests.support.oracles.proof import checks, different
from tests.support.shops import plain_silver
from tests.support.stored_shop import settings_of

ORDERS, VECTORS = "silver.orders", Storage(deletion_vectors=True)
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=["t"])],
    silver=[plain_silver("orders", "id string, country string, amount int, at timestamp", key=["id", "at"])],
    gold=[
        Upsert("latest", ORDERS, key=["id"], newest_by=["at"], storage=VECTORS),
        Aggregate(
            "totals",
            ORDERS,
            by=["country"],
            measures={"n": "count(*)", "amount": "sum(amount)"},
            mode="recompute",
            storage=VECTORS,
        ),
        View(
            "countries",
            sql=f"select country, sum(amount) as amount from {ORDERS} group by country",
            storage=VECTORS,
        ),
    ],
)


def orders(first: int, amount: int) -> list[bytes]:
    """Orders of five ids in two countries."""
    return [
        json.dumps(
            {
                "id": f"o{number % 5}",
                "country": "DE" if number % 2 else "FR",
                "amount": amount,
                "at": (EVENING + timedelta(seconds=number)).isoformat(),
            }
        ).encode()
        for number in range(first, first + 4)
    ]


def vectors(engine: Engine, table: str) -> int:
    """The commits of a table that mark rows of a file."""
    log = Path(engine.path(table)) / "_delta_log"
    return sum('"deletionVector":{' in file.read_text() for file in log.glob("*.json"))


@pytest.mark.long
def test_tables_with_deletion_vectors_are_in_the_proof(spark: Any, tmp_path: Path) -> None:
    engine, ends = Engine(spark, PIPELINE, settings_of(tmp_path)), {0: 0}
    for number in range(3):
        append_batch(engine, number, {0: orders(4 * number, number + 1)}, ends)
        engine.run("silver", "gold")
    tables = {one.table for one in PIPELINE.gold}
    latest = engine.path("gold.latest")
    spark.sql(f"UPDATE delta.`{latest}` SET amount = amount WHERE id = 'o1'")
    assert vectors(engine, "gold.latest")
    rows = checks(PIPELINE, engine.layout)
    assert different(rows) == {}
    assert {one.about for one in rows if one.about in tables and one.verdict == "equal"} == tables
    spark.sql(f"DELETE FROM delta.`{latest}` WHERE id = 'o2'")
    assert vectors(engine, "gold.latest") > 1
    assert set(different(checks(PIPELINE, engine.layout))) == {"gold.latest: equals its definition"}
