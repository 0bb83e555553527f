"""Fixtures: one Spark session and one broker for the whole run, and a function that runs a pipeline."""

from __future__ import annotations

import gc
import itertools
import os
import platform
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import hypothesis
import pytest
from confluent_kafka import Producer

from common.config.driver_limits import DriverLimits
from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import Message, Pipeline
from tests.runs.shards import DEALT, shard_of_part, shards_of
from tests.runs.time_left import add_stop_after, fail_without_time
from tests.support.documents import printed_documents as documents
from tests.support.heap import release_tables
from tests.support.run_cost import RunCost

if TYPE_CHECKING:
    from common.spark.session import Compiled
    from orchestration.author.cases.session import CaseSession

_counter = itertools.count()
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")

# The tests must not depend on settings in the user's environment.
for _name in [name for name in os.environ if name.startswith("MEDALLION_") and "JARS__" not in name]:
    del os.environ[_name]


KINDS = ("unit", "spark", "spec", "pipeline", "broker", "process", "chaos")
"""Folders of the tests, by what a test may start: no JVM, a session, its queries, the broker, commands."""

_WITHOUT_SPARK = ("unit", "process", "chaos")
_MUST_NOT_USE = {"unit": {"spark", "broker"}, "spark": {"broker"}, "spec": {"broker"}, "pipeline": {"broker"}}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``tests/runs``."""
    parser.addoption("--budget", metavar="SECONDS", help="fail if the run takes more CPU seconds")
    parser.addoption("--first", metavar="FOLDERS", help="begin with tests below folders of these names")
    parser.addoption(
        "--draws", metavar="NUMBER", help="examples of a drawn test that sets no number; unset: 100"
    )
    parser.addoption(
        "--optimize", action="store_true", help="optimize Spark's code fully: pays off in long runs"
    )
    add_stop_after(parser)
    parser.addoption("--shard", metavar="NUMBER", help="only the files of this shard of the long tests")


def pytest_configure(config: pytest.Config) -> None:
    """Measure the cost of the run; register the product's plugin where its entry point is not installed."""
    # A drawn example may take long on a machine that is busy; no test fails by the clock.
    draws = config.getoption("--draws")
    number = {"max_examples": int(draws)} if draws else {}
    hypothesis.settings.register_profile("any machine", deadline=None, **number)
    hypothesis.settings.load_profile("any machine")
    config.pluginmanager.register(RunCost(config), "run_cost")
    from orchestration.author.cases import pytest_plugin

    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin, "medallion")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Set marks by folder and fixtures; workers begin with the kinds of tests that take longest."""
    for item in items:
        file = item.path.relative_to(Path(__file__).parent)
        kind, fixtures = file.parts[0], set(getattr(item, "fixturenames", ()))
        wrong = fixtures & _MUST_NOT_USE.get(kind, set())
        if kind not in KINDS or wrong:
            raise pytest.UsageError(f"{item.nodeid}: a test in tests/{kind} must not use {sorted(wrong)}")
        is_drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        for mark in {kind, *(fixtures & {"spark", "broker"}), *(["drawn"] if is_drawn else [])}:
            item.add_marker(mark)
    if shard := config.getoption("--shard"):
        found = shards_of(file_of(item) for item in items if is_long(item))
        others = [item for item in items if shard_of(item, found) != int(shard)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if shard_of(item, found) == int(shard)]
    if _WORKER:
        items[:] = mixed(items)
    if first := config.getoption("--first"):
        items.sort(key=lambda item: not set(first.split(",")).intersection(item.path.parts))


def pytest_collection_finish() -> None:
    """Nothing that is loaded by now is looked at again by a garbage collection, which takes 0.3 s with it."""
    gc.freeze()


def file_of(item: pytest.Item) -> str:
    """The file of a test, from the folder of the tests on."""
    return item.path.relative_to(Path(__file__).parents[1]).as_posix()


def shard_of(item: pytest.Item, shards: Mapping[str, int]) -> int | None:
    """The shard that runs a test, by the shards of the files; None if no shard does."""
    file, call = file_of(item), getattr(item, "callspec", None)
    if file in DEALT and call is not None:
        return shard_of_part(call.params["part"])
    return shards.get(file)


def is_long(item: pytest.Item) -> bool:
    """Whether a shard runs the test, after the marks are set."""
    return any(item.get_closest_marker(mark) for mark in ("long", "drawn"))


def mixed(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Tests that wait for processes, evenly among those that compute: all cores have work at all times.

    The tests of a file stay together. Unit tests, which are short, come last: the workers end together.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting, computing, last = [], [], []
    for file, found in files.items():
        kind = file.relative_to(Path(__file__).parent).parts[0]
        (last if kind == "unit" else waiting if kind in _WITHOUT_SPARK else computing).append(found)
    groups = waiting, computing
    both = [(place / len(group), found) for group in groups for place, found in enumerate(group)]
    both.sort(key=lambda each: each[0])
    return [item for found in [*(found for _, found in both), *last] for item in found]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test for which the run has no time left."""
    fail_without_time(item)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Versions of the main libraries and the machine, for the analysis of a failure."""
    import delta  # noqa: F401
    import deltalake
    import pyspark

    versions = (
        f"pyspark {pyspark.__version__}, deltalake {deltalake.__version__}, duckdb {duckdb.__version__}"
    )
    draws = config.getoption("--draws")
    return [
        f"{versions}, {platform.machine()} x{os.cpu_count()}",
        f"drawn tests: {draws or 100} examples where the test sets no number",
    ]


@pytest.fixture(scope="session", autouse=True)
def look_at_documents() -> Iterator[None]:
    """What commands print with ``--json`` in this process is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        documents.listen(patch)
        yield


@pytest.fixture(autouse=True)
def print_listed_documents() -> Iterator[None]:
    """Fail a test in which a command has printed JSON of another form than docs/reference/json.md lists."""
    yield
    assert documents.taken() == []


@pytest.fixture
def heeds_hangup() -> Iterator[None]:
    """SIGHUP has its usual effect, in this process and what it starts, also in a run under ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def session_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for the files of the broker and of the session."""
    return tmp_path_factory.mktemp("session")


@pytest.fixture(scope="session")
def broker_settings(session_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings whose data folder contains the run's broker; all workers share the broker."""
    folder = tmp_path_factory.getbasetemp().parent if _WORKER else session_dir
    overrides = [f"data_dir={folder}", "kafka.heap_mb=256", "kafka.start_timeout_seconds=300"]
    return load_settings(file=_empty(session_dir), overrides=overrides)


@pytest.fixture(scope="session")
def broker(broker_settings: Settings) -> Iterator[str]:
    """Address of a real Kafka broker."""
    from orchestration.access.embedded_broker import lifecycle as embedded

    with embedded.start(broker_settings) as running:
        yield running.bootstrap_servers


SESSION = (
    # Tests have tens of rows: a second core and a second partition only add tasks.
    "spark.master=local[1]",
    "spark.shuffle_partitions=1",
    "spark.driver_memory=1g",
    "spark.state_store=memory",
    "spark.fsync=false",
    # A hundred rows are processed before compiled code pays off; tests of processes compile as usual.
    "spark.conf.spark.sql.codegen.wholeStage=false",
    "spark.conf.spark.sql.codegen.factoryMode=NO_CODEGEN",
    "spark.conf.spark.sql.streaming.pollingDelay=5ms",
)
"""Settings of the session of all tests."""


@pytest.fixture(scope="session")
def spark(session_dir: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A real Spark session with the engine's own settings, small and quick to compile."""
    from common.spark.session import build_session

    settings = load_settings(
        file=_empty(session_dir),
        overrides=SESSION,
    )
    compiled: Compiled = "all" if request.config.getoption("--optimize") else "quickly"
    session = build_session(settings, "tests", session_dir / "log", compiled=compiled)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def release_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """At the end of a module, release the memory of its tables and plans in the session's JVM."""
    yield
    if request.path.relative_to(Path(__file__).parent).parts[0] in _WITHOUT_SPARK:
        return
    release_tables()


@pytest.fixture(scope="session")
def new_topic(broker: str) -> Callable[[], str]:
    """A function that creates a topic with three partitions and a unique name."""
    from orchestration.access.kafka import client as kafka

    def make() -> str:
        name = f"topic_{_WORKER}{next(_counter)}"
        kafka.ensure_topics(broker, [name], 3, {})
        return name

    return make


@pytest.fixture
def topic(new_topic: Callable[[], str]) -> str:
    """A new topic with three partitions."""
    return new_topic()


@pytest.fixture(scope="session")
def send(broker: str) -> Callable[[str, Sequence[Message]], None]:
    """A function that produces messages in order and waits until the broker has all of them."""

    def produce(to: str, messages: Sequence[Message]) -> None:
        producer = Producer(
            {"bootstrap.servers": broker, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
        )
        failures: list[object] = []
        for message in messages:
            producer.produce(
                to,
                key=message.key,
                value=message.value,
                on_delivery=lambda error, _: error and failures.append(error),
            )
        assert producer.flush(60) == 0
        assert failures == []

    return produce


IN_DRIVER = DriverLimits(1_000, 10_000, fsync=False)


@pytest.fixture
def settings(tmp_path: Path, broker: str) -> Settings:
    """Settings with a data folder of the test's own, on the run's broker."""
    return make_settings(tmp_path, broker)


def make_settings(folder: Path, broker: str, *overrides: str) -> Settings:
    """Settings with the data folder ``folder/data`` and the given broker."""
    given = [f"data_dir={folder / 'data'}", f"kafka.bootstrap_servers={broker}", *overrides]
    return load_settings(file=_empty(folder), overrides=given)


def _empty(folder: Path) -> Path:
    file = folder / "medallion.yaml"
    file.touch()
    return file


def with_topic(pipeline: Pipeline, topic: str) -> Pipeline:
    """The pipeline, its one bronze table reading this topic."""
    return replace(pipeline, bronze=[replace(pipeline.bronze[0], topics=[topic])])


@pytest.fixture(scope="session")
def catch_up(spark: Any, broker: str) -> Callable[..., list[dict[str, Any]]]:
    """A function that runs layers over all available data and returns Spark's progress reports."""

    def run(
        pipeline: Pipeline, settings: Settings, layers: Sequence[str] = ("bronze", "silver", "gold")
    ) -> list[dict[str, Any]]:
        from orchestration.run.supervisor import StopSignal, Supervisor
        from orchestration.run.wiring import Wiring

        wiring = Wiring(spark, pipeline, settings, Layout.of(pipeline, settings), broker)
        reports: list[dict[str, Any]] = []
        for layer in layers:
            supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)
            supervisor.start(wiring.streams(layer), available_now=True)  # type: ignore[arg-type]
            supervisor.run()
            reports += [report for query in supervisor.queries for report in query.progress()]
        return reports

    return run


@pytest.fixture(scope="module")
def case_session(spark: Any) -> Iterator[CaseSession]:
    """Cases of pipelines in the run's session."""
    from orchestration.author.cases.session import cases_in

    with cases_in(spark) as opened:
        yield opened


@pytest.fixture
def read() -> Callable[..., list[dict[str, Any]]]:
    """A function that reads a table's rows as plain values, by delta-rs and without Spark."""

    def rows(pipeline: Pipeline, settings: Settings, table: str) -> list[dict[str, Any]]:
        from deltalake import DeltaTable

        path = Layout.of(pipeline, settings).table_path(table)
        found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
        return found

    return rows
