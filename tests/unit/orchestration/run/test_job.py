"""What a job writes, whether its topics are there, and how the end of a process is told."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from common.config.paths import Layout, all_tables
from common.config.settings import load_settings
from common.declare import ConsoleSink, FileSink, Pipeline, Publish, Topic, Upsert, View
from common.delta.lease.job_leases import TableLeases
from common.errors import BrokerError, LeaseHeldError
from common.machine import processes
from common.streaming.query import Gate, Stream
from orchestration.access.channel.protocol import VERSION
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.run import job
from orchestration.run.job import Start, open_broker, written_tables
from orchestration.run.separate_processes import _failure
from orchestration.run.serving.channel import Channel
from orchestration.run.supervisor import StopSignal
from orchestration.run.wiring import LAYERS, Layer, Wiring
from tests.conftest import make_settings

EXAMPLE = Path(__file__).parents[4] / "examples" / "earthquakes" / "pipeline.py"


@pytest.fixture
def pipeline() -> Pipeline:
    """The example."""
    return load_pipeline(EXAMPLE)


def test_a_job_holds_the_leases_of_all_that_its_layers_write(pipeline: Pipeline) -> None:
    assert written_tables(pipeline, ["silver"]) == (
        "silver.quakes",
        "silver.quakes__quarantine",
        "silver.quakes__late",
    )
    assert written_tables(pipeline, LAYERS) == all_tables(pipeline)


def test_no_two_layers_write_one_table(pipeline: Pipeline) -> None:
    tables = [table for layer in LAYERS for table in written_tables(pipeline, [layer])]
    assert len(tables) == len(set(tables))


def test_two_jobs_with_data_folders_of_their_own_do_not_publish_to_one_folder(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """The second is a copy of the first. A job of other layers publishes nothing."""
    export = tmp_path / "export"
    publish = Publish("files", reads="silver.quakes", to=FileSink(str(export)))
    declared = replace(pipeline, publish=[publish])

    def leases(folder: str, *layers: Any) -> TableLeases:
        settings = make_settings(tmp_path, "none:1", f"data_dir={tmp_path / folder}")
        return Start(declared, settings, layers, "up").leases()

    with leases("first", *LAYERS), leases("copy", "bronze", "silver"):
        copy = leases("copy", "gold")
        with pytest.raises(LeaseHeldError, match=r"publish\.files is being written by up"):
            copy.__enter__()
    shutil.rmtree(export)
    export.write_text("no folder")
    with leases("copy", *LAYERS):
        pass  # its publication fails by itself, and the other queries go on


def can_be_acquired(layout: Layout) -> bool:
    """Whether another process could write silver now."""
    try:
        with TableLeases(layout, ["silver.quakes"], "standby"):
            return True
    except LeaseHeldError:
        return False


def resting(*, is_at_rest: bool = True) -> Any:
    """Stands for a supervisor whose queries have ended."""
    return SimpleNamespace(is_at_rest=is_at_rest)


@pytest.mark.parametrize(
    ("is_at_rest", "catalog", "is_working", "is_free"),
    [
        (True, "none", False, True),
        (False, "none", False, False),
        (True, "session", False, False),
        (True, "none", True, False),
    ],
    ids=["at rest", "a query was stopped inside a micro-batch", "Spark has a metastore", "a command works"],
)
def test_leases_are_free_before_spark_ends_where_nothing_can_write_any_more(  # a case
    pipeline: Pipeline, tmp_path: Path, *, is_at_rest: bool, catalog: str, is_working: bool, is_free: bool
) -> None:
    settings = make_settings(tmp_path, "localhost:1", f"catalog={catalog}")
    layout, channel = Layout.of(pipeline, settings), Channel("")
    with TableLeases(layout, ["silver.quakes"], "up") as leases, ExitStack() as works:
        with job._released_at_rest(leases, resting(is_at_rest=is_at_rest), channel, settings):
            if is_working:
                works.enter_context(channel._busy)
            assert not can_be_acquired(layout)
        assert can_be_acquired(layout) is is_free
        assert channel._refusal({"version": VERSION, "pipeline": ""}) == "it is stopping"
    assert can_be_acquired(layout)


def test_after_an_error_leases_are_held_until_spark_has_ended(pipeline: Pipeline, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "localhost:1")
    layout = Layout.of(pipeline, settings)
    with TableLeases(layout, ["silver.quakes"], "up") as leases:
        with pytest.raises(BrokerError), job._released_at_rest(leases, resting(), None, settings):
            raise BrokerError("the broker has ended")
        assert not can_be_acquired(layout)
    assert can_be_acquired(layout)


class _Told:
    """Stands for wiring and supervisor: notes what is started, in order."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.gate = pipeline, Gate()
        self.started: list[tuple[str, bool]] = []

    def stopped(self, layers: object) -> set[str]:
        return set()

    def await_sources(self, layers: object, **_: object) -> list[str]:
        return []

    def has_begun(self, stream: object) -> bool:
        return True

    def judge(self, layers: tuple[Layer, ...], *, only: str | None, with_publications: bool) -> None:
        assert self.started == []
        assert (only, with_publications) == (None, "gold" in layers)

    def streams(self, layer: str) -> str:
        return layer

    def publications(self) -> str:
        return "publications"

    def start(self, streams: str, *, available_now: bool = False, when: object = None) -> None:
        self.started.append((streams, available_now))

    def run(self) -> None:
        self.started.append(("run", True))


def test_publications_run_beside_gold_or_once_it_is_done(pipeline: Pipeline) -> None:
    """With ``--available-now`` they begin when gold is done: its last rows would else wait for a next run."""
    published = replace(pipeline, publish=[Publish("x", reads="silver.quakes", to=ConsoleSink())])

    def opened(declared: Pipeline, *layers: Layer) -> tuple[job.Job, _Told]:
        told = _Told(declared)
        return job.Job(layers, told, told, StopSignal()), told  # type: ignore[arg-type]

    one, told = opened(published, "silver", "gold")
    one.start()
    assert told.started == [("silver", False), ("gold", False), ("publications", False)]
    one, told = opened(published, "gold")
    one.start(available_now=True)
    assert told.started == [("gold", True)]
    one.publish()
    assert told.started == [("gold", True), ("publications", True), ("run", True)]
    for declared, layer in ((published, "silver"), (pipeline, "gold")):
        one, told = opened(declared, layer)  # type: ignore[arg-type]
        one.publish()
        assert told.started == []
    one, told = opened(published, "gold")
    one.stop.request()
    one.publish()
    assert told.started == []


def test_a_broker_that_does_not_answer_is_told_by_its_address(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_REACH_SECONDS", 1.0)
    address = f"127.0.0.1:{processes.free_port()}"
    settings = load_settings(overrides=[f"data_dir={tmp_path}", f"kafka.bootstrap_servers={address}"])
    opening = open_broker(pipeline, settings)
    with pytest.raises(BrokerError, match=f"No Kafka broker answered at {address} within 1 s"):
        opening.__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with exit code 0"), (3, "ended with exit code 3"), (-9, "was ended by signal 9 (SIGKILL)")],
)
def test_how_a_process_ended_is_told_in_words(code: int, words: str) -> None:
    assert processes.describe_exit(code) == words


@pytest.mark.parametrize(
    ("code", "what"),
    [(56, "It was paused for longer than"), (-9, "spark.driver_memory")],
)
def test_a_jvm_that_ended_is_told_with_what_to_change(code: int, what: str) -> None:
    told = str(job._ended(code, Path("up.jvm.log")))
    assert told.startswith(
        f"Spark's JVM failed: it {processes.describe_exit(code)} while the job was running. "
    )
    assert what in told
    assert told.endswith("replays the micro-batch that was running")


@pytest.mark.parametrize(("code", "exit_code"), [(4, 4), (1, 1), (0, 1), (-9, 1)])
def test_a_separate_job_that_ends_gives_the_run_its_exit_code(code: int, exit_code: int) -> None:
    """A job that merely ended was not asked to: that is an error as well."""
    failure = _failure("silver", code)
    assert failure.exit_code == exit_code
    assert str(failure).startswith(f"the silver job failed: it {processes.describe_exit(code)}; ")


def test_a_view_begins_with_the_first_rows_of_any_of_its_tables(tmp_path: Path) -> None:
    """Other kinds have no row without one of the table that they read."""
    view = View("both", sql="select id from silver.a union all select id from silver.b")
    declared = Pipeline("p", bronze=[Topic("t")], gold=[view, _upsert("one"), _upsert("other")])
    settings = make_settings(tmp_path, "none:1")
    layout = Layout.of(declared, settings)
    wiring = Wiring(cast("Any", None), declared, settings, layout, "")
    for table, ids in (("silver.a", []), ("silver.b", [1])):
        write_deltalake(layout.table_path(table), pa.table({"id": pa.array(ids, pa.int64())}))

    def stream(table: str) -> Stream:
        nothing = cast("Any", None)
        return Stream("p", table, nothing, nothing, layout.checkpoint_path(table), "1 second")

    begun = {gold.table: wiring.has_begun(stream(gold.table)) for gold in declared.gold}
    assert begun == {"gold.both": True, "gold.one": False, "gold.other": True}


def _upsert(name: str) -> Upsert:
    reads = {"one": "silver.a", "other": "silver.b"}[name]
    return Upsert(name, reads=reads, key=["id"], newest_by=["id"])
