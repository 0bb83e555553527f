"""Fields that arrive while the stream runs and that no schema names: four policies over the same events."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Json, Pipeline, Protobuf, Silver, Topic, Upsert
from common.errors import PipelineError, TableShapeError, UnknownFieldError
from orchestration.records.audit.audit import audit
from orchestration.records.audit.gold.content import GoldProof
from orchestration.records.quarantine.replay import replay
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles import protobuf

pytestmark = pytest.mark.long
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVOLVE = Silver(
    "evolve",
    reads="bronze.orders",
    value=Json("id string, at timestamp, place struct<city:string>, amount int"),
    columns={"order_id": "id", "ordered_at": "at", "city": "place.city", "amount": "amount"},
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 day",
    unknown_fields="evolve",
)
IGNORE = replace(EVOLVE, name="ignored", unknown_fields="ignore")
RESCUE = replace(EVOLVE, name="rescue", unknown_fields="rescue")
FAIL = replace(EVOLVE, name="fail", unknown_fields="fail")
LATEST = Upsert("latest", reads="silver.evolve", key=["order_id"], newest_by=["ordered_at"])
COUNT = Aggregate("count", reads="silver.evolve", by={"all": "true"}, measures={"orders": "count(*)"})
PIPELINE = Pipeline(
    name="shop", bronze=[Topic("orders")], silver=[EVOLVE, RESCUE, IGNORE], gold=[LATEST, COUNT]
)
BIG = "123456789012345678901234567890"

BATCHES: list[list[str]] = [
    ['"place": {"city": "Bern"}', '"amount": 1'],
    # The new fields arrive: one of each type, and what cannot be a column.
    [
        '"flag": true, "count": 7, "price": 1.10, "huge": ' + BIG + ', "note": "a \\"b\\"", "tags": [1, 1.0]',
        '"place": {"city": "Bern", "zip": 1}, "_own": 1, "a-b": 2, "Amount": 3, "empty": null',
    ],
    # Of the same names, but not all of the columns' types.
    [
        '"flag": false, "count": 8, "price": 12.5',
        '"flag": "yes", "count": 1.5, "price": 0.' + "1" * 19,
        '"amount": 2',
        '"empty": "no more", "count": 9223372036854775808',
    ],
]


def records(bodies: list[str], first: int) -> list[tuple[Any, ...]]:
    """Bronze rows; each body beside an id and a time."""
    rows: list[tuple[Any, ...]] = []
    for offset, body in enumerate(bodies, first):
        at = NOON + timedelta(minutes=offset)
        value = f'{{"id": "o{offset}", "at": "{at.isoformat()}", {body}}}'.encode()
        rows.append(("t", 0, offset, at, 0, at, None, value, None))
    return rows


@dataclass
class Ran:
    """The engine after three micro-batches, gold beside silver, and what was said."""

    engine: Engine
    queries: int


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Silver and gold run for as long as it takes, in one process; bronze grows meanwhile."""
    settings = make_settings(
        tmp_path_factory.mktemp("unknown"), "none:1", "silver.trigger=asap", "gold.trigger=asap"
    )
    engine = Engine(spark, PIPELINE, settings)
    first = iter([0, *(sum(map(len, BATCHES[: n + 1])) for n in range(len(BATCHES)))])
    waiting = iter(BATCHES)
    engine.append_bronze("bronze.orders", records(next(waiting), next(first)))
    stop = StopSignal()
    supervisor = Supervisor(spark, stop, stop_timeout_seconds=60)
    wiring = Wiring(spark, PIPELINE, settings, engine.layout, "")
    for layer in ("silver", "gold"):
        supervisor.start(wiring.streams(layer))  # type: ignore[arg-type]
    started = {id(query) for query in supervisor.queries}
    seen = set(started)
    sent, deadline = len(BATCHES[0]), time.monotonic() + 240

    def poll() -> None:
        nonlocal sent
        seen.update(id(query) for query in supervisor.queries)
        assert time.monotonic() < deadline, [query.query.status for query in supervisor.queries]
        tables = ("silver.evolve", "silver.rescue", "silver.ignored", "gold.latest")
        if any(len(engine.rows(table)) < sent for table in tables):
            return
        if engine.rows("gold.count")[0]["orders"] < sent:
            return
        bodies = next(waiting, None)
        if bodies is None:
            stop.request()
            return
        engine.append_bronze("bronze.orders", records(bodies, next(first)))
        sent += len(bodies)

    supervisor.run(poll)
    return Ran(engine, len(seen) - len(started))


def extra(ran: Ran, table: str) -> dict[str, dict[str, Any]]:
    """Of each row what its unknown fields became, nulls left out."""
    names = {"order_id", "ordered_at", "city", "amount"}
    return {
        row["order_id"]: {
            name: value
            for name, value in row.items()
            if name not in names and not name.startswith(("_kafka", "_ingested")) and value is not None
        }
        for row in ran.engine.rows(table)
    }


def test_ignored_fields_leave_no_trace_in_silver(ran: Ran) -> None:
    assert extra(ran, "silver.ignored") == {f"o{n}": {} for n in range(8)}
    assert "_rescued" not in ran.engine.rows("silver.ignored")[0]


def test_rescued_fields_are_kept_as_the_text_that_was_sent(ran: Ran) -> None:
    """At their place; numbers digit by digit."""
    found = extra(ran, "silver.rescue")
    assert {key for key, value in found.items() if value} == {"o2", "o3", "o4", "o5", "o7"}
    assert BIG in found["o2"]["_rescued"]
    assert "1.10" in found["o2"]["_rescued"]
    assert json.loads(found["o3"]["_rescued"]) == {
        "place": {"zip": 1}, "_own": 1, "a-b": 2, "Amount": 3, "empty": None,
    }  # fmt: skip


def test_evolving_fields_are_columns_from_the_micro_batch_that_brings_them(ran: Ran) -> None:
    """Typed by the first value; what is not exactly of a column's type stays text, and the column null."""
    rescued = extra(ran, "silver.rescue")
    found = extra(ran, "silver.evolve")
    assert found == {
        "o0": {},
        "o1": {},
        "o2": {
            "flag": True,
            "count": 7,
            "price": Decimal("1.10"),
            "huge": BIG,
            "note": 'a "b"',
            "tags": "[1, 1.0]",
        },
        "o3": {"_rescued": rescued["o3"]["_rescued"]},
        "o4": {"flag": False, "count": 8, "price": Decimal("12.5")},
        "o5": {"_rescued": rescued["o5"]["_rescued"]},
        "o6": {},
        "o7": {"empty": "no more", "_rescued": rescued["o7"]["_rescued"]},
    }
    told = [json.loads(one["userMetadata"]) for one in ran.engine.history("silver.evolve")[::-1]
            if "ADD COLUMNS" in one["operation"]]  # fmt: skip
    assert [(one["by"], one["columns"]) for one in told] == [
        ("evolution", ["count", "flag", "huge", "note", "price", "tags"]),
        ("evolution", ["empty"]),
    ]


@pytest.mark.parametrize("silver", [EVOLVE, RESCUE, IGNORE], ids=lambda one: one.name)
def test_an_audit_takes_unknown_fields_that_became_columns_for_no_other_values(
    ran: Ran, silver: Silver
) -> None:
    engine = ran.engine
    proof = GoldProof(engine.settings)
    found = audit(engine.spark, PIPELINE, silver, engine.layout, again_seconds=0, gold=proof)
    assert not [one for one in found.notes if one.startswith("the values of")]
    assert [one.text for one in found.faults if one.name == "values"] == []


def test_gold_goes_on_by_itself_when_silver_gets_columns(ran: Ran) -> None:
    """A running stream cannot read a table whose columns changed: its query was made anew."""
    assert ran.queries >= 1
    latest = ran.engine.rows("gold.latest")
    assert {row["order_id"]: row["amount"] for row in latest} == {
        row["order_id"]: row["amount"] for row in ran.engine.rows("silver.evolve")
    }
    assert ran.engine.rows("gold.count") == [{"all": True, "orders": 8}]
    assert "price" not in latest[0]


def test_after_a_restart_the_columns_are_silvers_own_and_only_under_evolve(spark: Any, ran: Ran) -> None:
    """Also for rows that come by a replay of the quarantine."""
    bodies = ['"count": 10, "late": "x"', '"amount": "wrong", "count": 11, "flag": true']
    ran.engine.append_bronze("bronze.orders", records(bodies, 8))
    engine = Engine(spark, replace(PIPELINE, silver=[EVOLVE]), ran.engine.settings)
    engine.run("silver", "gold")
    assert extra(ran, "silver.evolve")["o8"] == {"count": 10, "late": "x"}
    rescuing = Engine(
        spark, replace(PIPELINE, silver=[replace(EVOLVE, unknown_fields="rescue")]), engine.settings
    )
    with pytest.raises(TableShapeError, match=r"silver\.evolve .*count bigint is not declared"):
        rescuing.run("silver")
    mended = replace(
        EVOLVE,
        value=Json("id string, at timestamp, place struct<city:string>, amount string"),
        columns={**dict(EVOLVE.columns), "amount": "try_cast(amount as int)"},
    )
    done = replay(spark, "shop", mended, engine.layout, is_with_new_rules=True)
    assert (done.passed, done.inserted) == (1, 1)
    assert extra(ran, "silver.evolve")["o9"] == {"count": 11, "flag": True}
    assert engine.rows("silver.evolve__quarantine") == []


def test_a_field_that_is_to_stop_the_query_does_so_before_anything_is_written(spark: Any, ran: Ran) -> None:
    """By path and coordinates, never by value; under another policy the next start goes on."""
    engine = Engine(spark, replace(PIPELINE, silver=[FAIL], gold=[]), ran.engine.settings)
    with pytest.raises(UnknownFieldError) as died:
        engine.run("silver")
    assert died.value.query == "silver.fail"
    assert "'flag'" in str(died.value)
    assert "'place.zip'" in str(died.value)
    assert "t/0/2, t/0/3" in str(died.value)
    assert BIG not in str(died.value)
    assert engine.rows("silver.fail") == []
    mild = replace(FAIL, unknown_fields="ignore")
    Engine(spark, replace(PIPELINE, silver=[mild], gold=[]), ran.engine.settings).run("silver")
    assert {row["order_id"] for row in engine.rows("silver.fail")} >= {f"o{n}" for n in range(9)}


def test_a_late_row_and_a_first_load_are_stopped_too(spark: Any, tmp_path: Path) -> None:
    """Neither comes through the operator that the others come through."""
    short = replace(FAIL, name="short", reads="bronze.few", watermark="1 second")
    pipeline = Pipeline(name="shop", bronze=[Topic("few")], silver=[short])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "silver.max_files_per_trigger=1"))
    bodies = [(0, '"amount": 1'), (10, '"amount": 1'), (20, '"amount": 1'), (1, '"amount": 1, "odd": 1')]
    for offset, (minutes, body) in enumerate(bodies):
        at = NOON + timedelta(minutes=minutes)
        value = f'{{"id": "f{offset}", "at": "{at.isoformat()}", {body}}}'.encode()
        engine.append_bronze("bronze.few", [("t", 0, offset, at, 0, at, None, value, None)])
    with pytest.raises(UnknownFieldError, match=r"'odd', at topic/partition/offset t/0/3"):
        engine.run("silver")
    assert {row["order_id"] for row in engine.rows("silver.short")} == {"f0", "f1", "f2"}
    loading = replace(pipeline, silver=[replace(short, name="all")])
    loaded = Engine(spark, loading, make_settings(tmp_path, "none:1", "silver.first_load=snapshot"))
    # The stream begins with the newest commit, so that a snapshot holds the odd row only with one after it.
    engine.append_bronze("bronze.few", [("t", 0, 4, NOON, 0, NOON, None, b"{}", None)])
    with pytest.raises(UnknownFieldError, match=r"'odd', at topic/partition/offset t/0/3"):
        loaded.run("silver")


def test_a_column_of_that_name_is_refused(spark: Any, ran: Ran) -> None:
    columns = {**dict(RESCUE.columns), "_rescued": "'mine'"}
    mine = replace(RESCUE, name="mine", columns=columns)
    with pytest.raises(PipelineError, match=r"silver\.mine, column '_rescued'"):
        Engine(spark, replace(PIPELINE, silver=[mine], gold=[]), ran.engine.settings).run("silver")


def test_a_field_that_a_message_does_not_have_stops_the_query(spark: Any, tmp_path: Path) -> None:
    """By its number, at its place; the schema that has the field goes on with the same rows."""

    def line(*more: Any) -> Any:
        return protobuf.message("Line", protobuf.field(1, "name", "string"), *more)

    def order(*more: Any) -> Any:
        fields = [protobuf.field(1, "id", "string"), protobuf.field(2, "line", ".shop.Line")]
        at = protobuf.field(3, "at", ".google.protobuf.Timestamp")
        return protobuf.message("Order", *fields, at, *more)

    old = protobuf.file(line(), order())
    new = protobuf.file(line(protobuf.field(9, "size", "int32")), order(protobuf.field(7, "note", "string")))
    made = protobuf.classes(new)
    values = [made(id="o0"), made(id="o1", note="secret"), made(id="o2", line={"name": "a", "size": 5})]
    for value in values:
        value.at.FromDatetime(NOON)
    schema = tmp_path / "order.desc"
    schema.write_bytes(protobuf.descriptors(old))
    silver = Silver(
        "messages",
        reads="bronze.messages",
        value=Protobuf(str(schema), "shop.Order"),
        columns={"order_id": "id", "name": "line.name", "ordered_at": "at"},
        key=["order_id"],
        event_time="ordered_at",
        watermark="1 day",
        unknown_fields="fail",
    )
    pipeline = Pipeline("shop", bronze=[Topic("messages")], silver=[silver])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    rows = [
        ("t", 0, offset, NOON, 0, NOON, None, value.SerializeToString(), None)
        for offset, value in enumerate(values)
    ]
    engine.append_bronze("bronze.messages", rows)
    with pytest.raises(UnknownFieldError) as died:
        engine.run("silver")
    assert "not in the schema: '7', 'line.9', at topic/partition/offset t/0/1, t/0/2" in str(died.value)
    assert "secret" not in str(died.value)
    assert engine.rows("silver.messages") == []
    schema.write_bytes(protobuf.descriptors(new))
    engine.run("silver")
    assert {row["order_id"] for row in engine.rows("silver.messages")} == {"o0", "o1", "o2"}
