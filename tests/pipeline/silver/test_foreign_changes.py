"""What other programs write stops the query that reads it, at its start and before it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import Upsert
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.errors import ForeignChangeError
from orchestration.records.rejudge.refill_gold import refill
from tests.conftest import make_settings
from tests.pipeline.silver.test_verbs import ORDERS, event, keys, records, shop
from tests.support.engine import Engine


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
