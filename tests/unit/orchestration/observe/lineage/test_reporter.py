"""When events are sent: at the start and the end of each run of a query, and at a bounded rate between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.errors import MissingExtraError, QueryFailedError
from common.machine import extras
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.history.micro_batches import MicroBatchRow
from orchestration.observe.lineage.reporter import Reporter
from tests.support.servers.lineage_events import validate
from tests.support.servers.receiver import Receiver, receiving

EXAMPLE = Path(__file__).parents[5] / "examples" / "earthquakes" / "pipeline.py"
SILVER = "silver.quakes"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def reporter(folder: Path, url: str, *overrides: str) -> Reporter:
    pipeline = load_pipeline(EXAMPLE)
    transport = f'lineage.openlineage={{"type": "http", "url": "{url}"}}'
    (folder / "medallion.yaml").touch()
    given = [f"data_dir={folder / 'data'}", transport, *overrides]
    settings = load_settings(file=folder / "medallion.yaml", overrides=given)
    return Reporter(pipeline, settings, Layout.of(pipeline, settings), "broker:9092")


def micro_batch(number: int, query: str = SILVER, **facts: Any) -> MicroBatchRow:
    row = MicroBatchRow(datetime.now(UTC), "up", "run", query, batch_id=number, rows=10, files=1, bytes=100)
    return replace(row, **facts)


def kinds(receiver: Receiver, query: str = SILVER) -> list[str]:
    return [event["eventType"] for event in receiver.of(f"earthquakes.{query}")]


def statistics(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [output["outputFacets"].get("outputStatistics", {}) for output in event["outputs"]]


def test_counts_add_up_and_running_is_sent_at_a_bounded_rate(tmp_path: Path, receiver: Receiver) -> None:
    sends = reporter(tmp_path, receiver.url, "lineage.interval_seconds=3600")
    sends.begin(SILVER)
    for number in range(500):
        sends.finished(micro_batch(number, accepted=7, quarantined=2, late=1), 7, {"depth_plausible": 1})
        sends.look(SILVER, "working", None)
    sends.end({SILVER: "ended"}, None)
    assert kinds(receiver) == ["START", "COMPLETE"]
    first, last = receiver.events
    assert first["run"]["runId"] == last["run"]["runId"]
    assert statistics(first) == [{}, {}, {}]
    assert [one["rowCount"] for one in statistics(last)] == [3500, 1000, 500]
    assert (statistics(last)[0]["fileCount"], statistics(last)[0]["size"]) == (500, 50000)
    assert last["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 5000
    rules = {
        a["name"]: a["actual"] for a in last["outputs"][0]["facets"]["dataQualityAssertions"]["assertions"]
    }
    assert rules == {"magnitude_in_range": "0", "coordinates_on_earth": "0", "depth_plausible": "500"}
    for event in receiver.events:
        validate(event)


def test_running_follows_the_interval_and_needs_a_micro_batch(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends = reporter(tmp_path, receiver.url)
    sends.begin(SILVER)
    monkeypatch.setattr(sends, "_interval", 0)
    sends.look(SILVER, "waiting", None)
    sends.finished(micro_batch(0), 10, {})
    sends.look(SILVER, "waiting", None)
    sends.look(SILVER, "waiting", None)
    sends.end({SILVER: "ended"}, None)
    assert kinds(receiver) == ["START", "RUNNING", "COMPLETE"]


def test_a_query_that_fails_and_is_restarted_is_two_runs(tmp_path: Path, receiver: Receiver) -> None:
    sends = reporter(tmp_path, receiver.url)
    sends.begin(SILVER)
    sends.look(SILVER, "restarting", QueryFailedError(SILVER, "the value 4711 of a record"))
    sends.begin(SILVER)
    sends.end({SILVER: "working"}, None)
    assert kinds(receiver) == ["START", "FAIL", "START", "ABORT"]
    runs = [event["run"]["runId"] for event in receiver.events]
    assert (runs[0] == runs[1], runs[2] == runs[3], runs[0] == runs[2]) == (True, True, False)
    assert receiver.events[1]["run"]["facets"]["errorMessage"]["message"] == "QueryFailedError"
    assert "4711" not in str(receiver.events)
    for event in receiver.events:
        validate(event)


def test_a_message_of_an_error_is_sent_on_request(tmp_path: Path, receiver: Receiver) -> None:
    sends = reporter(tmp_path, receiver.url, "log.exception_messages=true")
    sends.begin(SILVER)
    sends.look(SILVER, "failed", QueryFailedError(SILVER, "4711"))
    sends.end({}, None)
    assert "4711" in receiver.events[1]["run"]["facets"]["errorMessage"]["message"]


def test_a_dead_receiver_costs_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sends = reporter(tmp_path, "http://127.0.0.1:9")
    began = datetime.now(UTC)
    for number in range(50):
        sends.begin(SILVER)
        sends.finished(micro_batch(number), 1, {})
    assert (datetime.now(UTC) - began).total_seconds() < 1
    sends.end({}, None)
    assert (datetime.now(UTC) - began).total_seconds() < 8
    output = capsys.readouterr().err
    assert output.count("cannot be sent") <= 1  # none if the first try outlasts the end
    assert "events were not sent" in output


def test_a_missing_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'openlineage.*pip install "medallion-lakehouse\[lineage\]"'):
        reporter(tmp_path, "http://127.0.0.1:9")


@pytest.mark.long
def test_the_library_is_imported_only_when_it_is_on() -> None:
    assert Settings().lineage.openlineage is None
    import subprocess
    import sys

    code = "import sys, orchestration.run.job; sys.exit('openlineage' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
