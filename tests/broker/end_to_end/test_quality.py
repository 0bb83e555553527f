"""Quality suites on real tables: pass, fail with exit code 3, and always for the version that is named."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import (
    Aggregate,
    Expect,
    InRange,
    Message,
    Pipeline,
    Quality,
    Topic,
    Upsert,
)
from common.delta.published_pointer import read_published
from common.errors import QualityFailedError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.change.backfill.catch_up import catch_up
from orchestration.cli.quality import quality as command
from orchestration.quality.evaluate import plan
from orchestration.quality.expectations import LibraryValidator
from orchestration.quality.session import QualitySession
from orchestration.quality.versions import pin
from orchestration.run import quality_gates
from orchestration.run.job import Job
from orchestration.run.quality_gates import QualityGates
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Layer, Wiring
from tests.conftest import make_settings
from tests.support import in_process
from tests.support.in_process import Ended
from tests.support.processes import EXAMPLE, example_on, medallion
from tests.support.shops import plain_silver

# Great Expectations imports a module that Python has deprecated.
_LIBRARY = pytest.mark.filterwarnings("ignore::DeprecationWarning")

_STRICTER = """
from dataclasses import replace

from common.declare import Expect, Quality

pipeline = replace(pipeline, quality=[
    Quality("silver.quakes", [Expect("expect_column_values_to_not_be_null", {"column": "quake_id"})]),
    Quality("gold.quakes_latest", [
        Expect("expect_column_values_to_be_unique", {"column": "quake_id"}),
        Expect("expect_column_values_to_be_between", {"column": "magnitude", "max_value": 1}),
    ]),
])
"""


class Shared:
    """The tests' session, lent to a command, which would stop a session of its own."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Nothing: others use it too."""


class Filled:
    """The example's tables with 1,500 events in them, and the commands run over them."""

    def __init__(self, spark: Any, layout: Layout, pipeline: Path, stricter: Path, given: list[str]) -> None:
        self.layout, self._spark, self._given = layout, spark, given
        self.folder, self.pipeline, self.stricter = pipeline.parent, pipeline, stricter
        self.passed = self._run("run", "--json", "-p", str(pipeline))
        self.docs = self._run("docs", "--no-serve", "-p", str(pipeline))
        self.failed = self._run("run", "gold.quakes_latest", "-p", str(stricter))

    def _run(self, *words: str) -> Ended:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of Great Expectations
            patch.setattr(command, "build_session", lambda *_, **__: Shared(self._spark))
            return in_process.run("quality", *words, settings=self._given)

    def path(self, table: str) -> str:
        """Where a table lies."""
        return self.layout.table_path(table)


@pytest.fixture(scope="module")
def filled(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    catch_up: Callable[..., object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Filled:
    """Filled once, never changed."""
    folder, topic = tmp_path_factory.mktemp("quality"), new_topic()
    pipeline = example_on(folder, topic)
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    send(topic, list(islice(sample(17), 1500)))
    stricter = folder / "stricter.py"
    stricter.write_text(pipeline.read_text() + _STRICTER)
    settings, declared = make_settings(folder, broker), load_pipeline(pipeline)
    catch_up(declared, settings)
    given = [f"data_dir={folder / 'data'}", f"kafka.bootstrap_servers={broker}"]
    return Filled(spark, Layout.of(declared, settings), pipeline, stricter, given)


@pytest.mark.long
def test_the_examples_suites_pass(filled: Filled) -> None:
    """One result per suite, with the table's version and rows."""
    assert filled.passed.code == 0, filled.passed.stderr
    document = json.loads(filled.passed.stdout)
    declared = {suite.table: suite for suite in load_pipeline(EXAMPLE).quality}
    assert {suite["table"] for suite in document["suites"]} == set(declared)
    for suite in document["suites"]:
        table = DeltaTable(filled.path(suite["table"]))
        assert suite["is_met"] is True
        assert suite["version"] == table.version()
        assert suite["rows"] == table.to_pyarrow_table().num_rows
        names = [one["expectation"] for one in suite["checked"] if one["expectation"] != "rule"]
        assert names == [one.name for one in plan(declared[suite["table"]])]


@pytest.mark.long
def test_the_data_docs_are_written_and_can_be_found_again(filled: Filled) -> None:
    """An index with both tables, and a page per validation."""
    index = Path(json.loads(filled.passed.stdout)["data_docs"])
    assert index.name == "index.html"
    text = index.read_text(encoding="utf-8")
    assert "silver.quakes" in text
    assert "gold.quakes_latest" in text
    assert filled.docs.stdout.strip() == str(index)
    assert len(list((index.parent / "validations").rglob("*.html"))) >= 2


@pytest.mark.long
def test_a_suite_that_fails_exits_3_and_names_what_failed(filled: Filled) -> None:
    """The one table that was chosen decides; the other is not looked at."""
    assert filled.failed.code == 3
    version = DeltaTable(filled.path("gold.quakes_latest")).version()
    assert filled.failed.error.startswith(
        f"error: 1 expectation failed on gold.quakes_latest (version {version}). Data Docs: "
    )
    lines = [line for line in filled.failed.stdout.splitlines() if "✗" in line]
    assert len(lines) == 1
    assert "column_values_to_be_between" in lines[0]
    assert "rows do not meet it" in filled.failed.stdout
    assert "silver.quakes" not in filled.failed.stdout


def test_a_table_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    """And a table without a suite is a usage error that names the nearest."""
    pipeline, given = ("-p", str(EXAMPLE)), [f"data_dir={tmp_path / 'data'}"]
    missing = in_process.run("quality", "run", *pipeline, settings=given)
    unknown = in_process.run("quality", "run", "gold.quakes_lates", *pipeline, settings=given)
    docs = in_process.run("quality", "docs", *pipeline, settings=given)
    assert missing.code == 1
    assert "silver.quakes does not exist yet" in missing.error
    assert unknown.code == 2
    assert "did you mean 'gold.quakes_latest'?" in unknown.error
    assert docs.code == 2
    assert "medallion quality run" in docs.error


@pytest.mark.long
def test_a_process_validates_with_a_session_of_its_own(filled: Filled, tmp_path: Path) -> None:
    """With the exit codes that a scheduler sees."""
    given = ("quality", "run", "gold.quakes_latest")
    with medallion(tmp_path, filled.pipeline, f"data_dir={filled.folder / 'data'}") as commands:
        passed = commands.run(*given)
        commands.pipeline = filled.stricter
        failed = commands.run(*given)
    assert (passed.code(), failed.code()) == (0, 3), failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.long
def test_cases_are_recorded_from_quarantine_and_offsets_and_pass(filled: Filled, tmp_path: Path) -> None:
    """By the command, from the records that the broker gave; each record keeps its coordinates."""
    quarantined = DeltaTable(filled.path("silver.quakes__quarantine")).to_pyarrow_table().to_pylist()
    texts = [row for row in quarantined if row["value"] and "not_utf8" not in row["reasons"]]
    newest = max(texts, key=lambda row: row["offset"])
    topic, file = newest["topic"], tmp_path / "recorded.cases.yaml"
    place = f'"partition" = {newest["partition"]} and "offset" = {newest["offset"]}'
    file.write_text(f"pipeline: {filled.pipeline}\n")
    with medallion(tmp_path, filled.pipeline, f"data_dir={filled.folder / 'data'}") as commands:
        given = ("test", str(file), "--record")
        first = commands.run(*given, "silver.quakes__quarantine", "--where", place)
        second = commands.run(*given, f"{topic}/0/3-5", "--table", "gold.quakes_latest")
        assert (first.code(), second.code()) == (0, 0), first.stderr + second.stderr
        ran = commands.run("test", str(file), "--json")
        assert ran.code() == 0, ran.stdout + ran.stderr
    outcomes = json.loads(ran.stdout)["cases"]
    assert [one["passed"] for one in outcomes] == [True, True]
    assert outcomes[0]["case"].startswith(
        f"{topic}/{newest['partition']}/{newest['offset']} is quarantined: "
    )
    text = file.read_text()
    assert newest["value"].decode() in text
    assert all(f"offset: {offset}\n" in text for offset in (3, 4, 5))


@_LIBRARY
@pytest.mark.long
def test_results_are_of_the_pinned_version_whatever_is_written_meanwhile(
    spark: Any, tmp_path: Path, filled: Filled
) -> None:
    """A commit after the pin changes nothing; the next pin sees it. The library and the short form agree."""
    source = DeltaTable(filled.path("gold.quakes_latest")).to_pyarrow_table()
    layout = replace(filled.layout, warehouse=str(tmp_path), local=tmp_path / "local")
    path = layout.table_path("gold.quakes_latest")
    write_deltalake(path, source)
    unique = Expect("expect_column_values_to_be_unique", {"column": "quake_id"})
    known = Expect("expect_column_values_to_not_be_in_set", {"column": "quake_id", "value_set": ["nowhere"]})
    suite = Quality("gold.quakes_latest", [unique, known])
    pinned = pin(layout, suite.table)
    write_deltalake(path, source.slice(0, 3), mode="append")
    declared = replace(load_pipeline(filled.pipeline), quality=[suite])
    session = QualitySession(declared, make_settings(tmp_path, ""), layout, lambda: Shared(spark))
    ((_, then),) = session.evaluate([(suite, pinned)])
    ((_, now),) = session.evaluate([(suite, pin(layout, suite.table))])
    assert (then.version, then.is_met, then.rows) == (pinned.version, True, source.num_rows)
    assert (now.version, now.is_met) == (pinned.version + 1, False)
    rows = source.num_rows + 3
    assert [one.observed for one in now.checked] == [f"6 of {rows:,} rows do not meet it", ""]
    (of_library,) = LibraryValidator(spark).validate([unique], pin(layout, suite.table))
    assert (of_library.failing_rows, of_library.is_met) == (6, False)


@pytest.mark.long
def test_gates_of_a_running_job(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bad version stops the query of one table; the pointer of another stays until the next good one."""
    monkeypatch.setattr(quality_gates, "_PAUSE_PER_SECOND", 0)
    topic = new_topic()
    settings = make_settings(tmp_path, broker, "quality.gate_interval=0.01 seconds")
    job = RunningJob(spark, gated(topic), settings, broker)
    with job.running():
        send(topic, [order("a", 5), order("b", 7)])
        job.wait(lambda: job.published_rows() == {("a", 5), ("b", 7)})
        send(topic, [order("c", -1)])
        job.wait(lambda: "gold.totals" in job.supervisor.gate.closed_for)
        job.wait(lambda: not job.query("gold.totals").is_active)
        job.wait(lambda: job.rows("gold.latest") == {("a", 5), ("b", 7), ("c", -1)})
        time.sleep(1)
        assert job.published_rows() == {("a", 5), ("b", 7)}
        send(topic, [order("c", 3), order("d", 4)])
        job.wait(lambda: job.published_rows() == {("a", 5), ("b", 7), ("c", 3), ("d", 4)})
        assert job.query("silver.orders").is_active
        assert job.rows("gold.totals") == {("a", 5), ("b", 7), ("c", -1)}
    with pytest.raises(QualityFailedError, match=r"gold\.totals failed its quality suite"):
        job.gates.judge(evaluate=False)


@pytest.mark.long
def test_the_examples_wrong_magnitude_stays_from_readers_until_it_is_corrected(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path: Path,
) -> None:
    """As the example's page says: the gate fails, the status names the row, the next good version is read."""
    topic, settings = new_topic(), make_settings(tmp_path, broker)
    file = example_on(tmp_path / "example", topic)
    pipeline = load_pipeline(file)
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    given = [f"data_dir={settings.data_dir}", f"kafka.bootstrap_servers={broker}"]

    def strongest(table: str) -> float:
        select = f"select max(magnitude) as strongest from {table}"
        ended = in_process.run("query", select, "--json", "-p", str(file), settings=given)
        return float(json.loads(ended.stdout)[0]["strongest"])

    send(topic, list(islice(sample(17), 300)))
    backfill(spark, pipeline, settings, broker).judge()
    before = strongest("gold.quakes_latest__published")
    send(topic, [message_of(EXAMPLE.with_name("wrong_magnitude.jsonl"))])
    with pytest.raises(QualityFailedError, match="in_range magnitude: 1 of "):
        backfill(spark, pipeline, settings, broker).judge()
    assert strongest("gold.quakes_latest") == 9.9
    assert strongest("gold.quakes_latest__published") == before
    words = ("quality", "status", "gold.quakes_latest", "--rows")
    status = in_process.run(*words, "-p", str(file), settings=given)
    assert "uu99990001" in status.stdout
    send(topic, [message_of(EXAMPLE.with_name("right_magnitude.jsonl"))])
    backfill(spark, pipeline, settings, broker).judge()
    assert strongest("gold.quakes_latest") == before
    published = read_published(Layout.of(pipeline, settings).table_path("gold.quakes_latest"))
    assert published is not None
    newest = DeltaTable(Layout.of(pipeline, settings).table_path("gold.quakes_latest")).version()
    assert published.version == newest


def message_of(file: Path) -> Message:
    """The message of a file with one line, under the key that the example's page names."""
    value = file.read_bytes().strip()
    return Message(str(json.loads(value)["id"]).encode(), value)


def backfill(spark: Any, pipeline: Pipeline, settings: Settings, broker: str) -> Job:
    """A backfill of all layers, with the pipeline's gates beside it; the job can still be judged."""
    layers: tuple[Layer, ...] = ("bronze", "silver", "gold")
    stop = StopSignal()
    wiring = Wiring(spark, pipeline, settings, Layout.of(pipeline, settings), broker)
    supervisor = Supervisor(spark, stop, stop_timeout_seconds=60)
    gates = QualityGates(wiring, supervisor, layers)
    job = Job(layers, wiring, supervisor, stop, gates)
    with gates.running():
        assert all(layer.is_whole for layer in catch_up(job))
    return job


def gated(topic: str) -> Pipeline:
    """Orders whose totals stop, and whose newest rows are published, by the same expectation."""
    return Pipeline(
        name="gated",
        bronze=[Topic("orders", topics=[topic])],
        silver=[plain_silver("orders", "id string, amount int, at timestamp", key=["id", "at"])],
        gold=[
            Aggregate("totals", reads="silver.orders", by=["id"], measures={"amount": "sum(amount)"}),
            Upsert("latest", reads="silver.orders", key=["id"], newest_by=["at"]),
        ],
        quality=[
            Quality("gold.totals", [InRange("amount", min=0)], gate="stop"),
            Quality("gold.latest", [InRange("amount", min=0)], gate="publish"),
        ],
    )


_clock = count()


def order(key: str, amount: int) -> Message:
    """An order; each is a second later than the one before."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(_clock))
    return Message(key.encode(), json.dumps({"id": key, "amount": amount, "at": at.isoformat()}).encode())


class RunningJob:
    """All layers of a pipeline with their gates, in the tests' session."""

    def __init__(self, spark: Any, pipeline: Pipeline, settings: Settings, broker: str) -> None:
        self.layout, self.stop = Layout.of(pipeline, settings), StopSignal()
        self.wiring = Wiring(spark, pipeline, settings, self.layout, broker)
        self.supervisor = Supervisor(spark, self.stop, stop_timeout_seconds=60)
        self.gates = QualityGates(self.wiring, self.supervisor, ("bronze", "silver", "gold"))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the queries inside the block."""
        for layer in ("bronze", "silver", "gold"):
            self.supervisor.start(self.wiring.streams(layer))
        with self.gates.running(), ThreadPoolExecutor(1) as pool:
            ended = pool.submit(self.supervisor.run)
            try:
                yield
            finally:
                self.stop.request()
                ended.result(120)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is met."""
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, "it did not happen within two minutes"
            time.sleep(0.2)

    def query(self, name: str) -> Any:
        """The running query of a table."""
        return next(query for query in self.supervisor.queries if query.name == name)

    def rows(self, table: str, version: int | None = None) -> set[tuple[str, int]]:
        """Ids and amounts of a table."""
        path = self.layout.table_path(table)
        if not DeltaTable.is_deltatable(path):
            return set()
        found = DeltaTable(path, version=version).to_pyarrow_table().to_pylist()
        return {(row["id"], row["amount"]) for row in found}

    def published_rows(self) -> set[tuple[str, int]]:
        """Ids and amounts of the published version of gold.latest."""
        published = read_published(self.layout.table_path("gold.latest"))
        return set() if published is None else self.rows("gold.latest", published.version)
