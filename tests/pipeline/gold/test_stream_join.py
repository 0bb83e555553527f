"""Joins of two streams equal an oracle in plain Python; what came too late is left out and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Join, Pipeline, Topic, Within
from common.delta import table as delta_table
from tests.conftest import make_settings
from tests.support.engine import Engine

# tests/spec/gold has such joins in `make test`; here they go over restarts.
pytestmark = pytest.mark.long

DAY = datetime(2026, 3, 1, tzinfo=UTC)
KAFKA = (
    "_kafka_topic string, _kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp,"
    "_ingested_at timestamp"
)
ORDERS = f"order int, ordered_at timestamp, {KAFKA}"
PAYMENTS = f"of_order int, paid_at timestamp, {KAFKA}"
WITHIN = Within(
    on="ordered_at",
    joins_on="paid_at",
    after="-5 minutes",
    before="1 hour",
    watermark="10 minutes",
    joins_watermark="10 minutes",
)


def paid(how: Any, columns: dict[str, str]) -> Join:
    return Join(
        how,
        reads="silver.orders",
        joins="silver.payments",
        on={"of_order": "order"},
        columns=columns,
        how=how,
        mode="stream",
        within=WITHIN,
    )


INNER = paid("inner", {"order": "order", "paid_at": "payments.paid_at"})
LEFT = paid("left", {"order": "order", "paid_at": "payments.paid_at"})
SEMI = paid("semi", {"order": "order"})
JOINS = (INNER, LEFT, SEMI)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], gold=JOINS)
Event = tuple[int | None, str | None]

# Rounds of orders and payments; a run of the queries, which is a restart, after each.
ROUNDS: tuple[tuple[list[Event], list[Event]], ...] = (
    (
        [
            (1, "12:00"),
            (2, "12:10"),
            (3, "12:15"),
            (4, "12:16"),
            (5, None),
            (6, "12:20"),
            (None, "12:20"),
            (30, "1969"),
        ],
        [
            (30, "1969"),
            (1, "12:30"),
            (1, "12:40"),
            (2, "13:10"),
            (3, "12:11"),
            (4, "12:10"),
            (5, "12:20"),
            (6, None),
            (None, "12:21"),
        ],
    ),
    ([(7, "15:00"), (8, "18:00")], [(7, "16:01"), (99, "18:00")]),
    ([(20, "12:00"), (9, "18:30")], [(20, "12:01"), (9, "18:31")]),
    ([(10, "23:00")], [(98, "23:00")]),
)
LATE = {20, 30}
"""By the watermark, and because Spark's first watermark is 1970."""
WAITING = {10}


def at(text: str | None) -> datetime | None:
    if text == "1969":
        return datetime(1969, 7, 20, tzinfo=UTC)
    return None if text is None else DAY + timedelta(hours=int(text[:2]), minutes=int(text[3:]))


def oracle(gold: Join) -> Counter[tuple[Any, ...]]:
    """The join of all rounds in plain Python, without what came too late or may still be met."""
    orders = [(order, at(text)) for given, _ in ROUNDS for order, text in given if order not in LATE]
    payments = [(order, at(text)) for _, given in ROUNDS for order, text in given if order not in LATE]
    found: Counter[tuple[Any, ...]] = Counter()
    for order, ordered in orders:
        if ordered is None:
            continue
        first, last = ordered - timedelta(minutes=5), ordered + timedelta(hours=1)
        matches = [
            paid
            for of, paid in payments
            if of == order is not None and paid is not None and first <= paid <= last
        ]
        if gold is SEMI:
            found.update([(order,)] if matches else [])
        elif gold is LEFT and not matches and order not in WAITING:
            found[order, None] += 1
        else:
            found.update((order, paid) for paid in matches)
    return found


@pytest.fixture(scope="module")
def engine(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The run that the tests look at."""
    settings = make_settings(tmp_path_factory.mktemp("stream_join"), "none:1")
    made = Engine(spark, PIPELINE, settings)
    run(spark, made, ROUNDS)
    return made


def run(spark: Any, made: Engine, rounds: Sequence[tuple[list[Event], list[Event]]]) -> None:
    """Some rounds of orders and payments, and the queries after each."""
    offset = 0
    for orders, payments in rounds:
        for table, schema, events in (
            ("silver.orders", ORDERS, orders),
            ("silver.payments", PAYMENTS, payments),
        ):
            empty = spark.createDataFrame([], schema).schema
            delta_table.ensure(spark, table, made.path(table), empty, {})
            rows = []
            for order, text in events:
                offset += 1
                rows.append((order, at(text), "t", 0, offset, DAY, DAY))
            made.append(table, rows, schema)
        made.run("gold")


def found(engine: Engine, gold: Join) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in gold.columns) for row in engine.rows(gold.table))


@pytest.mark.parametrize("gold", JOINS, ids=lambda gold: gold.name)
def test_pairs_within_the_bounds_are_there_whatever_restarts_lie_between(engine: Engine, gold: Join) -> None:
    """A left row without one is there once none can come any more."""
    expected = oracle(gold)
    assert found(engine, gold) == expected
    assert {"inner": 5, "left": 10, "semi": 4}[gold.name] == expected.total()


@pytest.mark.parametrize("gold", JOINS, ids=lambda gold: gold.name)
def test_a_row_that_came_too_late_is_left_out_and_counted(engine: Engine, gold: Join) -> None:
    """One of each side, and of each side one of before 1970."""
    counts = [told["counts"] for told in engine.commits(gold.table)]
    assert sum(each["late"] for each in counts) == 4
    assert [each["before_1970"] for each in counts if "before_1970" in each] == [2]
    assert sum(each["rows"] for each in counts) == len(engine.rows(gold.table))


def test_with_the_higher_watermark_the_slower_table_is_late(spark: Any, tmp_path: Path) -> None:
    """A payment of eight hours before the newest order: joined by the lower one, late by the higher."""
    higher = replace(INNER, name="higher", within=replace(WITHIN, watermark_policy="max"))
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=[INNER, higher])
    made = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))
    rounds: list[tuple[list[Event], list[Event]]] = [
        ([(1, "12:00"), (2, "20:00")], [(90, "12:00")]),
        ([(3, "20:01")], [(91, "12:01")]),
        ([(4, "20:02")], [(1, "12:30"), (4, "20:02")]),
    ]
    run(spark, made, rounds)
    assert found(made, INNER) == Counter({(1, at("12:30")): 1, (4, at("20:02")): 1})
    assert found(made, higher) == Counter({(4, at("20:02")): 1})
    late = {
        each.table: sum(told["counts"]["late"] for told in made.commits(each.table))
        for each in (INNER, higher)
    }
    assert late[INNER.table] == 0
    assert late[higher.table] >= 1


def test_a_replayed_micro_batch_writes_nothing(engine: Engine) -> None:
    before = {gold.name: (engine.version(gold.table), found(engine, gold)) for gold in JOINS}
    for gold in JOINS:
        engine.undo_last_commit(gold.table)
    engine.run("gold")
    assert {gold.name: (engine.version(gold.table), found(engine, gold)) for gold in JOINS} == before
