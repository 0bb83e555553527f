"""``medallion status`` says exactly what tables, checkpoints and leases do; it never waits for a broker."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import typer
from deltalake import DeltaTable, write_deltalake
from rich.console import Console
from typer.testing import CliRunner

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Aggregate, Json, Pipeline, Silver, Topic, Upsert
from common.delta.checkpoint import Checkpoint, PlannedBatch, kafka_position
from common.delta.lease.lease_holder import find_holder
from common.delta.lease.local_leases import Leases
from orchestration.access.history.catalog_state import CatalogEntry, write_entries
from orchestration.access.progress.query_states import QueryState, Restart, write_state
from orchestration.cli.observe import status as module
from orchestration.cli.observe.status_output import render
from orchestration.cli.options import register
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.document import document
from orchestration.observe.status.model import Status, TableStatus
from orchestration.observe.status.problems import Problem, problems
from orchestration.observe.status.throughput import rate_per_second
from orchestration.observe.status.topic_offsets import BrokerOffsets, TopicOffsets, records_behind

PIPELINE = Pipeline(
    name="earthquakes",
    bronze=[Topic("quakes")],
    silver=[
        Silver(
            "quakes",
            reads="bronze.quakes",
            value=Json("id string, at timestamp"),
            columns={"quake_id": "id", "event_at": "at"},
            key=["quake_id"],
            event_time="event_at",
            watermark="7 days",
        )
    ],
    gold=[
        Aggregate("by_network", reads="silver.quakes", by=["network"], measures={"quakes": "count(*)"}),
        Upsert("latest", reads="silver.quakes", key=["quake_id"], newest_by=["event_at"]),
    ],
)


class Answering(BrokerOffsets):
    """A broker that has said what it had to say."""

    def __init__(self, reach: TopicOffsets) -> None:
        self._reach = reach

    def read(self, positions: Mapping[str, object]) -> TopicOffsets:
        assert list(positions) == ["bronze.quakes"]
        return self._reach


REACH = TopicOffsets("broker:9092", first={"quakes": {0: 0, 1: 0}}, end={"quakes": {0: 120, 1: 30}})


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "earthquakes/tables"), str(tmp_path / "earthquakes/checkpoints"), tmp_path)


def write(layout: Layout, table: str, rows: int, mode: str = "append") -> None:
    write_deltalake(layout.table_path(table), pa.table({"n": list(range(rows))}), mode=mode)


def batch(  # a micro-batch has as many facts
    layout: Layout, query: str, number: int, source: object, *, ago: float = 1, watermark: int = 0
) -> None:
    """A committed micro-batch that began this many seconds ago and took half a second."""
    root = Path(layout.checkpoint_path(query))
    planned = time.time() - ago
    head = {"batchWatermarkMs": watermark, "batchTimestampMs": int(planned * 1000)}
    for folder, text in (("offsets", f"v1\n{json.dumps(head)}\n{json.dumps(source)}"), ("commits", "v1\n{}")):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / str(number)).write_text(text)
    os.utime(root / "commits" / str(number), (planned + 0.5, planned + 0.5))


def delta(layout: Layout, table: str, version: int, index: int = -1) -> dict[str, object]:
    table_id = str(DeltaTable(layout.table_path(table)).metadata().id)
    return {
        "sourceVersion": 1,
        "reservoirId": table_id,
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": False,
    }


def look(layout: Layout, reach: TopicOffsets = REACH) -> dict[str, TableStatus]:
    status = Collector(PIPELINE, layout, Answering(reach)).collect()
    return {table.table: table for table in status.tables}


def test_before_the_first_run_everything_is_not_yet(layout: Layout) -> None:
    tables = look(layout)
    assert list(tables) == ["bronze.quakes", "silver.quakes", "gold.by_network", "gold.latest"]
    assert [table.now for table in tables.values()] == [None] * 4
    assert tables["bronze.quakes"].lag.count == 150
    assert (tables["silver.quakes"].lag.count, tables["silver.quakes"].lag.note) == (
        0,
        "waits for bronze.quakes",
    )
    assert [table.holder for table in tables.values()] == [None] * 4


def test_bronze_lag_is_end_minus_next_offset_over_all_partitions(layout: Layout) -> None:
    batch(layout, "bronze.quakes", 0, {"quakes": {"0": 100, "1": 30}})
    lag = look(layout)["bronze.quakes"].lag
    assert (lag.unit, lag.count, lag.versions, lag.note) == ("records", 20, None, "")


def test_a_planned_batch_that_is_not_done_is_still_lag(layout: Layout) -> None:
    batch(layout, "bronze.quakes", 0, {"quakes": {"0": 100, "1": 30}})
    batch(layout, "bronze.quakes", 1, {"quakes": {"0": 120, "1": 30}})
    (Path(layout.checkpoint_path("bronze.quakes")) / "commits/1").unlink()
    bronze = look(layout)["bronze.quakes"]
    assert (bronze.last_batch_id, bronze.lag.count) == (0, 20)


def test_a_partition_without_a_position_counts_from_its_oldest_record() -> None:
    reach = TopicOffsets("b", first={"quakes": {0: 0, 1: 10}}, end={"quakes": {0: 120, 1: 30}})
    assert records_behind(Topic("quakes"), reach, {"quakes": {0: 100}}) == 40
    assert records_behind(Topic("quakes"), reach, None) == 140


def test_a_start_at_the_latest_has_no_known_lag_before_it_starts() -> None:
    topic = Topic("quakes", starting_offsets="latest")
    assert records_behind(topic, REACH, None) is None
    assert records_behind(topic, REACH, {"quakes": {0: 119, 1: 30}}) == 1


def test_only_assigned_partitions_count() -> None:
    topic = Topic("quakes", assign={"quakes": [1]})
    assert records_behind(topic, REACH, {"quakes": {1: 25}}) == 5


def test_silver_lag_is_what_bronze_holds_beyond_its_position(layout: Layout) -> None:
    for rows in (10, 20, 40):
        write(layout, "bronze.quakes", rows)
    batch(layout, "silver.quakes", 4, delta(layout, "bronze.quakes", 1))
    added = DeltaTable(layout.table_path("bronze.quakes")).get_add_actions()
    sizes = dict(
        zip(added.column("num_records").to_pylist(), added.column("size_bytes").to_pylist(), strict=True)
    )
    silver = look(layout)["silver.quakes"]
    lag = silver.lag
    assert (lag.unit, lag.count, lag.versions, lag.files, lag.bytes) == (
        "rows",
        60,
        2,
        2,
        sizes[20] + sizes[40],
    )
    assert silver.last_batch_id == 4


def test_a_table_says_rows_files_bytes_version_and_newest_commit(layout: Layout) -> None:
    for rows in (10, 20):
        write(layout, "silver.quakes", rows)
    write(layout, "gold.by_network", 5)
    write(layout, "gold.by_network", 7, mode="overwrite")
    tables = look(layout)
    silver, gold = tables["silver.quakes"].now, tables["gold.by_network"].now
    assert silver is not None
    assert gold is not None
    assert (silver.rows, silver.files, silver.version) == (30, 2, 1)
    assert (gold.rows, gold.files, gold.version) == (7, 1, 1)
    assert tables["gold.latest"].lag.count == 30
    assert abs((datetime.now(UTC) - gold.timestamp).total_seconds()) < 60


def test_a_checkpoint_of_another_table_is_told(layout: Layout) -> None:
    write(layout, "bronze.quakes", 10)
    batch(layout, "silver.quakes", 0, {**delta(layout, "bronze.quakes", 1), "reservoirId": "another"})
    lag = look(layout)["silver.quakes"].lag
    assert (lag.count, lag.note) == (None, "its checkpoint belongs to another bronze.quakes")


def test_a_broken_checkpoint_is_told_and_the_rest_is_shown(layout: Layout) -> None:
    write(layout, "bronze.quakes", 10)
    batch(layout, "silver.quakes", 0, delta(layout, "bronze.quakes", 1))
    (Path(layout.checkpoint_path("silver.quakes")) / "offsets/0").write_text("v9")
    tables = look(layout)
    assert tables["silver.quakes"].lag.count is None
    assert tables["silver.quakes"].lag.note.endswith("offsets/0 is not what Spark 4.1 writes")
    assert tables["bronze.quakes"].now is not None


def test_the_watermark_is_that_of_the_newest_batch(layout: Layout) -> None:
    write(layout, "bronze.quakes", 10)
    for number, watermark in enumerate((0, 1_772_366_400_000)):
        batch(layout, "silver.quakes", number, delta(layout, "bronze.quakes", number), watermark=watermark)
    tables = look(layout)
    assert tables["silver.quakes"].watermark == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert tables["gold.latest"].watermark is None


def test_quarantined_rows_are_counted_by_reason(layout: Layout) -> None:
    path = layout.table_path("silver.quakes__quarantine")
    collector = Collector(PIPELINE, layout, Answering(REACH))
    write_deltalake(path, pa.table({"reasons": [["unreadable"], ["no_key", "unreadable"]]}))
    first = collector.collect().tables[1].quarantine
    write_deltalake(path, pa.table({"reasons": [["no_key"], ["no_key"]]}), mode="append")
    second = collector.collect().tables[1].quarantine
    assert first is not None
    assert second is not None
    assert (first.table, first.rows, first.reasons) == (
        "silver.quakes__quarantine",
        2,
        (("unreadable", 2), ("no_key", 1)),
    )
    assert (second.rows, second.reasons) == (4, (("no_key", 3), ("unreadable", 2)))


def kafka_rows(start: PlannedBatch | None, end: PlannedBatch) -> int:
    return kafka_position(end)["quakes"][0] - (kafka_position(start)["quakes"][0] if start else 0)


@pytest.mark.parametrize(
    ("began_seconds_ago", "first_batch", "rate"),
    [
        ([50, 30, 10], 0, 300 / 50),  # from the very beginning
        ([50, 30, 10], 7, 200 / 50),  # the one before is purged: it cannot say where the first began
        ([600, 30, 10], 0, 200 / 30),  # the old one ended long ago
        ([600, 500, 400], 0, 0.0),  # idle
        ([], 0, 0.0),  # never ran
    ],
)
def test_rows_per_second_are_those_of_the_last_minute(
    layout: Layout, began_seconds_ago: list[int], first_batch: int, rate: float
) -> None:
    for number, ago in enumerate(began_seconds_ago):
        batch(layout, "q", first_batch + number, {"quakes": {"0": 100 * (number + 1)}}, ago=ago)
    checkpoint = Checkpoint(layout.checkpoint_path("q"))
    found = rate_per_second(checkpoint, checkpoint.last_committed(), datetime.now(UTC), kafka_rows)
    assert found == pytest.approx(rate, rel=0.02)


def test_a_batch_that_took_minutes_counts_when_it_is_done(layout: Layout) -> None:
    batch(layout, "q", 0, {"quakes": {"0": 6_000}}, ago=300)
    done = Path(layout.checkpoint_path("q")) / "commits/0"
    os.utime(done, (time.time() - 5, time.time() - 5))
    found = rate_per_second(Checkpoint(layout.checkpoint_path("q")), 0, datetime.now(UTC), kafka_rows)
    assert found == pytest.approx(20, rel=0.02)


def test_silver_reads_source_rows_per_second(layout: Layout) -> None:
    for rows in (10, 20, 40):
        write(layout, "bronze.quakes", rows)
    batch(layout, "silver.quakes", 0, delta(layout, "bronze.quakes", 1), ago=300)
    batch(layout, "silver.quakes", 1, delta(layout, "bronze.quakes", 2, index=0), ago=30)
    rate = look(layout)["silver.quakes"].rows_per_second
    assert rate == pytest.approx(60 / 30, rel=0.05)


def test_a_held_lease_names_its_job_and_a_free_one_nobody(layout: Layout) -> None:
    with Leases(layout.leases, ["bronze.quakes", "silver.quakes"], "run"):
        tables = look(layout)
    found = tables["bronze.quakes"].holder
    assert found is not None
    assert (found.job, found.pid) == ("run", os.getpid())
    assert found.started_at is not None
    assert tables["silver.quakes"].holder == found
    assert tables["gold.latest"].holder is None
    assert look(layout)["bronze.quakes"].holder is None


def test_what_a_killed_job_left_in_its_lease_is_nobody(tmp_path: Path) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    lease = tmp_path / "bronze.quakes.lock"
    for content in ("", "{", "[]", json.dumps({"job": "run", "pid": gone, "host": os.uname().nodename})):
        lease.write_text(content)
        assert find_holder(tmp_path, "bronze.quakes") is None
    lease.write_text(json.dumps({"job": "run", "pid": os.getpid(), "host": os.uname().nodename}))
    assert find_holder(tmp_path, "bronze.quakes") is None


def test_without_a_broker_its_lag_is_unknown_and_nothing_waits(tmp_path: Path, layout: Layout) -> None:
    batch(layout, "bronze.quakes", 0, {"quakes": {"0": 100}})
    status = Collector(PIPELINE, layout, BrokerOffsets(PIPELINE, Settings(data_dir=tmp_path))).collect()
    assert (status.broker, status.broker_note) == (None, "broker not running")
    assert (status.tables[0].lag.count, status.tables[0].lag.note) == (None, "broker not running")


def test_the_document_has_stable_keys_and_exact_numbers(layout: Layout) -> None:
    write(layout, "bronze.quakes", 10)
    batch(layout, "bronze.quakes", 0, {"quakes": {"0": 100, "1": 30}}, ago=10)
    written = document(Collector(PIPELINE, layout, Answering(REACH)).collect())
    keys = ["pipeline", "at", "broker", "waiting_seconds", "problems", "alerts", "standbys"]
    assert list(written) == [*keys, "layers", "tables"]
    assert written["layers"] == dict.fromkeys(("bronze", "silver", "gold"), "stopped")
    assert written["broker"] == {"address": "broker:9092", "note": ""}
    bronze = written["tables"][0]
    now = DeltaTable(layout.table_path("bronze.quakes"))
    assert bronze.pop("committed_at").endswith("Z")
    assert bronze.pop("rows_per_second") == pytest.approx(1.0, rel=0.1)
    assert bronze == {
        "table": "bronze.quakes",
        "layer": "bronze",
        "kind": "topic",
        "reads": ["quakes"],
        "path": layout.table_path("bronze.quakes"),
        "exists": True,
        "rows": 10,
        "files": 1,
        "bytes": now.get_add_actions().column("size_bytes").to_pylist()[0],
        "version": 0,
        "lag": {
            "unit": "records",
            "count": 20,
            "versions": None,
            "files": None,
            "bytes": None,
            "note": "",
            "seconds": None,
            "numFilesOutstanding": None,
            "numBytesOutstanding": None,
            "numNewListedFiles": None,
            "backlogEndOffset": None,
        },
        "words": {"unread": "20 records", "loss": "", "fields": "", "is_rate_known": True},
        "last_batch_id": 0,
        "watermark_at": None,
        "quarantine": None,
        "receipts": None,
        "late": None,
        "other": None,
        "fields": None,
        "job": None,
        "fault": "",
        "catalog": None,
        "source_files": None,
        "failures": None,
        "retention": {"keep": None, "expired": 0},
        "query": {
            "state": "stopped",
            "is_faulty": False,
            "phase": "no job runs",
            "since": None,
            "error": "",
            "restarts": 0,
            "last_batch": None,
        },
        "freshness": {
            "newest_at": None,
            "newest_seconds": None,
            "waiting_since": None,
            "waiting_seconds": None,
            "unknown_seconds": 0.0,
        },
        "time_to_loss": {"seconds": None, "is_never": False, "cause": ""},
        "uncommitted": {"records": 0, "seconds": 0.0},
    }
    json.dumps(written)


def pictured(layout: Layout, width: int = 120) -> list[str]:
    screen = StringIO()
    status = Collector(PIPELINE, layout, Answering(REACH)).collect()
    Console(file=screen, width=width, color_system=None).print(render(status))
    return screen.getvalue().splitlines()


def test_a_table_that_a_catalog_lacks_is_a_warning(layout: Layout) -> None:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    late = "silver.quakes__late"
    write_entries(
        layout.catalog,
        "up",
        {
            "bronze.quakes": CatalogEntry("dev_bronze.quakes", at),
            "silver.quakes": CatalogEntry("dev_silver.quakes", at),
            late: CatalogEntry(f"dev_{late}", None, "Connection refused"),
        },
    )
    (layout.catalog / "gold.json").write_text("{")  # a damaged file hides nothing
    status = Collector(PIPELINE, layout, Answering(REACH)).collect()
    found = {one["table"]: one["catalog"] for one in document(status)["tables"]}
    assert found["bronze.quakes"] == {
        "name": "dev_bronze.quakes",
        "registered_at": "2026-01-05T00:00:00.000Z",
        "error": "",
    }
    why = f"dev_{late}: Connection refused"
    assert found["silver.quakes"]["error"] == why
    assert found["gold.latest"] is None
    assert Problem("warning", "silver.quakes", f"not registered as dev_silver.quakes: {why}") in problems(
        status
    )


def test_the_picture_is_a_hundred_columns_wide(layout: Layout) -> None:
    write(layout, "bronze.quakes", 1_234)
    batch(layout, "bronze.quakes", 0, {"quakes": {"0": 100, "1": 30}}, ago=300)
    lines = pictured(layout)
    assert max(len(line.rstrip()) for line in lines) == 100
    (title,) = [line for line in lines if "earthquakes" in line]
    assert "kafka broker:9092" in title
    (bronze,) = [line.split() for line in lines if "20 records" in line]
    assert bronze[1:5] == ["○", "quakes", "1,234", "1"]
    assert bronze[-4:-1] == ["0", "20", "records"]
    (later,) = [line.split() for line in lines if "by_network" in line]
    assert later == ["│", "○", "by_network", "not", "yet", "source", "behind", "│"]


def test_a_narrow_terminal_keeps_every_number_it_shows_whole(layout: Layout) -> None:
    write(layout, "bronze.quakes", 1_234)
    lines = pictured(layout, width=80)
    assert {len(line.rstrip()) for line in lines if line.startswith(("│", "╭"))} == {80}
    (head,) = [line.split() for line in lines if "BRONZE" in line]
    assert head == ["│", "BRONZE", "rows", "size", "commit", "rows/s", "lag", "│"]
    assert not [line for line in lines if "…" in line]


def named(name: str) -> Pipeline:
    """The pipeline with another name for one of its gold tables."""
    return replace(PIPELINE, gold=[replace(PIPELINE.gold[0], name=name), *PIPELINE.gold[1:]])


@pytest.mark.parametrize("width", [80, 100, 200])
def test_names_and_numbers_are_whole_at_every_width(layout: Layout, width: int) -> None:
    name = "detection_latency_of_all_networks_and_hours"
    write(layout, "silver.quakes", 1_234)
    write(layout, f"gold.{name}", 4_321)
    status = Collector(named(name), layout, Answering(REACH)).collect()
    screen = StringIO()
    Console(file=screen, width=width, color_system=None).print(render(status))
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    (line,) = [line for line in lines if name in line]
    assert "4,321" in line.split()
    assert "…" not in screen.getvalue()


def test_a_wide_terminal_has_a_line_per_table(layout: Layout) -> None:
    write(layout, "bronze.quakes", 1_234)
    write(layout, "bronze.quakes", 10)
    batch(layout, "silver.quakes", 0, delta(layout, "bronze.quakes", 1))
    lines = pictured(layout, width=200)
    assert {len(line.rstrip()) for line in lines if line.startswith(("│", "╭"))} == {200}
    (silver,) = [line for line in lines if "← bronze.quakes" in line]
    assert silver.split()[1:3] == ["○", "quakes"]
    assert "to read: 1 commit, 1 file" in silver


def test_a_terminal_with_few_lines_leaves_details_out(layout: Layout) -> None:
    status = Collector(PIPELINE, layout, Answering(REACH)).collect()
    for rows, has_details in ((100, True), (14, False)):
        screen = StringIO()
        Console(file=screen, width=100, color_system=None).print(render(status, rows=rows))
        assert ("←" in screen.getvalue()) == has_details


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    (tmp_path / "pipeline.py").write_text(
        "from common.declare import Pipeline, Topic\n"
        'pipeline = Pipeline(name="earthquakes", bronze=[Topic("quakes")])\n'
    )
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    register(app, module)

    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["-p", "pipeline.py", *words])
        return result.exit_code, result.stdout

    return run


def test_json_prints_one_document(command: Callable[..., tuple[int, str]]) -> None:
    code, printed = command("--json")
    assert code == 0
    assert [table["table"] for table in json.loads(printed)["tables"]] == ["bronze.quakes"]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_job_that_does_not_answer_is_no_success(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The picture or the document is printed all the same."""
    monkeypatch.setattr(Status, "is_unanswered", property(lambda _: True))
    code, printed = command(*words)
    assert code == 1
    assert "quakes" in printed


def test_ctrl_c_ends_watching_with_success(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    # Of this module alone: threads of other tests sleep too.
    monkeypatch.setattr("orchestration.cli.observe.status.time", SimpleNamespace(sleep=sleep))
    code, printed = command("--watch", "--every", "0.5")
    assert (code, looks) == (0, [0.5, 0.5])
    assert printed.count("BRONZE") == 2


def test_failures_and_restarts_of_a_query_are_shown_while_its_job_runs(layout: Layout) -> None:
    """A failure for good is shown until the next start, also when the job has ended."""
    now = datetime.now(UTC)
    restarts = tuple(
        Restart((now - timedelta(minutes=m)).isoformat(), "the Kafka broker") for m in (90, 5, 1)
    )
    state = QueryState(
        "silver.quakes",
        os.getpid(),
        "waits",
        "transient",
        "the Kafka broker",
        "silver.quakes failed: the Kafka broker: no answer",
        now.isoformat(),
        restarts=3,
        last_restarts=restarts,
    )
    write(layout, "bronze.quakes", 10)
    collector = Collector(PIPELINE, layout, Answering(REACH))
    write_state(layout.query_states, state)
    assert collector.collect().tables[1].failures is None
    with Leases(layout.leases, ["silver.quakes"], "up"):
        status = collector.collect()
    shown = document(status)["tables"][1]["failures"]
    assert (shown["state"], shown["restarts"], shown["restarts_last_hour"]) == ("waits", 3, 2)
    picture = StringIO()
    Console(file=picture, width=100).print(render(status))
    assert "2 restarts in the last hour: the Kafka broker" in picture.getvalue()
    write_state(layout.query_states, replace(state, state="failed"))
    picture = StringIO()
    Console(file=picture, width=100).print(render(collector.collect()))
    assert "! stopped since" in picture.getvalue()
