"""What other programs write stops the query that reads it, at its start and before it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Storage, Upsert
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.errors import ForeignChangeError
from orchestration.change.rebuild.rebuild_silver import rebuild_silver
from orchestration.records.audit.audit import audit
from orchestration.records.audit.result import Account
from orchestration.records.rejudge.refill_gold import refill
from orchestration.records.trace.trace import Trace
from tests.conftest import make_settings
from tests.pipeline.silver.test_verbs import NOON, ORDERS, event, keys, records, shop
from tests.support.engine import Engine
from tests.support.oracles.proof import checks, different


def test_a_change_by_another_hand_stops_silver_until_it_is_accepted(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure of ours does not; nor does maintenance. Each commit is looked at once."""
    engine = shop(spark, tmp_path, replace(ORDERS, rules=[]))
    path = engine.path("bronze.orders")
    engine.append_bronze("bronze.orders", records([event("a"), event("b"), event("c")]))
    with pytest.raises(Exception, match=r"(?i)append.?only"):
        spark.sql(f"delete from delta.`{path}` where offset = 0")
    spark.sql(f"alter table delta.`{path}` unset tblproperties ('delta.appendOnly')")
    engine.run("silver")
    erased = spark.createDataFrame([(0,)], "offset bigint")
    delta_merge.delete_matching(
        erased, path, delta_table.maintenance_metadata("shop", "bronze.orders", "erasure"), key=["offset"]
    )
    engine.append_bronze("bronze.orders", records([event("d")], 3))
    spark.sql(f"optimize delta.`{path}`")
    engine.run("silver")
    assert keys(engine) == {"a": 0, "b": 1, "c": 2, "d": 3}

    spark.sql(f"delete from delta.`{path}` where offset = 1")
    version, before = engine.version("bronze.orders"), engine.version("silver.orders")
    engine.append_bronze("bronze.orders", records([event("e")], 4))
    told = rf"version {version} \(DELETE, .*Delta-Lake.*accept_changes=.*bronze\.orders@{version}"
    with pytest.raises(ForeignChangeError, match=told):
        engine.run("silver")
    assert engine.version("silver.orders") == before
    accepted = f'silver.accept_changes=["bronze.orders@{version}"]'
    known = Engine(
        spark, engine.pipeline, make_settings(tmp_path, "none:1", "silver.max_files_per_trigger=1", accepted)
    )
    known.run("silver")
    assert keys(known) == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}

    # While it runs: between two micro-batches.
    engine.append_bronze("bronze.orders", records([event("f")], 5))
    engine.append_bronze("bronze.orders", records([event("g")], 6))
    real, looked = delta_table.append, []

    def deleting(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        looked.append(args[2].batch_id)
        if len(looked) == 1:
            spark.sql(f"delete from delta.`{path}` where offset = 2")
            engine.append_bronze("bronze.orders", records([event("h")], 7))

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "append", deleting)
        known.run("silver")
    assert set(keys(known)) == {*"abcdefg"}
    with pytest.raises(ForeignChangeError, match=rf"version {engine.version('bronze.orders') - 1} \(DELETE"):
        known.run("silver")


@pytest.mark.long
def test_rows_that_others_append_are_refused_and_a_delete_on_gold_is_found_by_the_audit(
    spark: Any, tmp_path: Path
) -> None:
    """In bronze by silver, in silver by gold, each before anything is written; accepted by name."""
    latest = Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])
    engine = shop(spark, tmp_path, replace(ORDERS, rules=[]))
    engine = Engine(spark, replace(engine.pipeline, gold=[latest]), engine.settings)
    engine.append_bronze("bronze.orders", records([event("a"), event("b")]))
    engine.run("silver", "gold")

    def double(table: str) -> str:
        """Append one of the table's rows again."""
        frame = spark.read.format("delta").load(engine.path(table))
        again = spark.createDataFrame(frame.limit(1).collect(), frame.schema).coalesce(1)
        again.write.format("delta").mode("append").save(engine.path(table))
        return f"{table}@{engine.version(table)}"

    in_bronze, before = double("bronze.orders"), engine.version("silver.orders")
    with pytest.raises(ForeignChangeError, match=rf"appended 1 rows.*silver\.accept_changes=.*{in_bronze}"):
        engine.run("silver")
    assert engine.version("silver.orders") == before
    in_silver, before = double("silver.orders"), engine.version("gold.latest")
    with pytest.raises(ForeignChangeError, match=rf"appended 1 rows.*gold\.accept_commits=.*{in_silver}"):
        engine.run("gold")
    assert engine.version("gold.latest") == before
    accepted = [f'silver.accept_changes=["{in_bronze}"]', f'gold.accept_commits=["{in_silver}"]']
    known = Engine(spark, engine.pipeline, make_settings(tmp_path, "none:1", *accepted))
    known.run("silver", "gold")
    assert len(known.rows("silver.orders")) == 3
    assert sorted(row["order_id"] for row in known.rows("gold.latest")) == ["a", "b"]

    def changed() -> list[str]:
        return [one.text for one in known.faults() if one.name == "changed"]

    assert changed() == []
    spark.sql(f"delete from delta.`{engine.path('gold.latest')}` where order_id = 'a'")
    (text,) = changed()
    assert text.startswith(f"gold.latest version {engine.version('gold.latest')} (DELETE, ")
    refill(engine.pipeline, engine.layout, "gold.latest")
    known.run("gold")
    assert changed() == []
    assert sorted(row["order_id"] for row in known.rows("gold.latest")) == ["a", "b"]


def by_another(engine: Engine, *rows: tuple[str, float, str]) -> None:
    """Another program appends rows of its own to the silver table, which are made of no record."""
    spark = engine.spark
    values = [(key, NOON, amount, country) for key, amount, country in rows]
    schema = "order_id string, ordered_at timestamp, amount double, country string"
    frame = spark.createDataFrame(values, schema).coalesce(1)
    frame.write.format("delta").mode("append").save(engine.path("silver.orders"))


def sums(*rows: tuple[str, float, str]) -> dict[str, float]:
    """The sums of amounts by country, in plain Python."""
    found: dict[str, float] = {}
    for _, amount, country in rows:
        found[country] = found.get(country, 0) + amount
    return found


def in_gold(engine: Engine) -> dict[str, float]:
    return {row["country"]: row["amount"] for row in engine.rows("gold.sums")}


def account(engine: Engine) -> Account:
    (found,) = (
        audit(engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0)
        for silver in engine.pipeline.silver
    )
    return found


def with_sums(spark: Any, folder: Path, foreign: Any) -> Engine:
    """A shop with sums by country, whose silver table other programs may write."""
    silver = replace(ORDERS, rules=[], storage=Storage(foreign=foreign))
    engine = shop(spark, folder, silver)
    of = Aggregate(
        "sums", "silver.orders", by=["country"], measures={"amount": "sum(amount)"}, mode="recompute"
    )
    latest = Upsert(
        "latest",
        "silver.orders",
        key=["order_id"],
        newest_by=["ordered_at"],
        columns=["order_id", "ordered_at", "amount"],
        storage=Storage(foreign=foreign),
    )
    return Engine(spark, replace(engine.pipeline, gold=[of, latest]), engine.settings)


def test_rows_that_others_append_as_declared_are_counted_by_themselves(spark: Any, tmp_path: Path) -> None:
    """Read by gold; counted by audit and script, also after a compaction; carried over by a rebuild."""
    engine = with_sums(spark, tmp_path, "appends")
    ours, theirs = [("a", 5.0, "NO"), ("b", 7.0, "SE")], [("x", 4.0, "NO"), ("y", 1.0, "DK")]
    engine.append_bronze("bronze.orders", records([event(*one) for one in (*ours, ours[0])]))
    engine.run("silver", "gold")
    by_another(engine, *theirs)
    engine.append_bronze("bronze.orders", records([event("c", 2.0, "NO")], 3))
    engine.run("silver", "gold")
    every = (*ours, ("c", 2.0, "NO"), *theirs)
    assert in_gold(engine) == sums(*every)
    assert {row["order_id"] for row in engine.rows("gold.latest")} == {key for key, _, _ in every}
    found = account(engine)
    assert found.faults == ()
    assert (found.totals["silver"], found.totals["duplicates"]) == (3, 1)
    told = "2 rows of silver.orders are of other programs, as foreign='appends' says"
    assert told in found.notes
    assert verdicts(engine)["rows of other programs"] == "equal"
    places = Trace(engine.pipeline, engine.layout).by_condition("gold.sums", "country = 'NO'", 10)
    assert {place.offset for place in places} == {0, 3}
    spark.sql(f"optimize delta.`{engine.path('silver.orders')}`")
    rebuild_silver(
        spark, engine.pipeline, engine.settings, engine.layout, engine.pipeline.silver[0], str.strip
    )
    engine.run("silver", "gold")
    assert in_gold(engine) == sums(*every)
    found = account(engine)
    assert (found.faults, told in found.notes) == ((), True)
    # Without the declaration it is refused, and a row that claims a record is a fault with it.
    undeclared = Engine(spark, with_sums(spark, tmp_path, None).pipeline, engine.settings)
    by_another(engine, ("z", 1.0, "DK"))
    with pytest.raises(ForeignChangeError, match="appended 1 rows"):
        undeclared.run("gold")
    frame = spark.read.format("delta").load(engine.path("silver.orders")).where("order_id = 'a'")
    again = spark.createDataFrame(frame.collect(), frame.schema).coalesce(1)
    again.write.format("delta").mode("append").save(engine.path("silver.orders"))
    assert {one.name for one in account(engine).faults} >= {"twice"}


@pytest.mark.long
def test_changes_of_others_as_declared_are_followed_and_counted(spark: Any, tmp_path: Path) -> None:
    """Of a silver table by gold that takes rows back; of a gold table by the audit alone."""
    engine = with_sums(spark, tmp_path, "changes")
    engine.append_bronze(
        "bronze.orders", records([event("a", 5.0, "NO"), event("b", 7.0, "SE"), event("c", 2.0, "SE")])
    )
    engine.run("silver", "gold")
    path = engine.path("silver.orders")
    spark.sql(f"update delta.`{path}` set amount = 6 where order_id = 'a'")
    spark.sql(f"delete from delta.`{path}` where order_id = 'b'")
    by_another(engine, ("x", 4.0, "NO"))
    engine.append_bronze("bronze.orders", records([event("d", 1.0, "DK")], 3))
    engine.run("silver", "gold")
    assert in_gold(engine) == sums(("a", 6.0, "NO"), ("c", 2.0, "SE"), ("x", 4.0, "NO"), ("d", 1.0, "DK"))
    spark.sql(f"delete from delta.`{engine.path('gold.latest')}` where order_id = 'c'")
    found = account(engine)
    assert found.faults == ()
    assert (found.totals["silver"], found.totals["foreign"]) == (3, 1)
    undeclared = Engine(spark, with_sums(spark, tmp_path, None).pipeline, engine.settings)
    assert {one.name for one in account(undeclared).faults} >= {"missing", "unknown", "changed"}


def verdicts(engine: Engine) -> dict[str, str]:
    """The checks of the audit's script by their names, and what each found; none differs."""
    found = checks(engine.pipeline, engine.layout, engine.settings)
    assert different(found) == {}
    return {one.check: one.verdict for one in found}
