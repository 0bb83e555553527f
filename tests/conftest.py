"""One Spark session and one broker for the whole run, and a pipeline run over both."""

from __future__ import annotations

import gc
import itertools
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Producer

from common.config.driver_limits import NEVER, Small
from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import Message, Pipeline
from tests.support.run_cost import RunCost

_counter = itertools.count()
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")

# Settings of the person who runs the tests must not reach them.
for _name in [name for name in os.environ if name.startswith("MEDALLION_") and "JARS__" not in name]:
    del os.environ[_name]


KINDS = ("unit", "spark", "pipeline", "broker", "process", "chaos")
"""The folders of tests, by what a test may start: no JVM, a session, queries in it, the broker, commands."""

_MUST_NOT_USE = {"unit": {"spark", "broker"}, "spark": {"broker"}, "pipeline": {"broker"}}


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long a run is meant to take."""
    parser.addoption("--budget", metavar="SECONDS", help="the last line says so if the run takes longer")


def pytest_configure(config: pytest.Config) -> None:
    """Count what the run costs."""
    config.pluginmanager.register(RunCost(config), "run_cost")


@pytest.hookimpl(tryfirst=True)  # the distribution over workers reads the marks in this hook too
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks follow from the folder and from the fixtures; a worker gets whole files, the longest first."""
    for item in items:
        file = item.path.relative_to(Path(__file__).parent)
        kind, fixtures = file.parts[0], set(getattr(item, "fixturenames", ()))
        wrong = fixtures & _MUST_NOT_USE.get(kind, set())
        if kind not in KINDS or wrong:
            raise pytest.UsageError(
                f"{item.nodeid}: the folder tests/{kind} has no tests with {sorted(wrong)}"
            )
        for mark in {kind, *(fixtures & {"spark", "broker"})}:
            item.add_marker(mark)
        item.add_marker(pytest.mark.xdist_group(str(file)))
    if _WORKER:
        items.sort(key=lambda item: -KINDS.index(item.path.relative_to(Path(__file__).parent).parts[0]))


def pytest_report_header() -> list[str]:
    """What ran, for whoever reads a failure."""
    import delta  # noqa: F401
    import deltalake
    import pyspark

    versions = (
        f"pyspark {pyspark.__version__}, deltalake {deltalake.__version__}, duckdb {duckdb.__version__}"
    )
    return [f"{versions}, {platform.machine()} x{os.cpu_count()}"]


@pytest.fixture(scope="session")
def session_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the broker and the session keep what they write."""
    return tmp_path_factory.mktemp("session")


@pytest.fixture(scope="session")
def broker_settings(session_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings whose data folder holds the run's one broker, which workers share as jobs do."""
    folder = tmp_path_factory.getbasetemp().parent if _WORKER else session_dir
    return load_settings(file=_empty(session_dir), overrides=[f"data_dir={folder}", "kafka.heap_mb=256"])


@pytest.fixture(scope="session")
def broker(broker_settings: Settings) -> Iterator[str]:
    """Address of a real Kafka broker."""
    from orchestration.embedded_broker import lifecycle as embedded

    with embedded.start(broker_settings) as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="session")
def spark(session_dir: Path) -> Iterator[Any]:
    """A real Spark session with the engine's own settings, small and quick to compile."""
    from common.spark.session import build_session

    settings = load_settings(
        file=_empty(session_dir),
        overrides=[
            # Tests have tens of rows: a second core and a second partition only add tasks.
            "spark.master=local[1]",
            "spark.shuffle_partitions=1",
            "spark.driver_memory=1g",
            "spark.state_store=memory",
            "spark.fsync=false",
            # A hundred rows are done before a compiler has begun; jobs, kills and the demo compile as ever.
            "spark.conf.spark.sql.codegen.wholeStage=false",
            "spark.conf.spark.sql.codegen.factoryMode=NO_CODEGEN",
            "spark.conf.spark.sql.streaming.pollingDelay=5ms",
        ],
    )
    session = build_session(settings, "tests", session_dir / "log", compiled="quickly")
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def release_memory() -> Iterator[None]:
    """At the end of a module, what its tables and plans hold in the one session's JVM is released.

    Delta keeps a table's state for an hour after its last use: longer than a run has, of hundreds of tables.
    """
    yield
    gc.collect()  # frames in reference cycles of Python's keep their plans
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        if (context := SparkContext._active_spark_context) is not None and context._jvm is not None:
            delta_log: Any = context._jvm.org.apache.spark.sql.delta.DeltaLog
            delta_log.clearCache()


@pytest.fixture(scope="session")
def new_topic(broker: str) -> Callable[[], str]:
    """Makes a topic with three partitions and a name of its own."""
    from orchestration.kafka import client as kafka

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
    """Produce messages, in order, and wait until all are there."""

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


IN_DRIVER = Small(1_000, 10_000, fsync=False)


@pytest.fixture(params=["driver", pytest.param("executors", marks=pytest.mark.long)])
def small(request: pytest.FixtureRequest) -> Small:
    """Few rows are worked out in the driver, or like many by the executors: with the same result."""
    return IN_DRIVER if request.param == "driver" else NEVER


@pytest.fixture
def settings(tmp_path: Path, broker: str) -> Settings:
    """Settings of a pipeline of its own on the run's broker."""
    return make_settings(tmp_path, broker)


def make_settings(folder: Path, broker: str, *overrides: str) -> Settings:
    """Settings with a data folder of their own on the run's broker."""
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
    """Run layers of a pipeline over all that is there, and hand back Spark's progress reports."""

    def run(
        pipeline: Pipeline, settings: Settings, layers: Sequence[str] = ("bronze", "silver", "gold")
    ) -> list[dict[str, Any]]:
        from orchestration.jobs.supervisor import StopSignal, Supervisor
        from orchestration.jobs.wiring import Wiring

        wiring = Wiring(spark, pipeline, settings, Layout.of(pipeline, settings), broker)
        reports: list[dict[str, Any]] = []
        for layer in layers:
            supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)
            supervisor.start(wiring.streams(layer), available_now=True)  # type: ignore[arg-type]
            supervisor.run()
            reports += [report for query in supervisor.queries for report in query.progress()]
        return reports

    return run


@pytest.fixture
def read() -> Callable[..., list[dict[str, Any]]]:
    """Rows of a table as plain values, by delta-rs: no Spark between the table and the assertion."""

    def rows(pipeline: Pipeline, settings: Settings, table: str) -> list[dict[str, Any]]:
        from deltalake import DeltaTable

        path = Layout.of(pipeline, settings).table_path(table)
        found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
        return found

    return rows
