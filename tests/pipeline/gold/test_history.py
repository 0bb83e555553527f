"""Histories (SCD2): which keys silver is read for, and values that a version leaves as they were.

Their rows stand as cases in tests/spec/gold; test_random.py compares them after every micro-batch and replay.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import History, Pipeline, Topic
from common.delta import table as delta_table
from common.errors import PipelineError
from tests.conftest import make_settings
from tests.support.engine import Engine

UNAVAILABLE = "__debezium_unavailable_value"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = (
    "k string, region int, at int, status string, amount int, _kafka_topic string, _kafka_partition int,"
    "_kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
COORDINATES = ("_kafka_timestamp", "_kafka_topic", "_kafka_partition", "_kafka_offset")
STATES = History(
    "states",
    reads="silver.orders",
    key=["k", "region"],
    valid_by="at",
    columns={"status": "status", "is_large": "amount >= 5"},
)
LIVING = History(
    "living",
    reads="silver.orders",
    key=["k", "region"],
    valid_by="at",
    columns=["status"],
    delete_when="status = 'gone'",
)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], gold=[STATES, LIVING])
Row = dict[str, Any]


class Ran:
    """A first load of two files, then a micro-batch per commit: versions in any order, and changes."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.offset, self.chance = engine, 0, random.Random(7)  # noqa: S311

    def row(self, at: int | None, k: str | None, region: int | None, status: str | None) -> tuple[Any, ...]:
        self.offset += 1
        seconds = timedelta(seconds=self.chance.randrange(3))
        amount = self.chance.choice([None, 1, 9])
        return (k, region, at, status, amount, "t", self.offset % 2, self.offset, NOON + seconds, NOON)

    def rows(self, number: int, *, latest: int = 30) -> list[tuple[Any, ...]]:
        """Versions of six keys, most of them of few times, so that many are late and many are ties."""
        pick = self.chance.choice
        return [
            self.row(
                None if self.chance.random() < 0.05 else self.chance.randrange(latest),
                pick(["a", "b", None]),
                pick([1, None]),
                pick(["new", "new", "paid", "gone", None]),
            )
            for _ in range(number)
        ]

    def append(self, rows: list[tuple[Any, ...]]) -> None:
        self.engine.append("silver.orders", rows, SCHEMA)

    def sql(self, text: str) -> None:
        self.engine.spark.sql(text.format(f"delta.`{self.engine.path('silver.orders')}`"))

    def silver(self, version: int) -> list[Row]:
        found: list[Row] = (
            DeltaTable(self.engine.path("silver.orders"), version=version).to_pyarrow_table().to_pylist()
        )
        return found

    def batches(self, gold: History) -> list[tuple[int, dict[str, Any], int]]:
        """Per micro-batch: the version that it made, what it counted, and the silver version it read to."""
        found = []
        for version, told in enumerate(self.engine.commits(gold.table), start=1):
            position = told["positions"][0]
            whole = position["isStartingVersion"] or position["index"] >= 0
            found.append((version, told["counts"], position["reservoirVersion"] - (not whole)))
        return found


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run that most tests look at."""
    settings = make_settings(tmp_path_factory.mktemp("history"), "none:1", "gold.max_files_per_trigger=1")
    made = Ran(Engine(spark, PIPELINE, settings))
    empty = spark.createDataFrame([], SCHEMA).schema
    feed = {"delta.enableChangeDataFeed": "true"}
    delta_table.ensure(spark, "silver.orders", made.engine.path("silver.orders"), empty, feed)
    for _ in range(2):
        made.append(made.rows(10))
    made.engine.run("gold")
    # One after the other, of two keys: the table says enough.
    made.append(
        [made.row(40 + n, k, 1, s) for n, (k, s) in enumerate([("a", "new"), ("b", "gone"), ("b", "x")])]
    )
    made.append([made.row(50, "a", 1, "new"), made.row(51, "a", 1, "paid"), made.row(52, "a", 1, "gone")])
    made.append([made.row(55, "a", 1, "new"), made.row(53, "a", 1, "late"), *made.rows(12, latest=60)])
    made.sql("DELETE FROM {} WHERE at % 7 = 0")
    made.sql("UPDATE {} SET status = 'paid' WHERE k = 'b' AND at < 12")
    made.append(made.rows(10, latest=60))
    made.engine.run("gold")
    return made


@pytest.mark.long
def test_a_value_that_a_version_leaves_as_it_was_is_that_of_the_one_before(
    spark: Any, tmp_path: Path
) -> None:
    """In one micro-batch, over several, within one time, or late; after a delete it is unknown."""
    made = Ran(Engine(spark, PIPELINE, make_settings(tmp_path, "none:1")))
    empty = spark.createDataFrame([], SCHEMA).schema
    delta_table.ensure(spark, "silver.orders", made.engine.path("silver.orders"), empty, {})

    def after(*rows: tuple[Any, ...]) -> dict[str, list[tuple[Any, ...]]]:
        made.append([(*row[:4], 1, *row[5:8], NOON, NOON) for row in rows])
        made.engine.run("gold")
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in made.engine.rows(LIVING.table):
            found.setdefault(row["k"], []).append((row["valid_from"], row["valid_to"], row["status"]))
        return {key: sorted(spans) for key, spans in found.items()}

    assert after(
        made.row(1, "a", 1, "x"), made.row(2, "a", 1, UNAVAILABLE), made.row(5, "b", 1, UNAVAILABLE)
    ) == {"a": [(1, None, "x")], "b": [(5, None, None)]}
    # In order; two of one time; before all that b has.
    assert after(
        made.row(3, "a", 1, UNAVAILABLE),
        made.row(4, "a", 1, "y"),
        made.row(4, "a", 1, UNAVAILABLE),
        made.row(3, "b", 1, "late"),
    ) == {"a": [(1, 4, "x"), (4, None, "y")], "b": [(3, None, "late")]}
    # Between two runs of a, whose second has a value of its own; a delete of b, and what follows it.
    assert after(
        made.row(6, "a", 1, UNAVAILABLE),
        made.row(7, "b", 1, "gone"),
        made.row(8, "b", 1, UNAVAILABLE),
        made.row(2, "b", 1, "first"),
    ) == {"a": [(1, 4, "x"), (4, None, "y")], "b": [(2, 3, "first"), (3, 7, "late"), (8, None, None)]}
    assert after(made.row(5, "a", 1, "z"), made.row(6, "b", 1, "end")) == {
        "a": [(1, 4, "x"), (4, 5, "y"), (5, None, "z")],
        "b": [(2, 3, "first"), (3, 6, "late"), (6, 7, "end"), (8, None, None)],
    }
    # Deleted and sent again at one time, in one micro-batch.
    found = after(made.row(9, "a", 1, "gone"), made.row(9, "a", 1, UNAVAILABLE))
    assert found["a"] == [(1, 4, "x"), (4, 5, "y"), (5, 9, "z"), (9, None, None)]


@pytest.mark.long
def test_silver_is_read_for_the_keys_that_need_it_alone(ran: Ran) -> None:
    """Versions in order need the table alone; a late one within a run, and a row taken back, need silver."""
    counts = [counts for _, counts, _ in ran.batches(STATES)]
    assert counts[0]["unplaced"] == sum(row["at"] is None for row in ran.silver(2))
    assert [each["keys"] for each in counts[1:2]] == [0], "the first load was done at once"
    in_order = [each for each in counts if (each.get("keys"), each.get("recomputed")) in {(2, 0), (1, 0)}]
    assert len(in_order) == 2
    assert in_order[1] == {
        "keys": 1,
        "unplaced": 0,
        "recomputed": 0,
        "inserted": 3,
        "updated": 1,
        "deleted": 0,
    }
    assert any(each.get("recomputed", 0) > 0 for each in counts)


@pytest.mark.long
def test_an_expression_that_does_not_fit_is_told(spark: Any, ran: Ran) -> None:
    odd = History(
        "odd", reads="silver.orders", key=["k"], valid_by="at", columns={"s": "stats"}, delete_when="no_such"
    )
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], gold=[odd]), ran.engine.settings)
    with pytest.raises(PipelineError) as refused:
        engine.run("gold")
    assert [each.place for each in refused.value.problems] == [
        "gold.odd, column 's'",
        "gold.odd, delete_when",
    ]
