"""Joins equal an oracle in plain Python over the versions that each micro-batch has read to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Join, Pipeline, Storage, Topic, Upsert
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
ORDERS = f"order int, customer bigint, amount int, {KAFKA}"
CUSTOMERS = f"id bigint, name string, version int, {KAFKA}"
FEED = Storage(change_feed=True)
ON = {"id": "customer"}
COLUMNS = {"order": "order", "name": "upper(customers.name)", "version": "customers.version"}


def joined(name: str, **given: Any) -> Join:
    plain = {"reads": "silver.orders", "joins": "silver.customers", "on": ON, "columns": COLUMNS}
    return Join(name, **plain | given)


LEFT = joined("left_one")
SEMI = joined("semi_one", how="semi", on={"id": "abs(customer)"}, columns=["order", "amount"])
LOOKUP = joined("looked_up", mode="lookup")
INNER = joined(
    "of_gold",
    how="inner",
    reads="gold.last_orders",
    joins="gold.last_customers",
    columns={"order": "order", "name": "upper(last_customers.name)", "version": "last_customers.version"},
)
LAST_ORDERS = Upsert("last_orders", reads="silver.orders", key=["order"], newest_by=["amount"], storage=FEED)
LAST_CUSTOMERS = Upsert(
    "last_customers", reads="silver.customers", key=["id"], newest_by=["version"], storage=FEED
)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], gold=[LEFT, SEMI, LOOKUP])
# Declared before what it reads.
OF_GOLD = Pipeline(name="shop", bronze=[Topic("orders")], gold=[INNER, LAST_ORDERS, LAST_CUSTOMERS])
ANEW = (LEFT, SEMI)
Row = dict[str, Any]


def oracle(orders: list[Row], customers: list[Row], gold: Join) -> Counter[tuple[Any, ...]]:
    """The rows of a join, with the order's offset; ``_match`` left out."""
    found: Counter[tuple[Any, ...]] = Counter()
    for order in orders:
        asked = order["customer"] if gold is not SEMI or order["customer"] is None else abs(order["customer"])
        matches: list[Any] = [one for one in customers if asked is not None and one["id"] == asked]
        if gold is SEMI:
            found.update([(order["order"], order["amount"], order["_kafka_offset"])] if matches else [])
            continue
        if not matches and gold is not INNER:
            matches = [{"name": None, "version": None}]
        for one in matches:
            name = one["name"] and one["name"].upper()
            found[order["order"], name, one["version"], order["_kafka_offset"]] += 1
    return found


class Ran:
    """A first load, then changes of either side and of both, a few micro-batches each."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.offset = engine, 0

    def append(self, table: str, *rows: tuple[Any, ...]) -> None:
        """One commit; each row gets the next offset."""
        whole = []
        for row in rows:
            self.offset += 1
            whole.append((*row, "t", 0, self.offset, NOON, NOON))
        self.engine.append(table, whole, ORDERS if table == "silver.orders" else CUSTOMERS)

    def sql(self, text: str, table: str) -> None:
        self.engine.spark.sql(text.format(f"delta.`{self.engine.path(table)}`"))

    def rows(self, table: str, version: int | None = None) -> list[Row]:
        found: list[Row] = DeltaTable(self.engine.path(table), version=version).to_pyarrow_table().to_pylist()
        return found

    def found(self, gold: Join, version: int | None = None) -> Counter[tuple[Any, ...]]:
        columns = [*gold.columns, "_kafka_offset"]
        return Counter(tuple(row[name] for name in columns) for row in self.rows(gold.table, version))


def read_to(position: Any) -> int:
    whole = position["isStartingVersion"] or position["index"] >= 0
    return int(position["reservoirVersion"]) - (not whole)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run that most tests look at."""
    return changed_on_either_side(spark, tmp_path_factory.mktemp("join"), PIPELINE)


@pytest.fixture(scope="module")
def ran_of_gold(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The same changes of silver, joined as two gold tables have them."""
    return changed_on_either_side(spark, tmp_path_factory.mktemp("join_of_gold"), OF_GOLD)


def changed_on_either_side(spark: Any, folder: Path, pipeline: Pipeline) -> Ran:
    """A first load, then rows that come, change and go on both sides."""
    settings = make_settings(folder, "none:1", "gold.max_files_per_trigger=1")
    made = Ran(Engine(spark, pipeline, settings))
    for table, schema in (("silver.orders", ORDERS), ("silver.customers", CUSTOMERS)):
        empty = spark.createDataFrame([], schema).schema
        path = made.engine.path(table)
        delta_table.ensure(spark, table, path, empty, {"delta.enableChangeDataFeed": "true"})
    made.append("silver.orders", (1, 10, 5), (2, 10, 6), (3, 11, 7), (4, None, 8))
    made.append("silver.orders", (5, 12, 5), (6, -10, 1))
    made.append("silver.customers", (10, "ann", 1), (None, "nobody", 1))
    made.engine.run("gold")
    made.append(
        "silver.customers",
        *((10, "anna", 2), (12, "bob", 1), (13, "cy", 1), (11, "dee", 1), (11, "dee", 1), (12, None, 2)),
    )
    made.engine.run("gold")
    made.append("silver.orders", (7, 10, 1), (8, 13, 1), (1, 13, 9), (9, 12, 3))
    made.sql("UPDATE {} SET id = 11 WHERE id = 13", "silver.customers")
    made.sql("DELETE FROM {} WHERE order = 2", "silver.orders")
    made.engine.run("gold")
    made.engine.run("gold")
    return made


@pytest.mark.parametrize("gold", ANEW, ids=lambda gold: gold.name)
def test_after_every_micro_batch_it_is_the_join_of_both_tables(ran: Ran, gold: Join) -> None:
    """Of both as the batch has read them: rows of either side come, change and go."""
    assert_is_join_after_every_batch(ran, gold)


def test_a_join_of_gold_tables_follows_them(ran_of_gold: Ran) -> None:
    assert_is_join_after_every_batch(ran_of_gold, INNER)


def assert_is_join_after_every_batch(ran: Ran, gold: Join) -> None:
    commits = ran.engine.commits(gold.table)
    assert len(commits) >= 4
    for version, told in enumerate(commits, start=1):
        left, right = (read_to(position) for position in told["positions"])
        expected = oracle(ran.rows(gold.reads, left), ran.rows(gold.joins, right), gold)
        assert ran.found(gold, version) == expected, told
    now = oracle(ran.rows(gold.reads), ran.rows(gold.joins), gold)
    assert ran.found(gold) == now
    assert len(now) >= 3


def test_a_change_has_the_rows_that_it_concerns_joined_anew(ran: Ran) -> None:
    """A customer that comes touches its orders, and they alone."""
    counts = [told["counts"] for told in ran.engine.commits(LEFT.table)]
    assert counts[0] == {}
    assert {(each["changed"], each["rows"]) for each in counts[1:2]} == {(0, 0)}, (
        "the first load was done at once"
    )
    assert any(each["changed"] == 0 and 0 < each["rows"] < 9 for each in counts[1:])


def test_a_lookup_is_as_the_other_table_was_when_the_row_came(ran: Ran) -> None:
    """And says in its commit which version that was."""
    expected: Counter[tuple[Any, ...]] = Counter()
    seen: set[int] = set()
    for told in ran.engine.commits(LOOKUP.table):
        orders = ran.rows(LOOKUP.reads, read_to(told["positions"][0]))
        new = [row for row in orders if row["_kafka_offset"] not in seen]
        if told["positions"][0]["isStartingVersion"]:
            # Within the first state Delta tells no versions: one file of one commit each.
            files = {0: {1, 2, 3, 4}, 1: {5, 6}}
            new = [row for row in new if row["_kafka_offset"] in files[told["batch_id"]]]
        seen |= {row["_kafka_offset"] for row in new}
        expected += oracle(new, ran.rows(LOOKUP.joins, told["counts"]["joined_version"]), LOOKUP)
    assert ran.found(LOOKUP) == expected
    names = {
        gold.name: {row["name"] for row in ran.rows(gold.table) if row["order"] == 3}
        for gold in (LOOKUP, LEFT)
    }
    assert names == {"looked_up": {None}, "left_one": {"DEE", "CY"}}
    versions = [told["counts"]["joined_version"] for told in ran.engine.commits(LOOKUP.table)]
    assert set(versions) == {1, 3}


WINDOWS = "w timestamp, name string, " + KAFKA
CLICKS = "n int, at timestamp, " + KAFKA


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
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=[gold])
    ran = Ran(Engine(spark, pipeline, make_settings(tmp_path, "none:1")))
    for table, schema in (("silver.clicks", CLICKS), ("silver.windows", WINDOWS)):
        empty = spark.createDataFrame([], schema).schema
        delta_table.ensure(
            spark, table, ran.engine.path(table), empty, {"delta.enableChangeDataFeed": "true"}
        )

    def bring(table: str, schema: str, *rows: tuple[Any, ...]) -> None:
        start, ran.offset = ran.offset, ran.offset + len(rows)
        whole = [(*row, "t", 0, start + place, NOON, NOON) for place, row in enumerate(rows)]
        ran.engine.append(table, whole, schema)
        ran.engine.run("gold")

    def at(second: int) -> datetime:
        return NOON.replace(second=second)

    bring("silver.clicks", CLICKS, (1, at(3)), (2, None), (3, at(12)))
    bring("silver.windows", WINDOWS, (at(0), "first"))
    bring("silver.clicks", CLICKS, (4, at(9)), (5, at(15)), (6, None))
    bring("silver.windows", WINDOWS, (at(10), "second"), (None, "none"))
    names = {1: "first", 4: "first", 3: "second", 5: "second"}
    found = [(row["n"], row.get("name")) for row in ran.rows("gold.named")]
    if how == "semi":
        names = dict.fromkeys(names)  # type: ignore[arg-type]
    without = [(2, None), (6, None)] if how == "left" else []
    assert Counter(found) == Counter([*names.items(), *without])


@pytest.mark.parametrize(
    ("run", "tables", "anew"), [("ran", (*ANEW, LOOKUP), ANEW), ("ran_of_gold", (INNER,), (INNER,))]
)
def test_replays_write_nothing_and_a_new_checkpoint_fills_it_anew(
    request: pytest.FixtureRequest, run: str, tables: Sequence[Join], anew: Sequence[Join]
) -> None:
    ran: Ran = request.getfixturevalue(run)
    before = {gold.name: (ran.engine.version(gold.table), ran.found(gold)) for gold in tables}
    for gold in tables:
        ran.engine.undo_last_commit(gold.table)
    ran.engine.run("gold")
    assert {gold.name: (ran.engine.version(gold.table), ran.found(gold)) for gold in tables} == before
    for gold in anew:
        ran.engine.remove(ran.engine.checkpoint(gold.table))
    ran.engine.run("gold")
    for gold in anew:
        assert ran.found(gold) == before[gold.name][1]
        assert ran.engine.version(gold.table) > before[gold.name][0]


@pytest.mark.parametrize("empty", ["silver.customers", "silver.orders"])
def test_a_side_that_was_empty_at_first_is_joined_when_it_comes(
    spark: Any, tmp_path: Path, empty: str
) -> None:
    """Its first state may come in several micro-batches, of which the later are not new."""
    settings = make_settings(tmp_path, "none:1", "gold.max_files_per_trigger=1")
    gold = (LEFT, SEMI)
    made = Ran(Engine(spark, Pipeline(name="shop", bronze=[Topic("o")], gold=gold), settings))
    for table, schema in (("silver.orders", ORDERS), ("silver.customers", CUSTOMERS)):
        path = made.engine.path(table)
        columns = spark.createDataFrame([], schema).schema
        delta_table.ensure(spark, table, path, columns, {"delta.enableChangeDataFeed": "true"})
    sides = {
        "silver.orders": [(1, 10, 5), (2, 11, 6), (3, 12, 7)],
        "silver.customers": [(10, "ann", 1), (11, "bob", 1), (12, "cy", 1)],
    }
    (full,) = sides.keys() - {empty}
    for table in (full, empty):
        for row in sides[table]:
            made.append(table, row)
        made.engine.run("gold")
    for one in gold:
        expected = oracle(made.rows(one.reads), made.rows(one.joins), one)
        assert made.found(one) == expected
        assert len(expected) == 3


def test_what_cannot_be_joined_is_told_before_a_table_is_made(spark: Any, ran: Ran) -> None:
    def refusal(gold: Join, error: type[Exception]) -> str:
        engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("o")], gold=[gold]), ran.engine.settings)
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
    path = ran.engine.path("silver.feedless")
    spark.createDataFrame([], CUSTOMERS).write.format("delta").save(path)
    told = refusal(joined("odd", joins=path, columns=["order"]), TableShapeError)
    assert "keeps no change data feed" in told
