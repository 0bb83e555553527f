"""One process that runs some or all layers. It opens leases first, then the broker, Spark and the queries."""

from __future__ import annotations

import functools
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from common.config.durations import seconds_of
from common.config.paths import Layout, is_local
from common.config.settings import Settings
from common.declare import KafkaSink, Pipeline, Table
from common.delta.lease.job_leases import TableLeases
from common.errors import BrokerError, MedallionError, OutOfMemoryError, QueryFailedError, nearest
from common.machine import processes
from common.machine.console import awaited, say
from common.machine.file_modes import umask
from common.machine.files.free_space import FreeSpace
from common.spark import jvm
from common.spark.session import Compiled, build_session
from common.spark.shared_folders import require_shared_folders
from common.spark.table_catalog import TableCatalog
from gold.publish.published import lock_folders
from orchestration.access.channel.client import fingerprint
from orchestration.access.declaration.lineage import written_by
from orchestration.access.embedded_broker import lifecycle as broker
from orchestration.access.history.catalog_state import forget_entries
from orchestration.access.history.job_state import Killed
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.topic_state import topic_ids
from orchestration.observe.catalog.names import names
from orchestration.observe.catalog.registrar import Registrar, registering
from orchestration.observe.lineage.reporter import Reporter
from orchestration.records.expiry.regular import RegularExpiry
from orchestration.records.expiry.regular import running as expiring
from orchestration.run import topic_checks
from orchestration.run.background_maintenance import BackgroundMaintenance
from orchestration.run.background_maintenance import running as maintaining
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.failures.table_failures import TableFailures
from orchestration.run.quality_gates import QualityGates
from orchestration.run.recorder import Recorder, recording
from orchestration.run.serving.channel import Channel, serving
from orchestration.run.serving.commands import Commands
from orchestration.run.supervisor import StopSignal, Supervisor, term_interrupts
from orchestration.run.wiring import LAYERS, Layer, Wiring

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REACH_SECONDS = 15.0
_GONE_SECONDS = 5.0
_OUT_OF_MEMORY = 3
"""Exit code of a JVM under ``-XX:+ExitOnOutOfMemoryError``, and a line in its output."""
_NO_HEARTBEAT = 56
"""Spark's exit code of an executor whose heartbeats fail."""

_OUT_OF_MEMORY_LINE = "Terminating due to java.lang.OutOfMemoryError"


@dataclass(frozen=True)
class Job:
    """A process that holds its leases, with Spark and the broker running for its queries."""

    layers: tuple[Layer, ...]
    wiring: Wiring
    supervisor: Supervisor
    stop: StopSignal
    gates: QualityGates | None = None
    only: str | None = None  # the table whose query alone a backfill runs; None: all queries of the layers
    commands: Channel | None = None  # what commands ask, if the job does their work

    @awaited("the start of the queries")
    def start(self, *, available_now: bool = False) -> None:
        """Start the queries of all layers, in data order."""
        if not self.stop.is_requested():
            self.wiring.judge(self.layers, only=self.only, with_publications="gold" in self.layers)
        if not available_now:
            self.supervisor.gate.held.update(self.wiring.stopped(self.layers))
        for layer in self.layers:
            # After a stop during the wait, the tables that the queries read may not exist.
            if self.stop.is_requested():
                return
            when = None if available_now else self.wiring.has_begun
            self.supervisor.start(self.wiring.streams(layer), available_now=available_now, when=when)
        if "gold" in self.layers and not available_now and not self.stop.is_requested():
            self.supervisor.start(self.wiring.publications(), when=self.wiring.has_begun)

    @contextmanager
    def maintenance(self) -> Iterator[None]:
        """Compact the tables that the queries write, delete their old files and expired records, inside the
        block.
        """
        settings, wiring = self.wiring.settings, self.wiring
        if settings.maintenance.cpu_share == 0:
            yield
            return
        maintenance = BackgroundMaintenance(
            wiring.pipeline,
            wiring.layout,
            [table for layer in self.layers for table in wiring.tables(layer)],
            turns=self.supervisor.turns,
            settings=settings.maintenance,
            limits=settings.driver_limits,
        )
        expiry = RegularExpiry(
            wiring.pipeline,
            wiring.layout,
            maintenance.tables,
            self.supervisor.turns,
            seconds_of(settings.maintenance.delete_every),
            settings.gold.accept_commits,
        )
        with maintaining(maintenance, wiring.spark), expiring(expiry, wiring.spark):
            yield

    @contextmanager
    def channel(self) -> Iterator[None]:
        """Do the work of commands that ask for it, inside the block."""
        if self.commands is None:
            yield
            return
        self.commands.begin(self.wiring.spark, Commands(self.wiring, self.supervisor).operations())
        try:
            yield
        finally:
            self.commands.end()

    def judge(self) -> None:
        """Evaluate the gates of quality suites on the newest versions, where the job has ended its work.

        Raises:
            QualityFailedError: A suite with a gate failed, or a gate stopped a query.
        """
        if self.gates is not None:
            self.gates.judge(evaluate=not self.stop.is_requested())

    def publish(self) -> None:
        """Publish the rows that the tables have now, then end. Call it after gold's queries have ended.

        Raises:
            MedallionError: What tells of all queries of the job that have failed.
        """
        if "gold" in self.layers and self.wiring.pipeline.publish and not self.stop.is_requested():
            self.supervisor.start(self.wiring.publications(), available_now=True)
            self.supervisor.run()

    def outcome(self, *, publishes: bool) -> MedallionError | None:
        """What tells of all queries that have failed in a run with an end; None where none has.

        Args:
            publishes: Whether the rows that the tables have now are published first.
        """
        try:
            if publishes:
                self.publish()
        except MedallionError as failure:
            return failure
        return self.supervisor.outcome()


@dataclass(frozen=True)
class Start:
    """The start of a job."""

    pipeline: Pipeline
    settings: Settings
    layers: tuple[Layer, ...]
    name: str  # the job's name in leases, in what it records, and in log files
    only: str | None = None  # a table of these layers: the job holds the leases of this table's query alone
    # Fingerprint of the pipeline file, if the job does the work of commands; None if not.
    asked_about: str | None = None
    is_standby: bool = False  # whether the process waits for the leases before

    @functools.cached_property
    def layout(self) -> Layout:
        """Where tables and checkpoints are."""
        return Layout.of(self.pipeline, self.settings)

    @property
    def tables(self) -> tuple[str, ...]:
        """What the job writes, and holds leases of."""
        if self.only is None:
            return written_tables(self.pipeline, self.layers)
        return tuple(written_by(self.pipeline.table(self.only)))

    def leases(self) -> TableLeases:
        """The leases of the job, to be acquired."""
        publishes = "gold" in self.layers and self.only is None
        published = lock_folders(self.pipeline.publish) if publishes else {}
        return TableLeases(self.layout, self.tables, self.name, self.settings.lease_seconds, published)

    def job(
        self,
        stack: ExitStack,
        leases: TableLeases,
        session: AbstractContextManager[SparkSession],
        killed: Killed | None = None,
    ) -> Job:
        """The job, ready to start, in a process that holds its leases; the stack closes what it opens.

        Args:
            killed: The process of another host that it goes on after, if that one was killed.

        Raises:
            BrokerError: The broker cannot be reached, or a topic is missing.
        """
        pipeline, settings, layout = self.pipeline, self.settings, self.layout
        commands = None if self.asked_about is None else Channel(self.asked_about)
        if commands is not None:
            stack.enter_context(serving(commands, layout.channel))
        address = _enter_broker(stack, pipeline, settings, self.layers)
        spark = stack.enter_context(session)
        _name_jvm(leases, spark)
        settings = _with_listeners(spark, pipeline, settings)
        require_shared_folders(spark, layout.warehouse, *layout.checkpoint_roots, *layout.locations.values())
        stop = stack.enter_context(StopSignal().installed())
        lost_broker = functools.partial(_lost_broker, pipeline, settings, address.result())
        failures = TableFailures.of(pipeline)
        supervisor = _supervisor(spark, stop, settings, layout, leases, lost_broker, failures)
        stack.enter_context(_released_at_rest(leases, supervisor, commands, settings))
        wiring = Wiring(spark, pipeline, settings, layout, address.result(), failures=failures)
        # It ends before Spark does, whose queries it looks at.
        recorder = Recorder(
            pipeline,
            wiring.settings,
            layout,
            self.name,
            supervisor,
            is_standby=self.is_standby,
            killed=killed,
        )
        recorder.lineage = lineage_of(wiring)
        stack.enter_context(recording(recorder))
        stack.enter_context(_registered(wiring, self.layers, self.name))
        if "bronze" in self.layers:
            stack.enter_context(_watched_topics(wiring, supervisor))
        gates = stack.enter_context(QualityGates(wiring, supervisor, self.layers).running())
        return Job(self.layers, wiring, supervisor, stop, gates, self.only, commands)


@contextmanager
def open_job(  # noqa: PLR0913  # what a job is
    pipeline: Pipeline,
    settings: Settings,
    layers: Sequence[Layer] = LAYERS,
    *,
    name: str,
    compiled: Compiled = "all",
    only: str | None = None,
    is_asked: bool = False,
) -> Iterator[Job]:
    """A job that is ready to start; everything it opens is closed at the end, in reverse order.

    Args:
        layers: The layers to run; the job holds the leases of all tables that these layers write.
        name: The job's name in leases and log files.
        compiled: Which code Spark's JVM compiles with full optimization.
        only: A table of these layers: the job holds the leases of this table's query alone.
        is_asked: The job does the work of commands (``Job.channel``). Those that come while it starts wait.

    Raises:
        BrokerError: The broker cannot be reached, or a topic is missing.
        LeaseHeldError: Another process writes one of the tables.
        OutOfMemoryError: Spark's JVM ended because its heap was full.
        QueryFailedError: Spark's JVM ended while the job was running.
        SetupError: Java, a jar or the broker is missing.
        UsageError: The job is to write a table that its sandbox only reads.
    """
    start = Start(
        pipeline, settings, tuple(layers), name, only, fingerprint(settings.pipeline) if is_asked else None
    )
    start.layout.require_own(start.tables)
    with ExitStack() as stack:
        stack.enter_context(term_interrupts())
        stack.enter_context(umask(settings.umask))
        leases = stack.enter_context(start.leases())
        session = announced_session(settings, start.layout, name, compiled)
        yield start.job(stack, leases, session)


def _enter_broker(
    stack: ExitStack, pipeline: Pipeline, settings: Settings, layers: Sequence[Layer]
) -> Future[str]:
    """The address of the broker, which may still start; empty where these layers need none."""
    address: Future[str] = Future()
    if not needs_broker(pipeline, layers):
        address.set_result("")
    elif kafka.named_broker(pipeline, settings) is None and not (  # a taken port fails before Spark's start
        settings.kafka.port or settings.kafka.controller_port
    ):
        address = stack.enter_context(_enter_in_background(open_broker(pipeline, settings)))
    else:
        address.set_result(stack.enter_context(open_broker(pipeline, settings)))
        if kafka.named_broker(pipeline, settings) is not None:
            require_topics(pipeline, settings, address.result())
    return address


def _with_listeners(spark: SparkSession, pipeline: Pipeline, settings: Settings) -> Settings:
    """Add the pipeline's listeners to a session; the settings with the master that it has."""
    for listener in pipeline.listeners:
        spark.streams.addListener(listener)
    return settings.with_master(str(spark.sparkContext.master))


def needs_broker(pipeline: Pipeline, layers: Sequence[Layer]) -> bool:
    """Whether these layers read topics, or publish to topics of the pipeline's broker."""
    reads = "bronze" in layers and bool(pipeline.topics)
    return reads or ("gold" in layers and bool(sinks_on_pipeline_broker(pipeline)))


def _supervisor(  # noqa: PLR0913, PLR0917  # a supervisor and what it watches
    spark: SparkSession,
    stop: StopSignal,
    settings: Settings,
    layout: Layout,
    leases: TableLeases,
    lost_broker: Callable[[], BrokerError | None],
    failures: TableFailures,
) -> Supervisor:
    supervisor = Supervisor(
        spark,
        stop,
        stop_timeout_seconds=settings.stop_timeout_seconds,
        policy=RestartPolicy.of(settings.supervision),
        states=layout.query_states,
        broker_failure=lost_broker,
        failures=failures,
    )
    supervisor.gate.free_space = _free_space(settings, layout)
    supervisor.gate.lost_lease = leases.lost
    return supervisor


@contextmanager
def _released_at_rest(
    leases: TableLeases, supervisor: Supervisor, commands: Channel | None, settings: Settings
) -> Iterator[None]:
    """Release the leases at the end of the block where nothing of this process can write any more.

    A standby goes on from there, while Spark ends. After an error, after a query that was stopped inside a
    micro-batch, and while the work of a command is under way, the leases are held until Spark has ended. So
    they are with a catalog: a metastore on this disk has one process at a time.
    """
    yield
    if commands is not None:
        commands.end()  # no work of a command begins after the look
    is_working = commands is not None and commands.is_working
    if supervisor.is_at_rest and not is_working and settings.catalog == "none":
        leases.release()


def lineage_of(wiring: Wiring) -> Reporter | None:
    """Sends the lineage of a job's queries; None where no setting names a receiver.

    Raises:
        SettingsError: The transport does not fit, or its package is missing.
    """
    if wiring.settings.lineage.openlineage is None:
        return None
    return Reporter(wiring.pipeline, wiring.settings, wiring.layout, wiring.bootstrap_servers)


def _free_space(settings: Settings, layout: Layout) -> FreeSpace:
    """The local disks that the queries of a job write to."""
    folders = (layout.warehouse, *layout.checkpoint_roots, *layout.locations.values(), str(layout.local))
    return FreeSpace([folder for folder in folders if is_local(folder)], settings.min_free_mb)


@contextmanager
def session_of(settings: Settings, layout: Layout, name: str, compiled: Compiled) -> Iterator[SparkSession]:
    """A session that ends with the block; its log files have the name."""
    spark = build_session(settings, name, layout.log, compiled=compiled)
    with _stop_at_end(spark, jvm.output_file(layout.log, name), settings.spark.driver_memory):
        yield spark


@contextmanager
def announced_session(
    settings: Settings, layout: Layout, name: str, compiled: Compiled
) -> Iterator[SparkSession]:
    """As ``session_of``; says that Spark has started."""
    began = time.monotonic()
    with session_of(settings, layout, name, compiled) as spark:
        took = f"{time.monotonic() - began:.1f} s"
        say(f"Spark {spark.version} on {spark.sparkContext.master}, started in {took}")
        yield spark


def _name_jvm(leases: TableLeases, spark: SparkSession) -> None:
    """Have the leases name the process of the JVM, which writes the tables."""
    if (child := jvm.process(spark)) is not None:
        leases.record_jvm(child.pid)


@contextmanager
def _registered(wiring: Wiring, layers: Sequence[Layer], name: str) -> Iterator[None]:
    """Register the tables that the job writes in the catalog of the settings, inside the block."""
    settings, layout, kind = wiring.settings, wiring.layout, wiring.settings.catalog
    if kind == "none":
        forget_entries(layout.catalog, name)
        yield
        return
    registrar = Registrar(
        list(names(wiring.pipeline, settings, layout, layers)),
        lambda: TableCatalog.open(wiring.spark, kind, str(layout.local / "metastore")),
        layout.catalog,
        name,
    )
    with registering(registrar):
        yield


@contextmanager
def _watched_topics(wiring: Wiring, supervisor: Supervisor) -> Iterator[None]:
    """Stop the queries if a topic that they read is deleted or created again."""
    pipeline, settings = wiring.pipeline, wiring.settings
    declared = {topic.table: topic for topic in pipeline.topics}

    def lookup(table: str, names: Sequence[str]) -> Mapping[str, str]:
        options = kafka.client_options(settings, pipeline, declared[table])
        return topic_ids(wiring.bootstrap_servers, names, options)

    watch = topic_checks.TopicWatch(wiring.topics, lookup)
    supervisor.watch = watch.failure
    with watch.running():
        yield


@contextmanager
def spark_for_writing(
    pipeline: Pipeline,
    settings: Settings,
    tables: Sequence[str],
    *,
    name: str,
    require: Callable[[], object] = lambda: None,
) -> Iterator[SparkSession]:
    """Spark for a command that writes these tables itself; the jobs that write them must be stopped.

    Args:
        tables: The tables whose leases the command holds.
        name: The command's name in leases and log files.
        require: Raises what refuses the command, once it holds the leases and before Spark starts.

    Raises:
        LeaseHeldError: Another process writes one of the tables.
        OutOfMemoryError: Spark's JVM ended because its heap was full.
        QueryFailedError: Spark's JVM ended while the command was running.
        SetupError: Java or a jar is missing.
        UsageError: The command is to write a table that its sandbox only reads.
    """
    layout = Layout.of(pipeline, settings)
    layout.require_own(tables)
    with ExitStack() as stack:
        stack.enter_context(term_interrupts())
        stack.enter_context(umask(settings.umask))
        leases = stack.enter_context(TableLeases(layout, tables, name, settings.lease_seconds))
        require()
        spark = stack.enter_context(session_of(settings, layout, name, "rows"))
        _name_jvm(leases, spark)
        yield spark


@contextmanager
def spark_for_reading(pipeline: Pipeline, settings: Settings, *, name: str) -> Iterator[SparkSession]:
    """Spark for a command that writes no table and may run beside the jobs.

    Raises:
        OutOfMemoryError: Spark's JVM ended because its heap was full.
        QueryFailedError: Spark's JVM ended while the command was running.
        SetupError: Java or a jar is missing.
    """
    with spark_for_writing(pipeline, settings, (), name=name) as spark:
        yield spark


def _lost_broker(pipeline: Pipeline, settings: Settings, address: str) -> BrokerError | None:
    """The error for an embedded broker that this job uses and that has ended; None for any other broker."""
    is_embedded = bool(address) and kafka.named_broker(pipeline, settings) is None
    return broker.death(settings) if is_embedded else None


@contextmanager
def _enter_in_background(opening: AbstractContextManager[str]) -> Iterator[Future[str]]:
    """Enter a context manager in a background thread; its value comes as a future."""
    with ThreadPoolExecutor(1) as pool:
        entered = pool.submit(opening.__enter__)
        try:
            yield entered
        finally:
            if entered.exception() is None:
                opening.__exit__(None, None, None)


@contextmanager
def open_broker(pipeline: Pipeline, settings: Settings, *, new_topics: Collection[str] = ()) -> Iterator[str]:
    """The address of the pipeline's broker: a named one, or the embedded one with the topics created.

    Args:
        new_topics: Topics that the embedded broker may create although bronze has read a topic of that name.

    Raises:
        BrokerError: The named broker does not answer. Spark would wait for it without any message.
        TopicChangedError: The embedded broker lacks a topic that bronze has read.
    """
    named = kafka.named_broker(pipeline, settings)
    if named is not None:
        options = kafka.client_options(settings, pipeline, next(iter(pipeline.topics), None))
        kafka.wait_reachable(named, options, _REACH_SECONDS)
        say(f"Kafka at {named}")
        yield named
        return
    with broker.start(settings) as embedded:
        address = embedded.bootstrap_servers
        read = {name for topic in pipeline.topics for name in topic.topic_names}
        receipts = {topic.receipts for topic in pipeline.topics if topic.receipts}
        topics = sorted(read | receipts | {sink.topic for sink in sinks_on_pipeline_broker(pipeline)})
        missing = set(kafka.missing_topics(address, topics, {})) - set(new_topics)
        topic_checks.refuse_deleted(pipeline, Layout.of(pipeline, settings), missing, address)
        created = kafka.ensure_topics(address, topics, settings.kafka.partitions, {})
        say(f"embedded Kafka at {address}" + (f", created {', '.join(created)}" if created else ""))
        yield address


def require_topics(pipeline: Pipeline, settings: Settings, address: str) -> None:
    """Check that the broker has every topic that the pipeline names; topics of a pattern may come later.

    Raises:
        BrokerError: A topic is missing; names the topic, the most similar one, and the command to create it.
        TopicChangedError: A topic that bronze has read is missing.
    """
    for topic in pipeline.topics:
        options = kafka.client_options(settings, pipeline, topic)
        missing = kafka.missing_topics(address, topic.topic_names, options)
        topic_checks.refuse_deleted(pipeline, Layout.of(pipeline, settings), missing, address)
        for name in missing:
            near = nearest(name, kafka.topic_names(address, options))
            raise BrokerError(
                f"{topic.table}: topic {name} does not exist at {address}, or this user may not see it "
                f"({near}). Correct the name in the pipeline, or create the topic with the partitions that "
                f"you want: kafka-topics.sh --bootstrap-server {address} --create --topic {name} "
                "--partitions 2"
            )
    options = kafka.client_options(settings, pipeline)
    wanted = [sink.topic for sink in sinks_on_pipeline_broker(pipeline)]
    for name in kafka.missing_topics(address, wanted, options) if wanted else ():
        raise BrokerError(
            f"topic {name}, which rows are published to, does not exist at {address}, or this user may not "
            f"see it. Create it: kafka-topics.sh --bootstrap-server {address} --create --topic {name}"
        )


def sinks_on_pipeline_broker(pipeline: Pipeline) -> tuple[KafkaSink, ...]:
    """The Kafka sinks on the broker that the pipeline reads from."""
    sinks = (publish.to for publish in pipeline.publish)
    return tuple(s for s in sinks if isinstance(s, KafkaSink) and "bootstrap.servers" not in s.kafka)


def layers_to_run(settings: Settings) -> tuple[Layer, ...]:
    """The layers of a job that runs all of them: a sandbox has no bronze of its own."""
    return LAYERS if settings.sandbox_source is None else ("silver", "gold")


def written_queries(pipeline: Pipeline, layers: Sequence[Layer]) -> tuple[str, ...]:
    """The names of the queries of these layers: the tables that they write, and the publications."""
    side = {name for table in pipeline.tables for name in table.side_tables}
    return tuple(name for name in written_tables(pipeline, layers) if name not in side)


def written_tables(pipeline: Pipeline, layers: Sequence[Layer]) -> tuple[str, ...]:
    """The tables that these layers write, with their side tables, and the publications."""
    groups: dict[Layer, Sequence[Table]] = {
        "bronze": pipeline.bronze,
        "silver": pipeline.silver,
        "gold": pipeline.gold,
    }
    names: list[str] = []
    for layer in layers:
        for table in groups[layer]:
            names.append(table.table)
            names.extend(table.side_tables)
    if "gold" in layers:
        names.extend(publish.table for publish in pipeline.publish)
    return tuple(names)


@contextmanager
def _stop_at_end(spark: SparkSession, output: Path, heap: str) -> Iterator[None]:
    """Stop Spark at the end. If its JVM has ended, raise that cause instead of py4j's connection error."""
    try:
        try:
            yield
        finally:
            jvm.stop(spark)
    except (Py4JError, OSError) as error:
        child = jvm.process(spark)
        # The connection breaks a moment before the process is gone.
        if child is None or not _has_ended(child):
            raise
        if child.returncode == _OUT_OF_MEMORY and _OUT_OF_MEMORY_LINE in _tail(output):
            raise OutOfMemoryError(heap) from error
        raise _ended(child.returncode, output) from error


def require_jvm(spark: SparkSession, output: Path) -> None:
    """Raise the cause if the JVM of a session has ended, where nothing calls it for long.

    Raises:
        QueryFailedError: It has.
    """
    child = jvm.process(spark)
    if child is not None and (code := child.poll()) is not None:
        raise _ended(code, output)


def _ended(code: int, output: Path) -> QueryFailedError:
    """The error for a JVM that has ended with an exit code while the job ran."""
    why = "If the machine ran out of memory, set spark.driver_memory lower"
    if code == _NO_HEARTBEAT:
        why = (
            "It was paused for longer than spark.network.timeout allows, as on a machine that was suspended: "
            "leave spark.network.timeout, spark.storage.blockManagerHeartbeatTimeoutMs and "
            "spark.executor.heartbeat.maxFailures out of spark.conf, whose values are lower than the engine's"
        )
    return QueryFailedError(
        "Spark's JVM",
        f"it {processes.describe_exit(code)} while the job was running. {why}; the JVM's output is in "
        f"{output}. Nothing is lost: the same command continues and replays the micro-batch that was running",
    )


def _tail(output: Path, size: int = 4096) -> str:
    """The end of what the JVM printed; earlier runs printed to the same file."""
    try:
        return output.read_bytes()[-size:].decode(errors="replace")
    except OSError:
        return ""


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(_GONE_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
