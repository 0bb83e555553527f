"""One topic of many types: each record is in the table whose ``where`` it meets, and counted in the others.

The oracle is written beside each record: what becomes of it in each of the tables.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bronze.table import PROPERTIES, SCHEMA
from common.declare import Json, Pipeline, Rule, Silver, Topic
from common.delta import table as delta_table
from orchestration.records.audit.audit import audit
from orchestration.records.quarantine.replay import replay
from silver.write.past_conditions import past_conditions
from tests.conftest import make_settings
from tests.pipeline.silver.test_accounts import bring
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine
from tests.support.oracles.silver_oracle import Record

ROOT = Path(__file__).parents[3]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KAFKA_TIME = NOON + timedelta(hours=3)
EVENT: dict[str, Any] = {"key": ["event_id"], "event_time": "happened_at", "watermark": "30 minutes"}
COLUMNS = {"event_id": "id", "happened_at": "at"}
DNS = Silver(
    "dns",
    reads="bronze.events",
    where="type = 'dns'",
    value=Json("type string, id string, at timestamp, rtt double", required=["type"]),
    columns={**COLUMNS, "rtt": "rtt"},
    rules=[Rule("rtt_positive", "rtt > 0"), Rule("not_slow", "rtt < 9", on_fail="drop")],
    **EVENT,
)
CONN = Silver(
    "conn",
    reads="bronze.events",
    where="type = 'conn' and _kafka.topic = 't'",
    value=Json("type string, id string, at timestamp, rtt string", required=["type"]),
    columns={**COLUMNS, "rtt": "rtt"},
    dedupe="exact",
    unknown_fields="rescue",
    **EVENT,
)
ALERTS = Silver(
    "alerts",
    reads="bronze.events",
    where="detail.level >= 3",
    value=Json("detail struct<level: int, text: string>, id string, at timestamp"),
    columns={**COLUMNS, "level": "detail.level"},
    **EVENT,
)
PIPELINE = Pipeline(name="accounts", bronze=[Topic("events")], silver=[DNS, CONN, ALERTS])

ROW, TWICE, ASIDE, DROPPED, LATE, OTHER, NOTHING = (
    *("accepted", "duplicates", "quarantined", "dropped", "late", "other", "tombstones"),
)


@dataclass(frozen=True)
class Sent:
    """A record, and what becomes of it in the tables dns, conn and alerts."""

    value: bytes | None
    dns: str = OTHER
    conn: str = OTHER
    alerts: str = OTHER


def record(kind: object, key: object, minutes: int, **more: Any) -> bytes:
    at = (NOON + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"type": kind, "id": key, "at": at, **more}).encode()


def alert(level: object, key: object, minutes: int) -> bytes:
    return record("alert", key, minutes, detail={"level": level, "text": 7})


CUTS: list[list[Sent]] = [
    [
        Sent(record("dns", "a", 0, rtt=0.5), dns=ROW),
        Sent(record("conn", "a", 1, rtt="fast"), conn=ROW),
        # The event times of others never move the watermark: three hours after the rows of dns.
        Sent(record("conn", "b", 179, rtt={"of": [1]}, seen=True), conn=ROW),
        Sent(record("dns", "a", 2, rtt=0.5), dns=TWICE),
        Sent(alert(5, "a", 3), alerts=ROW),
        Sent(alert(1, "b", 4)),
        Sent(record("weird", None, 5, rtt="x")),
        Sent(None, dns=NOTHING, conn=NOTHING, alerts=NOTHING),
    ],
    [
        # Broken as a whole: no table can decide, and the first declared one keeps it.
        Sent(b'{"type": "dns"', dns=ASIDE),
        Sent(b"\xff", dns=ASIDE),
        Sent(b"", dns=ASIDE),
        # Half of a surrogate pair, in any field, breaks the whole document.
        Sent(rb'{"type": "\ud800", "id": "x"}', dns=ASIDE),
        # Its level is no number: alerts alone cannot decide.
        Sent(alert("high", "c", 6), alerts=ASIDE),
        Sent(record("dns", "b", 7, rtt="slow"), dns=ASIDE),
        Sent(record("dns", None, 8, rtt=1), dns=ASIDE),
        Sent(record("conn", None, 8, rtt="x"), conn=ASIDE),
        Sent(record("dns", "c", 9, rtt=-1), dns=ASIDE),
        Sent(record("dns", "d", 9, rtt=10), dns=DROPPED),
        Sent(b'{"id": "x", "rtt": "no type"}'),
        Sent(record(None, "x", 9)),
    ],
    [
        Sent(record("dns", "e", 60, rtt=1), dns=ROW),
        Sent(record("conn", "a", 200, rtt="again"), conn=TWICE),
        Sent(record("weird", "z", 179)),
    ],
    [Sent(record("dns", "f", 61, rtt=1), dns=ROW), Sent(record("conn", "c", 0), conn=ROW)],
    [
        # Late by the watermark of dns itself; its key is not in the table, so it is merged.
        Sent(record("dns", "g", 1, rtt=1), dns=LATE),
        Sent(record("dns", "h", 62, rtt=1), dns=ROW),
        Sent(record("weird", "z", 1)),
    ],
]


def test_of_two_micro_batches_each_record_is_in_the_one_table_that_it_belongs_to(
    spark: Any, tmp_path: Path
) -> None:
    engine = filled(spark, tmp_path, PIPELINE, CUTS[:2])
    engine.run("silver")
    for silver in PIPELINE.silver:
        compare(engine, silver, CUTS[:2])


@pytest.mark.long
def test_each_record_is_in_the_one_table_that_it_belongs_to(spark: Any, tmp_path: Path) -> None:
    engine = filled(spark, tmp_path, PIPELINE, CUTS)
    crashed = run_through_crashes(lambda: engine.run("silver"), {2: True, 6: False})
    assert crashed == 2
    for silver in PIPELINE.silver:
        compare(engine, silver, CUTS)
    aside = {row["offset"]: row for row in engine.rows("silver.dns__quarantine")}
    first = {each.value: place for place, each in enumerate(one for cut in CUTS for one in cut)}
    assert [aside[first[value]]["reasons"] for value in (b'{"type": "dns"', b"\xff", b"")] == [
        ["malformed_json"],
        ["not_utf8"],
        ["empty_value"],
    ]
    assert {row["_rescued"] for row in engine.rows("silver.conn")} == {None, '{"seen":true}'}


@pytest.mark.long
def test_rows_of_the_driver_and_of_the_executors_are_the_same(spark: Any, tmp_path: Path) -> None:
    engine = filled(spark, tmp_path, PIPELINE, CUTS, "driver.batch_rows=0")
    engine.run("silver")
    for silver in PIPELINE.silver:
        compare(engine, silver, CUTS)


@pytest.mark.long
def test_a_first_load_from_a_snapshot_leaves_the_others_out(spark: Any, tmp_path: Path) -> None:
    """By event time, so that no row is late."""
    cuts = [[replace(each, dns=ROW) if each.dns == LATE else each for each in cut] for cut in CUTS]
    engine = filled(spark, tmp_path, PIPELINE, cuts, "silver.first_load=snapshot")
    engine.run("silver")
    for silver in PIPELINE.silver:
        found = audit(spark, PIPELINE, silver, engine.layout, again_seconds=0)
        expected = Counter(getattr(each, silver.name) for cut in cuts for each in cut)
        assert found.faults == ()
        assert {name: found.totals[name] for name in (OTHER, TWICE, DROPPED, NOTHING)} == {
            name: expected[name] for name in (OTHER, TWICE, DROPPED, NOTHING)
        }
        assert (found.totals["silver"], found.totals["quarantine"]) == (expected[ROW], expected[ASIDE])


@pytest.mark.long
def test_a_changed_condition_keeps_the_account(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """First none, then one, then another: rows stay, and the audit explains each record."""
    whole = replace(DNS, where=None, rules=[])
    pipeline = replace(PIPELINE, silver=[whole])
    engine = filled(spark, tmp_path, pipeline, CUTS[:2])
    engine.run("silver")
    assert (
        audited(engine)["silver"] == 4
    )  # a, b, c and d: of dns and of alerts, whose fields other tables declare
    before = len(engine.rows(whole.quarantine))
    with_where = under(engine, replace(whole, where="type = 'dns'"))
    done = replay(spark, "accounts", with_where.pipeline.silver[0], engine.layout, is_with_new_rules=True)
    assert (done.passed, done.other > 0, done.failed > 0) == (0, True, True)
    assert len(engine.rows(whole.quarantine)) == before - done.other
    bring_more(engine, CUTS, 2)
    with_where.run("silver")
    assert "where is new since micro-batch 1" in capsys.readouterr().err
    assert audited(with_where)[OTHER] > 2
    both = under(engine, replace(whole, where="type in ('dns', 'weird')"))
    bring_more(engine, CUTS, 4)
    both.run("silver")
    assert "Records that the former condition left out are not read again" in capsys.readouterr().err
    audited(both)
    audited(under(engine, whole))
    assert past_conditions(engine.path(whole.table)) == ["type = 'dns'", "type in ('dns', 'weird')"]


def audited(engine: Engine, number: int = 0) -> Mapping[str, int]:
    """The offsets per place, of a table that balances."""
    silver = engine.pipeline.silver[number]
    found = audit(engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0)
    assert found.faults == ()
    return found.totals


def under(engine: Engine, silver: Silver) -> Engine:
    """The same tables, with another declaration of the silver table."""
    return Engine(engine.spark, replace(PIPELINE, silver=[silver]), engine.settings)


def bring_more(engine: Engine, cuts: Sequence[Sequence[Sent]], number: int) -> None:
    """One more commit of bronze, and the next one."""
    for each in (number, number + 1):
        offset = sum(len(cut) for cut in cuts[:each])
        if each < len(cuts):
            cut = cuts[each]
            records = [Record(0, offset + place, KAFKA_TIME, one.value) for place, one in enumerate(cut)]
            bring(engine, each, records, [offset + len(cut)])


def filled(
    spark: Any, folder: Path, pipeline: Pipeline, cuts: Sequence[Sequence[Sent]], *settings: str
) -> Engine:
    """A pipeline whose bronze table has the records, one commit per cut."""
    made = make_settings(folder, "none:1", "silver.max_files_per_trigger=1", *settings)
    engine = Engine(spark, pipeline, made)
    delta_table.ensure(spark, "bronze.events", engine.path("bronze.events"), SCHEMA, PROPERTIES)
    offset = 0
    for number, cut in enumerate(cuts):
        records = [Record(0, offset + place, KAFKA_TIME, each.value) for place, each in enumerate(cut)]
        offset += len(cut)
        bring(engine, number, records, [offset])
    return engine


def compare(engine: Engine, silver: Silver, cuts: Sequence[Sequence[Sent]]) -> None:
    """Rows, side tables, counts of the commits, status and audit say what the oracle says."""
    fates = [getattr(each, silver.name) for cut in cuts for each in cut]
    expected = Counter(fates)
    places: dict[str, list[int]] = {fate: [] for fate in (ROW, TWICE, ASIDE, DROPPED, LATE, OTHER, NOTHING)}
    for offset, fate in enumerate(fates):
        places[fate].append(offset)
    rows = sorted(row["_kafka_offset"] for row in engine.rows(silver.table))
    assert rows == sorted([*places[ROW], *places[LATE]]), silver.table  # late rows are merged
    aside = engine.rows(silver.quarantine)
    assert sorted(row["offset"] for row in aside) == sorted([*places[ASIDE], *places[DROPPED]])
    assert all((row["value"] is None) == (row["verdict"] == "drop") for row in aside)
    assert sorted(row["_kafka_offset"] for row in engine.rows(silver.late_table)) == places[LATE]
    total = Counter[str]()
    for commit in engine.commits(silver.table):
        if commit.get("step") == "accepted":
            assert OTHER in commit["counts"]
            total.update({name: n for name, n in commit["counts"].items() if isinstance(n, int)})
    assert total == expected | Counter(merged=expected[LATE])
    assert sum(expected.values()) == len(fates)
    found = audit(engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0)
    assert found.faults == ()
    merged = {"silver": expected[ROW] + expected[LATE], "quarantine": expected[ASIDE]}
    others = {name: expected[name] for name in (TWICE, DROPPED, NOTHING, OTHER)}
    assert {name: n for name, n in found.totals.items() if n} == {
        name: n for name, n in {**merged, **others}.items() if n
    }
