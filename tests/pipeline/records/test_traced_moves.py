"""``medallion trace`` of a record whose rows came or changed outside of the micro-batch that judged it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable

from common.declare import Aggregate, ChangeFeed, History, Pipeline, Rule, Silver, Topic, Upsert
from common.delta import table as delta_table
from orchestration.access.progress.record_range import parse_range
from orchestration.access.query.record_place import Place
from orchestration.change.rebuild import rebuild_silver as shadow
from orchestration.records.quarantine.replay import replay
from orchestration.records.rejudge.restate import restate
from orchestration.records.trace.trace import Trace
from orchestration.records.trace.words import Line, in_words
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.engine import Engine
from tests.support.shops import plain_silver
from tests.support.stored_shop import settings_of

SCHEMA = "id string, country string, amount int, at timestamp"
ORDERS = "silver.orders"
DOUBLED = {"id": "id", "country": "country", "amount": "amount * 2", "at": "at"}


def shop(limit: int, **changes: Any) -> Pipeline:
    """A shop whose orders are smaller than a limit."""
    rule = Rule("amount_small", f"amount < {limit}")
    return Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=["t"])],
        silver=[plain_silver("orders", SCHEMA, rules=[rule], dedupe="exact", **changes)],
        gold=[
            Upsert("latest", ORDERS, key=["id"], newest_by=["at"], columns=["id", "country", "amount", "at"]),
            Aggregate("again", ORDERS, by=["country"], measures={"n": "count(*)"}, mode="recompute"),
        ],
    )


STRICT, WIDE = shop(10), shop(100)


def order(key: str, amount: int, minutes: int) -> bytes:
    """The bytes of an order of Germany."""
    at = (EVENING + timedelta(minutes=minutes)).isoformat()
    return json.dumps({"id": key, "country": "DE", "amount": amount, "at": at}).encode()


def silver_of(pipeline: Pipeline) -> Silver:
    """The pipeline's silver table."""
    return pipeline.silver[0]


@pytest.fixture(scope="module")
def replayed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop in which a replay has put the order of offset 1 into silver, between other orders."""
    folder = tmp_path_factory.mktemp("traced")
    engine, ends = Engine(spark, STRICT, settings_of(folder)), {0: 0}
    for number, (key, amount) in enumerate([("a", 5), ("b", 50), ("c", 6)]):
        append_batch(engine, number, {0: [order(key, amount, number)]}, ends)
        engine.run("silver", "gold")
    replay(spark, "shop", silver_of(WIDE), engine.layout, is_with_new_rules=True)
    Engine(spark, WIDE, engine.settings).run("silver", "gold")
    return folder


@pytest.fixture
def start(spark: Any, replayed: Path, tmp_path: Path) -> Callable[[Pipeline], Engine]:
    """Opens the shop, which is the test's own, under a declaration."""
    shutil.copytree(replayed / "data", tmp_path / "data")
    return lambda pipeline: Engine(spark, pipeline, settings_of(tmp_path))


def traced(engine: Engine) -> dict[str, Any]:
    """What a trace of offset 1 says of silver."""
    (found,) = Trace(engine.pipeline, engine.layout).record(Place("t", 0, 1))["silver"]
    return dict(found)


def in_gold(told: dict[str, Any]) -> dict[str, tuple[int, str, list[str]]]:
    """By gold table, the micro-batch that has read a change, and what became of the one row."""
    return {
        one["table"]: (one["batch_id"], one["rows"][0]["change"], one["rows"][0]["columns"])
        for one in told["gold"]
    }


def changes(told: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """What has changed the record's rows in silver besides."""
    return [(one["change"], one["how"], one["columns"]) for one in told["changes"]]


def texts(line: Line) -> list[str]:
    """The texts of a line and all below it."""
    return [line.text, *(text for each in line.below for text in texts(each))]


def compact(engine: Engine) -> None:
    """Write the rows of silver into other files."""
    metadata = delta_table.maintenance_metadata("shop", ORDERS, "compaction")
    with delta_table.commit_metadata(engine.spark, metadata):
        DeltaTable.forPath(engine.spark, engine.path(ORDERS)).optimize().executeCompaction()


def again(engine: Engine) -> None:
    """Judge the record of offset 1 again."""
    spark, pipeline = engine.spark, engine.pipeline
    records = parse_range("t/0=1", "t/0=2")
    restate(spark, pipeline, engine.settings, engine.layout, silver_of(pipeline), records, lambda _: None)
    engine.run("silver", "gold")


@pytest.mark.long
def test_a_replayed_record_is_traced_to_the_replay_also_after_a_compaction(
    start: Callable[[Pipeline], Engine],
) -> None:
    engine = start(WIDE)
    before = traced(engine)
    assert (before["place"], before["how"]) == ("silver", "put into silver by a replay")
    merge = next(one for one in engine.history(ORDERS) if '"replay"' in one.get("userMetadata", ""))
    assert (before["version"], before["batch_id"]) == (merge["version"], None)
    assert in_gold(before) == {
        "gold.latest": (3, "inserted", []),
        "gold.again": (3, "changed", ["n"]),
    }
    files = engine.files(ORDERS)
    compact(engine)
    assert not files & engine.files(ORDERS)
    after = traced(engine)
    assert before | {"file": None} == after | {"file": None}


@pytest.mark.long
def test_what_a_restatement_changed_is_told_beside_how_the_record_came(
    start: Callable[[Pipeline], Engine],
) -> None:
    engine = start(shop(200, columns=DOUBLED))
    again(engine)
    told = traced(engine)
    assert (told["how"], changes(told)) == (
        "put into silver by a replay",
        [("changed", "by a restatement", ["amount"])],
    )
    assert in_gold(told)["gold.latest"][:2] == (3, "inserted")
    assert in_gold(told["changes"][0]) == {
        "gold.latest": (4, "changed", ["amount"]),
        "gold.again": (4, "unchanged", []),
    }
    record = Trace(engine.pipeline, engine.layout).record(Place("t", 0, 1))
    assert "changed by a restatement: amount" in texts(in_words(record))
    engine = start_again(engine, STRICT)
    again(engine)
    told = traced(engine)
    assert (told["place"], told["reasons"]) == ("quarantine", ["amount_small"])
    assert changes(told) == [
        ("inserted", "by a replay", []),
        ("changed", "by a restatement", ["amount"]),
        ("deleted", "by a restatement", []),
    ]
    assert in_gold(told["changes"][2]) == {
        "gold.latest": (5, "deleted", []),
        "gold.again": (5, "changed", ["n"]),
    }


def start_again(engine: Engine, pipeline: Pipeline) -> Engine:
    """The same tables under another declaration."""
    return Engine(engine.spark, pipeline, engine.settings)


@pytest.mark.long
def test_what_a_rebuild_and_its_undo_changed_is_told(start: Callable[[Pipeline], Engine]) -> None:
    engine = start(shop(200, columns=DOUBLED))
    work = (engine.spark, engine.pipeline, engine.settings, engine.layout, silver_of(engine.pipeline))
    shadow.rebuild_silver(*work, lambda _: None)
    engine.run("silver", "gold")
    shadow.undo(*work, lambda _: None)
    engine = start_again(engine, WIDE)
    engine.run("silver", "gold")
    told = traced(engine)
    assert (told["how"], changes(told)) == (
        "put into silver by a replay",
        [("changed", "by a rebuild", ["amount"]), ("changed", "by the undo of a rebuild", ["amount"])],
    )
    for number, one in enumerate(told["changes"]):
        assert in_gold(one)["gold.latest"] == (4 + number, "changed", ["amount"])


@pytest.mark.long
def test_a_record_that_came_by_a_rebuild_alone_is_traced_to_it(spark: Any, tmp_path: Path) -> None:
    engine, ends = Engine(spark, STRICT, settings_of(tmp_path)), {0: 0}
    for number, (key, amount) in enumerate([("a", 5), ("b", 50)]):
        append_batch(engine, number, {0: [order(key, amount, number)]}, ends)
        engine.run("silver", "gold")
    engine = start_again(engine, WIDE)
    shadow.rebuild_silver(spark, WIDE, engine.settings, engine.layout, silver_of(WIDE), lambda _: None)
    engine.run("silver", "gold")
    told = traced(engine)
    assert (told["place"], told["how"], told["changes"]) == ("silver", "put into silver by a rebuild", [])
    assert in_gold(told) == {"gold.latest": (2, "inserted", []), "gold.again": (2, "changed", ["n"])}


def test_a_row_that_a_truncation_took_out_says_which(spark: Any, tmp_path: Path) -> None:
    """By its offset and by its key; a row that was overtaken before it, or has come after it, does not."""
    same: dict[str, Any] = {"reads": ORDERS, "key": ["id"], "truncates": "op = 't'"}
    schema = "changed string, id string, op string, n int, at timestamp"
    pipeline = Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=["t"])],
        silver=[plain_silver("orders", schema, key=["changed"])],
        gold=[
            ChangeFeed("copy", sequence_by=["n"], **same),
            History("states", valid_by="n", columns=["changed"], delete_when="op = 'd'", **same),
        ],
    )
    engine, ends = Engine(spark, pipeline, settings_of(tmp_path)), {0: 0}
    sent = [["a 1", "b 2"], ["a 3"], ["null 5", "c 4", "d 6"]]
    for number, each in enumerate(sent):
        rows = []
        for key, n in (one.split() for one in each):
            row = {"changed": f"{key}{n}", "id": None if key == "null" else key, "n": int(n)}
            op = "t" if key == "null" else "c"
            rows.append(json.dumps(row | {"op": op, "at": EVENING.isoformat()}).encode())
        append_batch(engine, number, {0: rows}, ends)
        engine.run("silver", "gold")
    trace = Trace(pipeline, engine.layout)
    told = {offset: trace.record(Place("t", 0, offset)) for offset in range(6)}
    said = {offset: texts(in_words(one)) for offset, one in told.items()}
    truncation = "ended by the truncation t/0/3"
    found = {offset: sum(truncation in text for text in lines) for offset, lines in said.items()}
    assert found == {0: 0, 1: 2, 2: 2, 3: 0, 4: 1, 5: 0}
    (of_copy, _) = told[4]["silver"][0]["gold"]
    assert of_copy["why"] == "no row: t/0/3 is a truncation, and came after it"
    assert {gold["why"] for gold in told[3]["silver"][0]["gold"]} == {
        "no row: the record is a truncation, which takes out every row before it"
    }
    assert trace.by_key("gold.copy", ["a"], 1) == [Place("t", 0, 2)]
    assert trace.by_key("gold.copy", ["d"], 1) == [Place("t", 0, 5)]
    assert trace.by_key("gold.copy", ["none"], 1) == []
