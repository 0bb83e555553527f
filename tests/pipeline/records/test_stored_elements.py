"""Replay, rebuild and erasure of a table with a row per element; the audit balances after each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bronze.table import PROPERTIES, SCHEMA
from common.declare import Json, Pipeline, Rule
from common.delta import table as delta_table
from common.errors import TableShapeError, UsageError
from orchestration.access.query.record_place import Place
from orchestration.change.rebuild.rebuild_silver import rebuild_silver
from orchestration.records.audit.audit import audit
from orchestration.records.erasure.erase import planned
from orchestration.records.quarantine.replay import replay
from orchestration.records.rejudge.restate import require_restatable
from orchestration.records.trace.trace import Trace
from tests.conftest import make_settings
from tests.pipeline.silver.test_accounts import KAFKA_TIME, bring
from tests.pipeline.silver.test_elements import LINES, PIPELINE, line
from tests.support.engine import Engine
from tests.support.oracles.silver_oracle import Record

_LINES = "lines array<struct<sku: string, amount: int, at: timestamp>>"
STRICT = replace(LINES, value=Json(f"order string, seen int, {_LINES}"))
WIDER = replace(
    LINES,
    value=Json(f"order string, seen string, {_LINES}"),
    rules=[Rule("amount_positive", "amount > -5"), Rule("not_gift", "sku <> 'gift'", on_fail="drop")],
)


def order(name: str, *lines: object, seen: object = 1) -> bytes:
    return json.dumps({"order": name, "seen": seen, "lines": lines}).encode()


RECORDS = [
    order("a", line("pen", 0), line("ink", 0, -1), line("cup", 0, "many"), line("gift", 0)),
    order("b", line("ink", 1, -1), line("ink", 2, -2)),
    b'{"order": "c", "lines": {"sku": "pen"}}',
    order("d", line("pen", 0, -1), line("cup", 0)),
    # The wider declaration reads these: one passes whole, of one an element fails, one has none.
    order("e", line("pen", 0), line("ink", 0, 0), seen="x"),
    order("f", line("pen", 0), line("cup", 0, "many"), seen="x"),
    order("g", seen="x"),
    order("a", line("pen", 3)),
]
BEFORE = {(0, 0, "a", "pen"), (3, 1, "d", "cup")}
ASIDE = {(0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (2, None), (3, 0), (4, None), (5, None), (6, None)}
PASSED = {(0, 1, "a", "ink"), (1, 0, "b", "ink"), (3, 0, "d", "pen"), (4, 0, "e", "pen"), (4, 1, "e", "ink")}
STAYS = {(0, 2), (0, 3), (2, None), (5, None)}


def under(engine: Engine, silver: Any) -> Engine:
    """The same tables under another declaration."""
    return Engine(engine.spark, replace(PIPELINE, silver=[silver]), engine.settings)


def rows(engine: Engine) -> set[tuple[int, int, str, str]]:
    found = engine.rows("silver.lines")
    made = {(row["_kafka_offset"], row["_element"], row["order_id"], row["sku"]) for row in found}
    assert len(made) == len(found)
    return made


def aside(engine: Engine) -> set[tuple[int, int | None]]:
    found = engine.rows("silver.lines__quarantine")
    made = {(row["offset"], row["element"]) for row in found}
    assert len(made) == len(found)
    return made


def totals(engine: Engine) -> Mapping[str, int]:
    """The units per place, of a table that balances."""
    found = audit(engine.spark, engine.pipeline, engine.pipeline.silver[0], engine.layout, again_seconds=0)
    assert found.faults == ()
    return {name: count for name, count in found.totals.items() if count}


@pytest.fixture
def engine(spark: Any, tmp_path: Path) -> Engine:
    """Eight records through silver."""
    pipeline = Pipeline(name="accounts", bronze=PIPELINE.bronze, silver=[STRICT])
    made = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "silver.max_files_per_trigger=1"))
    delta_table.ensure(spark, "bronze.events", made.path("bronze.events"), SCHEMA, PROPERTIES)
    records = [Record(0, offset, KAFKA_TIME, value) for offset, value in enumerate(RECORDS)]
    bring(made, 0, records, [len(records)])
    made.run("silver")
    assert (rows(made), aside(made)) == (BEFORE, ASIDE)
    return made


@pytest.mark.long
def test_a_replay_judges_elements_and_records_and_the_query_goes_on(engine: Engine) -> None:
    wider = under(engine, WIDER)
    tried = replay(engine.spark, "accounts", WIDER, engine.layout, is_with_new_rules=True, is_dry_run=True)
    done = replay(engine.spark, "accounts", WIDER, engine.layout, is_with_new_rules=True)
    assert (done.inserted, done.duplicates, done.other) == (len(PASSED), 1, 1)
    assert (tried.inserted, tried.passed, tried.failed) == (done.inserted, done.passed, done.failed)
    assert (rows(engine), aside(engine)) == (BEFORE | PASSED, STAYS)
    expected = {"silver": 7, "duplicates": 2, "quarantine": 3, "dropped": 1, "empty": 1}
    assert totals(wider) == expected
    again = replay(engine.spark, "accounts", WIDER, engine.layout, is_with_new_rules=True)
    assert (again.passed, again.inserted) == (0, 0)
    # Of the replayed elements the state knows nothing: the table does.
    bring(engine, 1, [Record(0, 8, KAFKA_TIME, order("b", line("ink", 4), line("pad", 4)))], [9])
    wider.run("silver")
    assert rows(engine) == BEFORE | PASSED | {(8, 1, "b", "pad")}
    assert totals(wider) == {**expected, "silver": 8, "duplicates": 3}
    record = Trace(wider.pipeline, engine.layout).record(Place("t", 0, 0))
    told = [(one["element"], one["place"]) for one in record["silver"][0]["elements"]]
    assert told == [(0, "silver"), (1, "silver"), (2, "quarantine"), (3, "dropped")]


@pytest.mark.long
def test_a_rebuild_fills_the_table_by_elements(engine: Engine) -> None:
    wider = under(engine, WIDER)
    say = str.strip
    rebuild_silver(engine.spark, wider.pipeline, engine.settings, engine.layout, WIDER, say)
    assert rows(engine) == BEFORE | PASSED | {(5, 0, "f", "pen")}
    assert aside(engine) == {(0, 2), (0, 3), (2, None), (5, 1)}
    assert totals(wider) == {"silver": 8, "duplicates": 2, "quarantine": 3, "dropped": 1, "empty": 1}
    wider.run("silver")
    other = replace(WIDER, each=None, columns={**WIDER.columns, "sku": "order"})
    with pytest.raises(TableShapeError, match="declared with rows of whole records"):
        rebuild_silver(engine.spark, wider.pipeline, engine.settings, engine.layout, other, say)


@pytest.mark.long
def test_an_erasure_takes_whole_records(engine: Engine) -> None:
    where = "sku = 'ink'"
    with planned(engine.spark, engine.pipeline, STRICT, engine.layout, where, is_dry_run=False) as erasure:
        assert erasure.plan.records == 3  # the last has nothing but a copy of the first one's pen
        erasure.carry_out(lambda text: None)
    assert rows(engine) == {(3, 1, "d", "cup")}
    assert aside(engine) == {place for place in ASIDE if place[0] > 1}
    assert totals(engine) == {"silver": 1, "quarantine": 5, "erased": 3}
    with pytest.raises(UsageError, match="works by whole records"):
        require_restatable(engine.layout, STRICT)
