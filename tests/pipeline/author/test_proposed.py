"""What ``medallion init`` proposes for captured data runs unchanged, and keeps every event."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from common.declare import ChangeFeed, Upsert
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.check.pipeline import check
from orchestration.author.propose.pipeline_source import render
from orchestration.author.propose.propose import propose
from tests.conftest import make_settings
from tests.support.engine import Engine

ROOT = Path(__file__).parents[3]
CAPTURED = Path(os.environ.get("TEST_DATA", ROOT.parent / "shared" / "data"))
CHANGES = CAPTURED / "cdc_debezium/flink-cdc/flink-cdc-e2e-tests/flink-cdc-pipeline-e2e-tests"
ARRIVED = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)

pytestmark = pytest.mark.long
captured = pytest.mark.skipif(not CAPTURED.is_dir(), reason="the captured data are not on this machine")


def run_proposed(spark: Any, folder: Path, values: Sequence[bytes], *, has_header: bool = False) -> Engine:
    """The proposed pipeline, after it has read all values; none but a header line is in quarantine."""
    file = folder / "made.py"
    file.write_text(render("made", [propose("t", [Sampled(0, 0, value) for value in values])]))
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    engine = Engine(spark, pipeline, make_settings(folder, "none:1"))
    rows = [("t", 0, at, ARRIVED, 0, ARRIVED, None, value, None) for at, value in enumerate(values)]
    engine.append_bronze("bronze.t", rows)
    engine.run("silver", "gold")
    for silver in pipeline.silver:
        assert [row["offset"] for row in engine.rows(silver.quarantine)] == [0] * has_header
    return engine


@captured
@pytest.mark.parametrize("name", ["debezium-json", "debezium-json-with-schema"])
def test_change_events_of_two_source_tables_give_both_tables(spark: Any, tmp_path: Path, name: str) -> None:
    file = CHANGES / f"src/test/resources/expectedEvents/mysqlToKafka/{name}.txt"
    values = [line.encode() for line in file.read_text().splitlines() if line.startswith("{")]
    engine = run_proposed(spark, tmp_path, values)
    sent = [document.get("payload", document) for document in map(json.loads, values)]
    assert sum(len(engine.rows(one.table)) for one in engine.pipeline.silver) == len(sent)
    expected: dict[str, dict[int, dict[str, Any]]] = {}
    for change in sent:
        rows = expected.setdefault(change["source"]["table"], {})
        if change["op"] == "d":
            del rows[change["before"]["id"]]
        else:
            rows[change["after"]["id"]] = change["after"]
    copies = [gold for gold in engine.pipeline.gold if isinstance(gold, ChangeFeed)]
    assert {copy.name for copy in copies} == {f"t_{table}_now" for table in expected}
    for table, rows in expected.items():
        found = {row["id"]: row for row in engine.rows(f"gold.t_{table}_now")}
        assert found.keys() == rows.keys()
        for key, row in rows.items():
            assert {name: str(found[key][name]) for name in row} == {
                name: str(value) for name, value in row.items()
            }


@captured
def test_a_captured_feed_is_kept_whole(spark: Any, tmp_path: Path) -> None:
    with gzip.open(CAPTURED / "usgs_earthquakes/usgs_changes.jsonl.gz") as lines:
        values = [line.rstrip(b"\n") for line in lines]
    engine = run_proposed(spark, tmp_path, values)
    sent = [json.loads(value) for value in values]
    rows = engine.rows("silver.t")
    assert sorted(row["_kafka_offset"] for row in rows) == list(range(len(values)))
    assert sorted(row["url"] for row in rows) == sorted(each["properties"]["url"] for each in sent)
    (latest,) = (gold for gold in engine.pipeline.gold if isinstance(gold, Upsert))
    assert len(engine.rows(latest.table)) == len({each["properties"]["url"] for each in sent})


def traps() -> dict[str, list[str]]:
    """Lines of messages with what a proposal gets wrong by their values: times, null texts, keys, types."""
    second = [f"10:{number // 60:02d}:{number % 60:02d}" for number in range(600)]
    logs = [
        {
            "_path": "dns",
            "ts": 1_700_000_000.25 + n / 8,
            "uid": f"C{n // 2}",
            "query": "q",
            "rcode": n,
            "ttl": 1,
        }
        if n % 3
        else {"_path": "http", "ts": 1_700_000_000.25 + n / 8, "uid": f"C{n // 2}", "host": "h", "uri": "/"}
        for n in range(600)
    ]
    orders = [
        {"order": {"id": f"o{n // 3}"}, "total": n / 100, "placed": 1_700_000_000_000 + n, "score": n / 7}
        for n in range(600)
    ]
    orders[77]["placed"] = 1_600_000_000_000
    return {
        "logs": [json.dumps(each) for each in logs],
        "orders": [json.dumps(each) for each in orders],
        "null_texts": [
            "id,country,at,score,count",
            *(
                f"{n},{'NA' if n % 2 else 'DE'},2023-11-01T{at}Z,{n / 8},{'?' if n % 3 else n}"
                for n, at in enumerate(second)
            ),
        ],
        "incidents": [
            "number,state,opened_at,priority,resolved_by",
            *(
                f"INC{n // 4},New,{n % 28 + 1}/2/2016 01:16,{n % 3},{'NA' if n % 3 else '?'}"
                for n in range(600)
            ),
        ],
        "clicks": ["at,user_id,page", *(f"2023-11-01T{at}Z,u{at[-1]},/p" for at in second for _ in (1, 2))],
        "weather": [
            json.dumps(
                {"origin": f"A{n % 3}", "hour_at": f"2023-11-01T{second[n // 3]}Z", "temp": n / 8 - 40}
            )
            for n in range(600)
        ],
        "local": [
            json.dumps({"id": f"e{n}", "at": f"2023-11-01T{second[n]}", "tz": "America/New_York"})
            for n in range(600)
        ],
        "texts": [f"2026-01-01 {at} a, b started" for at in second],
    }


@pytest.mark.parametrize("name", sorted(traps()))
def test_what_is_proposed_for_a_file_keeps_each_of_its_lines(spark: Any, tmp_path: Path, name: str) -> None:
    values = [line.encode() for line in traps()[name]]
    engine = run_proposed(spark, tmp_path, values, has_header=name in ("null_texts", "incidents", "clicks"))
    rows = [row for silver in engine.pipeline.silver for row in engine.rows(silver.table)]
    first = len(values) - len(rows)
    assert sorted(row["_kafka_offset"] for row in rows) == list(range(first, len(values)))
    assert all(row[engine.pipeline.silver[0].event_time] is not None for row in rows)
    if name == "local":
        (first_row,) = (row for row in rows if row["id"] == "e0")
        assert first_row["at"].replace(tzinfo=dt.UTC) == dt.datetime(2023, 11, 1, 14, tzinfo=dt.UTC)
    for gold in engine.pipeline.gold:
        assert engine.rows(gold.table)


def test_messages_that_repeat_exactly_are_one_row_each(spark: Any, tmp_path: Path) -> None:
    values = [json.dumps({"level": "info", "n": n % 5, "more": [n % 150]}).encode() for n in range(300)]
    engine = run_proposed(spark, tmp_path, values)
    rows = engine.rows("silver.t")
    assert sorted((row["n"], row["more"][0]) for row in rows) == sorted((n % 5, n) for n in range(150))
