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
from orchestration.check.pipeline import check
from orchestration.kafka.topic_sample import Sampled
from orchestration.pipeline.load_file import load_pipeline
from orchestration.propose.pipeline_source import render
from orchestration.propose.propose import propose
from tests.conftest import make_settings
from tests.support.engine import Engine

ROOT = Path(__file__).parents[3]
CAPTURED = Path(os.environ.get("TEST_DATA", ROOT.parent / "shared" / "data"))
CHANGES = CAPTURED / "cdc_debezium/flink-cdc/flink-cdc-e2e-tests/flink-cdc-pipeline-e2e-tests"
ARRIVED = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CAPTURED.is_dir(), reason="the captured data are not on this machine"),
]


def run_proposed(spark: Any, folder: Path, values: Sequence[bytes]) -> Engine:
    """The proposed pipeline, after it has read all values."""
    file = folder / "made.py"
    file.write_text(render("made", [propose("t", [Sampled(0, 0, value) for value in values])]))
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    engine = Engine(spark, pipeline, make_settings(folder, "none:1"))
    rows = [("t", 0, at, ARRIVED, 0, ARRIVED, None, value, None) for at, value in enumerate(values)]
    engine.append_bronze("bronze.t", rows)
    engine.run("silver", "gold")
    for silver in pipeline.silver:
        assert engine.rows(silver.quarantine) == []
    return engine


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
