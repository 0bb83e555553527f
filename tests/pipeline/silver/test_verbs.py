"""Rules that stop a query, that ask another table, and that have changed since the last start.

What each verb does to rows: tests/spec; through deaths at any write: test_accounts.py, beside an oracle.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Json, Lookup, Pipeline, Rule, Silver, Topic
from common.delta import table as delta_table
from common.errors import PipelineError, RuleFailedError, TableMissingError
from silver.judge.lookups import join_lookups
from tests.conftest import make_settings
from tests.support.engine import Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, ms bigint, amount double, country string"),
    columns={
        "order_id": "id",
        "ordered_at": "timestamp_millis(ms)",
        "amount": "amount",
        "country": "country",
    },
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
    rules=[
        Rule("amount_known", "amount is not null"),
        Rule("not_free", "amount <> 0", on_fail="drop"),
        Rule("usual_amount", "amount < 100", on_fail="warn"),
        Rule("early_offset", "_kafka.offset < 1000", on_fail="warn"),
        Rule("never_negative", "amount >= 0 or amount is null", on_fail="fail"),
    ],
)


def event(key: str | None, amount: float | None = 5.0, country: str = "NO", minutes: int = 0) -> bytes:
    """A message's value."""
    ms = round((NOON + timedelta(minutes=minutes)).timestamp() * 1000)
    return json.dumps({"id": key, "ms": ms, "amount": amount, "country": country}).encode()


def records(values: Sequence[bytes | None], first: int = 0) -> list[tuple[Any, ...]]:
    """Bronze rows at offsets from ``first`` on."""
    at = NOON + timedelta(hours=10)
    return [("t", 0, first + n, at, 0, at, b"k", value, None) for n, value in enumerate(values)]


def shop(spark: Any, folder: Path, silver: Silver) -> Engine:
    """A pipeline of one silver table, a file per micro-batch."""
    settings = make_settings(folder, "none:1", "silver.max_files_per_trigger=1")
    return Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], silver=[silver]), settings)


def changed(engine: Engine, silver: Silver) -> Engine:
    """The same place, its table declared anew."""
    return Engine(engine.spark, replace(engine.pipeline, silver=[silver]), engine.settings)


def keys(engine: Engine) -> dict[str, int]:
    """Offset by key, of silver."""
    rows = engine.rows("silver.orders")
    assert len({row["order_id"] for row in rows}) == len(rows)
    return {row["order_id"]: row["_kafka_offset"] for row in rows}


def aside(engine: Engine) -> dict[int, tuple[str, list[str]]]:
    """Verdict and reasons by offset, of quarantine."""
    rows = engine.rows("silver.orders__quarantine")
    assert len({row["offset"] for row in rows}) == len(rows)
    return {row["offset"]: (row["verdict"], row["reasons"]) for row in rows}


def test_a_failed_rule_stops_the_query_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    """The error is its own; with another verb the next start goes on with the same rows."""
    engine = shop(spark, tmp_path, ORDERS)
    engine.append_bronze("bronze.orders", records([event("a"), event("b", 0.0)]))
    engine.run("silver")
    bad = [event("a"), event("c"), *(event(f"n{n}", -1.0) for n in range(7)), event("d", None)]
    engine.append_bronze("bronze.orders", records(bad, 2))
    versions = {table: engine.version(table) for table in ("silver.orders", "silver.orders__quarantine")}
    for _ in range(2):
        with pytest.raises(RuleFailedError) as died:
            engine.run("silver")
        told = str(died.value)
        assert told.startswith("silver.orders failed: 7 rows broke 'never_negative' (7), declared to stop it")
        assert "t/0/4, t/0/5, t/0/6, t/0/7, t/0/8, …" in told
        assert "t/0/9" not in told
        assert (died.value.query, died.value.exit_code) == ("silver.orders", 1)
        assert {table: engine.version(table) for table in versions} == versions
    rules = [replace(rule, on_fail="quarantine") if rule.on_fail == "fail" else rule for rule in ORDERS.rules]
    mended = changed(engine, replace(ORDERS, rules=rules))
    mended.run("silver")
    assert keys(mended) == {"a": 0, "c": 3}
    assert aside(mended) == {
        1: ("drop", ["not_free"]),
        **{offset: ("quarantine", ["never_negative"]) for offset in range(4, 11)},
        11: ("quarantine", ["amount_known", "not_free"]),
    }
    last = mended.commits("silver.orders")[-1]
    assert (last["batch_id"], last["counts"]["accepted"], last["counts"]["duplicates"]) == (1, 1, 1)


LOOKUP = Lookup("countries", "gold.countries", on={"code": "country"})
ASKING = replace(
    ORDERS,
    rules=[Rule("known_country", "countries.code is not null"), Rule("open", "countries.is_open")],
    lookups=[LOOKUP],
)


@pytest.mark.long
def test_a_rule_asks_another_table_as_it_is_when_the_micro_batch_begins(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row per row though the other table has doubles and nulls; what is added counts from the next on."""
    engine = shop(spark, tmp_path, ASKING)
    engine.append_bronze("bronze.orders", records([event("a"), event("b", country="SE"), event("c")]))
    with pytest.raises(
        TableMissingError, match=r"gold\.countries .*silver\.orders use it as 'countries'"
    ) as raised:
        engine.run("silver")
    assert "fill it first (medallion backfill --table gold.countries" in str(raised.value)
    assert not Path(engine.path("silver.orders")).exists()
    ddl = "code string, is_open boolean, more map<string, int>"
    engine.append("gold.countries", [("NO", False, {}), ("NO", True, {}), (None, True, {})], ddl)

    engine.append_bronze("bronze.orders", records([event("d", country="SE"), event("e", country="")], 3))
    real = delta_table.append

    def adding(*args: Any, **kwargs: Any) -> None:
        """As the first micro-batch ends, the other table has another row."""
        real(*args, **kwargs)
        if (args[2].batch_id, args[3]) == (0, "quarantine"):
            engine.append("gold.countries", [("SE", True, {})], ddl)

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "append", adding)
        [query] = engine.run("silver")
    assert len([report for report in query.progress() if report["numInputRows"]]) == 2
    assert keys(engine) == {"a": 0, "c": 2, "d": 3}
    assert aside(engine) == {offset: ("quarantine", ["known_country", "open"]) for offset in (1, 4)}
    columns = set(engine.rows("silver.orders")[0])
    assert columns == {
        *("order_id", "ordered_at", "amount", "country"),
        *("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp", "_ingested_at"),
    }


@pytest.mark.long
def test_a_lookup_by_a_window_of_time_keeps_the_rows_without_a_time(spark: Any, tmp_path: Path) -> None:
    """Spark computes a window in a projection alone, and leaves out rows whose time is null there."""
    lookup = Lookup("hours", "gold.hours", on={"hour": "window(paid_at, '1 hour').start"})
    rows = spark.sql(
        "SELECT n, cast(at AS timestamp) AS paid_at FROM VALUES "
        "(1, '2026-01-01 00:10:00'), (2, null), (3, '2026-01-01 05:00:00') AS t(n, at)"
    )
    hours = spark.sql("SELECT timestamp'2026-01-01 00:00:00' AS hour, 'first' AS name")
    found = join_lookups(rows, replace(ASKING, lookups=[lookup]), {"hours": hours})
    assert found.columns == ["n", "paid_at", "hours"]
    names = {row["n"]: row["hours"] and row["hours"]["name"] for row in found.collect()}
    assert names == {1: "first", 2: None, 3: None}
    assert found.count() == 3


@pytest.mark.long
def test_a_lookup_that_does_not_fit_is_told_by_name(spark: Any, tmp_path: Path) -> None:
    asked = [
        Lookup("countries", "gold.countries", on={"cod": "country"}),
        Lookup("amount", "gold.countries", on={"code": "countri"}),
    ]
    engine = shop(spark, tmp_path, replace(ORDERS, lookups=asked[:1]))
    engine.append_bronze("bronze.orders", records([event("a")]))
    engine.append("gold.countries", [("NO",)], "code string")
    with pytest.raises(PipelineError, match=r"lookup 'countries': gold\.countries has no column 'cod'; did"):
        engine.run("silver")
    with pytest.raises(PipelineError) as refused:
        changed(engine, replace(ORDERS, lookups=asked[1:])).run("silver")
    assert [each.place for each in refused.value.problems] == [
        "silver.orders, lookup 'amount'",
        "silver.orders, lookup 'amount', on 'code'",
    ]


@pytest.mark.long
def test_a_changed_rule_is_told_at_the_start_that_applies_it(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = shop(spark, tmp_path, ORDERS)
    engine.append_bronze("bronze.orders", records([event("a")]))
    engine.run("silver")
    assert "has changed" not in capsys.readouterr().err
    rules = [Rule("amount_known", "amount is not null", on_fail="warn"), *ORDERS.rules[1:]]
    lenient = changed(engine, replace(ORDERS, rules=rules))
    lenient.append_bronze("bronze.orders", records([event("b")], 1))
    said = []
    for _ in range(2):
        lenient.run("silver")
        said.append(" ".join(capsys.readouterr().err.split()))
    assert "silver.orders: rule 'amount_known' has changed since micro-batch 0. " in said[0]
    assert "medallion quarantine replay --table silver.orders --with-rules new" in said[0]
    assert "has changed" not in said[1]  # the start before has applied it
    assert keys(lenient) == {"a": 0, "b": 1}
