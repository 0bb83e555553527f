"""Joins: keys that are windows of time, sides that come later, and what is refused before a table is made.

Their rows stand as cases in tests/spec/gold; test_random.py compares left and semi joins with DuckDB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from common.declare import Join, Pipeline, Topic
from common.delta import table as delta_table
from common.errors import PipelineError, TableMissingError, TableShapeError
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KAFKA = (
    "_kafka_topic string, _kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp,"
    "_ingested_at timestamp"
)
SIDES = {
    "silver.orders": f"order int, customer bigint, amount int, {KAFKA}",
    "silver.customers": f"id bigint, name string, version int, {KAFKA}",
}
COLUMNS = {"order": "order", "name": "upper(customers.name)", "version": "customers.version"}


def joined(name: str, **given: Any) -> Join:
    sides = {"reads": "silver.orders", "joins": "silver.customers"}
    return Join(name, **sides | {"on": {"id": "customer"}, "columns": COLUMNS} | given)


class Ran:
    """Gold tables over silver tables that are empty at first."""

    def __init__(self, spark: Any, folder: Path, sides: Mapping[str, str], *gold: Join) -> None:
        settings = make_settings(folder, "none:1", "gold.max_files_per_trigger=1")
        pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=gold)
        self.engine, self.sides, self.offset = Engine(spark, pipeline, settings), sides, 0
        for table, schema in sides.items():
            empty = spark.createDataFrame([], schema).schema
            feed = {"delta.enableChangeDataFeed": "true"}
            delta_table.ensure(spark, table, self.engine.path(table), empty, feed)

    def append(self, table: str, *rows: tuple[Any, ...]) -> None:
        """One commit; each row gets the next offset."""
        start, self.offset = self.offset, self.offset + len(rows)
        whole = [(*row, "t", 0, start + place, NOON, NOON) for place, row in enumerate(rows)]
        self.engine.append(table, whole, self.sides[table])

    def found(self, gold: Join) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row[name] for name in gold.columns) for row in self.engine.rows(gold.table))


CLICKS = {
    "silver.windows": f"w timestamp, name string, {KAFKA}",
    "silver.clicks": f"n int, at timestamp, {KAFKA}",
}


@pytest.mark.parametrize("how", ["left", "inner", "semi"])
def test_a_join_by_a_window_of_time_goes_on_after_its_first_load(
    spark: Any, tmp_path: Path, how: str
) -> None:
    """Spark computes a window in a projection alone, and leaves out rows without a time there."""
    gold = Join(
        "named",
        reads="silver.clicks",
        joins="silver.windows",
        on={"w": "window(at, '10 seconds').start"},
        how=how,  # type: ignore[arg-type]
        columns=["n"] if how == "semi" else {"n": "n", "name": "windows.name"},
    )
    ran = Ran(spark, tmp_path, CLICKS, gold)

    def bring(table: str, *rows: tuple[Any, ...]) -> None:
        ran.append(table, *rows)
        ran.engine.run("gold")

    def at(second: int) -> datetime:
        return NOON.replace(second=second)

    bring("silver.clicks", (1, at(3)), (2, None), (3, at(12)))
    bring("silver.windows", (at(0), "first"))
    bring("silver.clicks", (4, at(9)), (5, at(15)), (6, None))
    bring("silver.windows", (at(10), "second"), (None, "none"))
    names = {1: "first", 4: "first", 3: "second", 5: "second"}
    without = [(2, None), (6, None)] if how == "left" else []
    expected = [(n,) for n in names] if how == "semi" else [*names.items(), *without]
    assert ran.found(gold) == Counter(expected)


@pytest.mark.parametrize("empty", SIDES)
def test_a_side_that_was_empty_at_first_is_joined_when_it_comes(
    spark: Any, tmp_path: Path, empty: str
) -> None:
    """Its first state may come in several micro-batches, of which the later are not new.

    A customer that comes then touches its orders, and they alone. A table may be named by its path.
    """
    layout = Layout.of(Pipeline(name="shop", bronze=[Topic("orders")]), make_settings(tmp_path, "none:1"))
    by_path = layout.table_path("silver.customers")
    left = joined("left_one")
    semi = joined("semi_one", joins=by_path, how="semi", columns=["order", "amount"])
    ran = Ran(spark, tmp_path, SIDES, left, semi)
    rows: dict[str, list[tuple[Any, ...]]] = {
        "silver.orders": [(1, 10, 5), (2, 11, 6), (3, 12, 7)],
        "silver.customers": [(10, "ann", 1), (11, "bob", 1), (12, "cy", 1)],
    }
    (full,) = rows.keys() - {empty}
    for table in (full, empty):
        for row in rows[table]:
            ran.append(table, row)
        ran.engine.run("gold")
    names = Counter([(1, "ANN", 1), (2, "BOB", 1), (3, "CY", 1)])
    assert (ran.found(left), ran.found(semi)) == (names, Counter([(1, 5), (2, 6), (3, 7)]))
    ran.append("silver.customers", (10, "anna", 2))
    ran.engine.run("gold")
    assert ran.found(left) == names + Counter([(1, "ANNA", 2)])
    counts = ran.engine.commits(left.table)[-1]["counts"]
    assert (counts["changed"], counts["rows"]) == (0, 1)


def test_a_lookup_says_at_which_version_the_other_table_was(spark: Any, tmp_path: Path) -> None:
    """A row keeps what was there when it came."""
    lookup = joined("looked_up", mode="lookup")
    ran = Ran(spark, tmp_path, SIDES, lookup)
    for name, order in (("ann", 1), ("anna", 2)):
        ran.append("silver.customers", (10, name, order))
        ran.append("silver.orders", (order, 10, 5))
        ran.engine.run("gold")
    versions = [told["counts"]["joined_version"] for told in ran.engine.commits(lookup.table)]
    assert versions == [1, 2]
    assert ran.found(lookup) == Counter([(1, "ANN", 1), (2, "ANN", 1), (2, "ANNA", 2)])


def test_what_cannot_be_joined_is_told_before_a_table_is_made(spark: Any, tmp_path: Path) -> None:
    def refusal(gold: Join, error: type[Exception]) -> str:
        engine = Ran(spark, tmp_path, SIDES, gold).engine
        with pytest.raises(error) as refused:
            engine.run("gold")
        assert not delta_table.exists(engine.path(gold.table))
        return str(refused.value)

    odd = joined("odd", on={"idd": "custommer"}, columns={"a": "customers.nam"})
    told = refusal(odd, PipelineError)
    assert "gold.odd, on 'idd'" in told
    assert "gold.odd, on, column of silver.customers 'idd'" in told
    assert "gold.odd, column 'a'" in told
    assert "gold.none" in refusal(joined("odd", joins="gold.none"), TableMissingError)
    path = str(tmp_path / "feedless")
    spark.createDataFrame([], SIDES["silver.customers"]).write.format("delta").save(path)
    told = refusal(joined("odd", joins=path, columns=["order"]), TableShapeError)
    assert "keeps no change data feed" in told
