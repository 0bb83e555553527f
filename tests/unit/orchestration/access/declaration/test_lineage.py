"""Which silver tables may have the same records, and which table is made first."""

from __future__ import annotations

from typing import Any

from common.declare import Pipeline, Topic, View
from orchestration.access.declaration.lineage import connected, in_data_order, read_by, readers_of
from tests.support.oracles.plan_shop import orders


def test_tables_are_connected_by_what_they_read() -> None:
    def silver(name: str, *reads: str) -> Any:
        return orders(name=name, reads=[f"bronze.{one}" for one in reads])

    first, both, last, more, alone = (
        silver("first", "a"),
        silver("both", "a", "b"),
        silver("last", "c", "b"),
        silver("more", "c"),
        silver("alone", "d"),
    )
    tables = [more, alone, first, last, both]
    pipeline = Pipeline(name="p", bronze=[Topic(name) for name in "abcd"], silver=tables)
    assert readers_of(pipeline, first) == [first, both]
    assert connected(pipeline, first) == connected(pipeline, more) == [more, first, last, both]
    assert read_by([more, first, last, both]) == ("bronze.c", "bronze.a", "bronze.b")
    assert connected(pipeline, alone) == [alone]


def test_gold_tables_are_made_after_those_that_they_read() -> None:
    def view(name: str, reads: str) -> View:
        return View(name, sql=f"select id from {reads}")

    one, two, alone = view("one", "gold.two"), view("two", "silver.orders"), view("alone", "silver.orders")
    assert [table.name for table in in_data_order([one, alone, two])] == ["alone", "two", "one"]
    ring = [view("one", "gold.two"), view("two", "gold.one")]
    assert {table.name for table in in_data_order(ring)} == {"one", "two"}
