"""What an audit finds in gold tables: nothing in unharmed ones, and each row that is not right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import Aggregate, Custom, Gold, Join, Pipeline, Storage, Topic, Upsert, View, Window
from orchestration.records.audit.gold.compare import PARTS, Difference, difference, key_range
from orchestration.records.audit.gold.content import ContentAudit, GoldProof
from orchestration.records.audit.result import Fault, GoldTable
from tests.conftest import make_settings
from tests.pipeline.gold.test_random import ADDED, BEGINS, EXACT, SPARKS, TAKEN_BACK
from tests.support.engine import Engine
from tests.support.oracles.silver_history import CUSTOMERS, ORDERS, Append, SilverTables, orders


def copied(rows: Any, writer: Any) -> None:
    """The function of a Custom."""
    writer.append(rows.select("k"), "copied")


MORE: Sequence[Gold] = (
    Aggregate(
        "closed",
        reads=ORDERS,
        by=["country"],
        measures={"n": "count(*)"},
        window=Window("seen_at", "10 minutes"),
        mode="append",
        watermark="150 minutes",
    ),
    Aggregate("mean", reads=ORDERS, by=["country"], measures={"mean": "sum(amount * 0.1D)"}, mode="update"),
    Aggregate("any_of", reads=ORDERS, by=["k"], measures={"one": "first(status)"}, mode="recompute"),
    Join(
        "pairs",
        reads=ORDERS,
        joins="gold.newest",
        on={"k": "k"},
        columns={"k": "k", "also": "newest.status"},
        mode="recompute",
    ),
    Upsert("newest", reads=ORDERS, key=["k"], newest_by=["version"], storage=Storage(change_feed=True)),
    Join("at_once", reads=ORDERS, joins="gold.newest", on=["k"], columns=["k"], mode="lookup"),
    View("words", sql=f"select country, count(*) as n from {ORDERS} group by country"),
    Upsert(
        "of_map",
        reads=ORDERS,
        key=["k"],
        newest_by=["version"],
        columns={"k": "k", "version": "version", "versions": "map('version', version)"},
    ),
    View("rows", sql=f"select k, amount from {ORDERS} where amount > 2"),
    Custom("copied", reads=ORDERS, tables={"copied": "k string"}, write=copied),
)
ALL = [gold for gold, _ in (*EXACT, *SPARKS)] + list(MORE)
UNDEFINED = {"gold.at_once", "gold.copied", "gold.numbered", "gold.last_number"}

Found = dict[str, tuple[GoldTable, Fault | None]]


def found(engine: Engine, tables: Sequence[Gold] = ALL, **proof: Any) -> Found:
    content = ContentAudit(engine.spark, engine.pipeline, engine.layout, GoldProof(engine.settings, **proof))
    return {shown.table: (shown, fault) for shown, fault in content.compared(tables)}


def change(table: str, values: str, where: str) -> tuple[str, Callable[[DeltaTable], Any]]:
    column, _, value = values.partition("=")
    return table, lambda delta: delta.update(updates={column: value}, predicate=where)


def double(delta: DeltaTable) -> None:
    rows = delta.to_pyarrow_table().slice(0, 1)
    write_deltalake(delta.table_uri, rows, mode="append")


HARMS: Sequence[tuple[tuple[str, Callable[[DeltaTable], Any]], tuple[str, ...]]] = (
    (change("gold.latest", "amount=99", "k = 'c'"), ('{"k":"c"} changed',)),
    (("gold.latest__deleted", lambda delta: delta.delete()), ('{"k":"b"} missing',)),
    (
        change("gold.large", "orders=orders + 1", "country = 'de' and not is_paid"),
        ('{"country":"de","is_paid":false} changed',),
    ),
    (("gold.words", lambda delta: delta.delete("country = 'fr'")), ('{"country":"fr","n":5} missing',)),
    (change("gold.mean", "mean=mean + 0.001", "country = 'fr'"), ('{"country":"fr"} changed',)),
    (("gold.newest", double), ("extra",)),
    (("gold.states", lambda delta: delta.delete("k is null")), ('{"k":null,', "missing")),
    (("gold.closed", lambda delta: delta.delete()), ('{"country":"', "missing")),
)


@pytest.mark.long
def test_each_row_of_gold_that_is_not_right_is_a_fault_with_its_key(spark: Any, tmp_path: Path) -> None:
    """Of all kinds, unharmed first; then one row is changed, taken away or doubled in each of some tables."""
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=ALL)
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    silver = SilverTables(engine, (ORDERS, CUSTOMERS))
    for run in (BEGINS, ADDED):
        for commit in run.commits:
            silver.write(commit)
        if run is ADDED:
            silver.write(Append(ORDERS, [orders("d 7 it 70 open 400 7")]))  # closes the windows
        engine.run("gold")
    silver.write(Append(ORDERS, [orders("a 7 it 70 open 500 7")]))  # not read yet
    unharmed = found(engine)
    assert {table for table, (shown, _) in unharmed.items() if shown.why} == UNDEFINED
    assert {table: fault for table, (_, fault) in unharmed.items() if fault is not None} == {}
    assert unharmed["gold.any_of"][0].without == "one"
    for (table, harm), _ in HARMS:
        harm(DeltaTable(engine.path(table)))
    tables = {table for (table, _), _ in HARMS}
    queries = [gold for gold in ALL if tables.intersection({gold.table, *gold.side_tables})]
    harmed = {table: fault for table, (_, fault) in found(engine, queries).items() if fault is not None}
    assert set(harmed) == tables
    for (table, _), texts in HARMS:
        assert all(text in harmed[table].keys[0] for text in texts), (table, harmed[table])
    assert harmed["gold.latest"].count == 1
    documents = [spark.sql(f"select 1 as k, map(1, parse_json('{text}')) as m") for text in ("[1, 2]", "[1]")]
    assert difference(documents[0], documents[0], key=["k"]) is None
    assert difference(*documents, key=["k"]) == Difference(1, 0, 0, ('{"k":1} changed',))
    rows = spark.range(100).selectExpr("nullif(id, 0) as id")
    parts = [key_range(rows, "id", part) for part in range(PARTS)]
    sampled = [
        sorted(str(row.id) for row in rows.where(part).collect()) for part in parts if part is not None
    ]
    assert sorted([row for part in sampled for row in part]) == sorted(str(row.id) for row in rows.collect())
    assert max(map(len, sampled)) <= 6


@pytest.mark.long
def test_kinds_that_take_no_row_back_are_not_compared_once_silver_took_one(
    spark: Any, tmp_path: Path
) -> None:
    """A fault is only what no change of the source explains; the kinds that follow it are compared."""
    golds = [gold for gold, _ in (*SPARKS, *EXACT)]
    engine = Engine(
        spark,
        Pipeline(name="shop", bronze=[Topic("orders")], gold=golds),
        make_settings(tmp_path, "none:1", "gold.max_files_per_trigger=1"),
    )
    silver = SilverTables(engine, (ORDERS, CUSTOMERS))
    for run in (BEGINS, TAKEN_BACK):
        for commit in run.commits:
            silver.write(commit)
        engine.run("gold")
    after = found(engine, golds)
    assert {fault for _, fault in after.values()} == {None}
    assert {table for table, (shown, _) in after.items() if shown.why} == {gold.table for gold, _ in SPARKS}
    assert "took rows away" in after["gold.complete"][0].why
    silver.write(Append(ORDERS, [orders("q 1 xx 9 open 20 3")]))
    engine.run("gold")
    assert found(engine, golds[:1])["gold.complete"][0].why.endswith("such rows were compared")
    path = engine.path("gold.complete")
    done = DeltaTable(path).update({"orders": "orders + 1"}, predicate="country = 'xx'")
    assert done["num_updated_rows"] == 1
    fault = found(engine, golds[:1])["gold.complete"][1]
    assert fault is not None
    assert fault.keys == ('{"country":"xx","is_paid":false} changed',)
    changed = [replace(gold, where="amount > 6") if gold.name == "large" else gold for gold in golds]
    large = [gold for gold in changed if gold.name == "large"]
    assert "its declaration has changed since: where" in found(engine, large)["gold.large"][0].why
    settings = make_settings(tmp_path, "none:1", 'gold.accept_changed=["gold.large"]')
    engine = Engine(spark, replace(engine.pipeline, gold=large), settings)
    silver.write(Append(ORDERS, [orders("z 7 it 70 open 500 7")]))
    engine.run("gold")
    assert "gold.accept_changed keeps rows" in found(engine, large)["gold.large"][0].why
    engine.settings = make_settings(tmp_path, "none:1")
    assert "are of another declaration: where" in found(engine, large)["gold.large"][0].why
