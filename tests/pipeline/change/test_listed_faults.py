"""Faults of ``docs/run/failures.md`` that need a real Spark and no broker, each on tables of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bronze.table import PROPERTIES, SCHEMA
from common.declare import Pipeline, Rule, Topic, Upsert
from common.delta import table as delta_table
from common.errors import MedallionError, PipelineError, TableShapeError
from common.spark.session_conf import STATE_STORE, STATE_STORES
from tests.conftest import make_settings
from tests.pipeline.silver.test_verbs import NOON, ORDERS, aside, event, keys, records
from tests.support.engine import Engine

pytestmark = pytest.mark.long
PLAIN = replace(ORDERS, rules=[])
LATEST = Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])


def shop(spark: Any, folder: Path, silver: Any = PLAIN, *overrides: str) -> Engine:
    """A silver table and a gold table; two events of silver have been processed."""
    settings = make_settings(folder, "none:1", "silver.max_files_per_trigger=1", *overrides)
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[silver], gold=[LATEST])
    engine = Engine(spark, pipeline, settings)
    bring(engine, 0, [event("a"), event("b", minutes=1)])
    engine.run("silver", "gold")
    return engine


def bring(engine: Engine, first: int, values: Sequence[bytes | None]) -> None:
    """One commit of bronze."""
    engine.append_bronze("bronze.orders", records(values, first))


def again(engine: Engine, silver: Any) -> Engine:
    """The same place under another declaration."""
    return Engine(engine.spark, replace(engine.pipeline, silver=[silver]), engine.settings)


def latest(engine: Engine) -> set[str]:
    """Keys of gold."""
    return {row["order_id"] for row in engine.rows("gold.latest")}


def test_compaction_by_others_on_every_layer_changes_nothing(spark: Any, tmp_path: Path) -> None:
    engine = shop(spark, tmp_path)
    for number in (2, 3):
        bring(engine, number, [event(f"n{number}", minutes=number)])
        engine.run("silver", "gold")
    bring(engine, 4, [event("e", minutes=4)])
    for table in ("bronze.orders", "silver.orders", "gold.latest"):
        spark.sql(f"optimize delta.`{engine.path(table)}`")
    engine.run("silver", "gold")
    assert keys(engine) == {"a": 0, "b": 1, "n2": 2, "n3": 3, "e": 4}
    assert latest(engine) == set(keys(engine))
    assert engine.faults() == ()


@pytest.mark.parametrize("table", ["bronze.orders", "silver.orders", "gold.latest"])
def test_a_column_that_others_add_is_refused_before_anything_is_written(
    spark: Any, tmp_path: Path, table: str
) -> None:
    """The table that the query writes; the message names the column."""
    engine = shop(spark, tmp_path)
    bring(engine, 2, [event("c", minutes=2)])
    spark.sql(f"alter table delta.`{engine.path(table)}` add columns (extra string)")
    before = {name: engine.version(name) for name in ("silver.orders", "gold.latest")}
    if table == "bronze.orders":
        # Silver reads bronze's columns by name; bronze's own query refuses the table.
        with pytest.raises(TableShapeError, match="extra string is not declared"):
            delta_table.ensure(spark, table, engine.path(table), SCHEMA, PROPERTIES)
        return
    with pytest.raises(MedallionError, match="extra"):
        engine.run("silver", "gold")
    assert engine.version(table) == before[table]


def test_a_source_that_was_created_again_is_refused(spark: Any, tmp_path: Path) -> None:
    """Bronze was deleted and has as many commits as before: its rows are others."""
    engine = shop(spark, tmp_path)
    bring(engine, 2, [event("c", minutes=2)])
    engine.run("silver")
    engine.remove(engine.path("bronze.orders"))
    for number in range(4):
        bring(engine, number, [event(f"x{number}", minutes=number)])
    before = engine.version("silver.orders")
    with pytest.raises(MedallionError):
        engine.run("silver")
    assert engine.version("silver.orders") == before
    assert set(keys(engine)) == {"a", "b", "c"}


def test_years_1_and_2099_lose_and_stop_nothing(spark: Any, tmp_path: Path) -> None:
    """The event of 2099 goes to quarantine, that of the year 1 is late, and both are in the account."""
    engine = shop(spark, tmp_path)

    def at(key: str, year: int) -> bytes:
        ms = round((NOON.replace(year=year) - NOON).total_seconds() * 1000 + NOON.timestamp() * 1000)
        return json.dumps({"id": key, "ms": ms, "amount": 1.0, "country": "NO"}).encode()

    bring(engine, 2, [at("future", 2099), at("past", 1), event("c", minutes=3)])
    bring(engine, 5, [event("d", minutes=4)])
    engine.run("silver", "gold")
    assert keys(engine) == {"a": 0, "b": 1, "past": 3, "c": 4, "d": 5}
    assert aside(engine) == {2: ("quarantine", ["future_event_time"])}
    assert engine.faults() == ()


def test_a_delay_of_zero_loses_no_row(spark: Any, tmp_path: Path) -> None:
    """Events of the very time of the watermark, and before it, are late, kept and merged."""
    engine = shop(spark, tmp_path, replace(PLAIN, watermark="0 seconds"))
    bring(engine, 2, [event("same", minutes=1), event("earlier", minutes=0), event("c", minutes=2)])
    bring(engine, 5, [event("same2", minutes=2), event("d", minutes=3)])
    engine.run("silver", "gold")
    assert keys(engine) == {"a": 0, "b": 1, "same": 2, "earlier": 3, "c": 4, "same2": 5, "d": 6}
    assert latest(engine) == set(keys(engine))
    assert engine.faults() == ()


def test_another_state_provider_goes_on_with_the_former_one(spark: Any, tmp_path: Path) -> None:
    """The checkpoint keeps the provider: a duplicate of a row from before is still one."""
    engine = shop(spark, tmp_path)
    bring(engine, 2, [event("a"), event("c", minutes=2)])
    before = spark.conf.get(STATE_STORE)
    assert before == STATE_STORES["memory"]
    spark.conf.set(STATE_STORE, STATE_STORES["rocksdb"])
    try:
        engine.run("silver", "gold")
    finally:
        spark.conf.set(STATE_STORE, before)
    assert keys(engine) == {"a": 0, "b": 1, "c": 3}
    assert engine.faults() == ()


def test_another_key_is_told_and_the_account_balances(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows from now on are deduplicated by the new key."""
    engine = shop(spark, tmp_path)
    bring(engine, 2, [event("a", minutes=5), event("a"), event("a", minutes=5)])
    other = again(engine, replace(PLAIN, key=["order_id", "ordered_at"]))
    other.run("silver")
    assert "key has changed since micro-batch 0" in capsys.readouterr().err
    rows = [row["_kafka_offset"] for row in other.rows("silver.orders")]
    assert {0, 1, 2} <= set(rows)
    assert len(rows) == len(set(rows))


class _KilledError(Exception):
    """Ends a micro-batch where a kill would."""


def test_a_pipeline_that_is_edited_between_crash_and_start_is_refused_until_the_batch_is_finished(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silver was written, quarantine was not: by the new rule, the row would be in neither."""
    strict = replace(PLAIN, rules=[Rule("small", "amount < 10")])
    engine = shop(spark, tmp_path, strict)
    bring(engine, 2, [event("c", minutes=2), event("big", 50.0, minutes=2)])
    real = delta_table.append

    def dying(*args: Any, **named: Any) -> None:
        if args[3] == "quarantine":
            raise _KilledError
        real(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "append", dying)
        with pytest.raises(MedallionError):
            engine.run("silver")
    assert set(keys(engine)) == {"a", "b", "c"}
    edited = again(engine, replace(PLAIN, rules=[Rule("small", "amount < 100")]))
    with pytest.raises(PipelineError, match=r"(?s)rule 'small' has changed since micro-batch 1.*cut off"):
        edited.run("silver")
    assert set(keys(engine)) == {"a", "b", "c"}
    engine.run("silver")
    assert aside(engine) == {3: ("quarantine", ["small"])}
    bring(engine, 4, [event("also_big", 50.0, minutes=3)])
    edited.run("silver")
    assert set(keys(edited)) == {"a", "b", "c", "also_big"}
    assert edited.faults() == ()
