"""One process that runs some or all layers: leases first, then broker, then Spark, then the queries."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from common import process
from common.declare import KafkaSink, Pipeline, Table
from common.errors import BrokerError, OutOfMemoryError, QueryFailedError, nearest
from common.layout import Layout
from common.lease import Leases
from common.settings import Settings
from common.spark import Compiled, build_session
from orchestration import broker, kafka
from orchestration.console import say
from orchestration.supervisor import StopSignal, Supervisor, term_interrupts
from orchestration.wiring import LAYERS, Layer, Wiring

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REACH_SECONDS = 15.0
_GONE_SECONDS = 5.0
_OUT_OF_MEMORY = 3
"""Exit code of a JVM under ``-XX:+ExitOnOutOfMemoryError``, and a line in its output."""
_OUT_OF_MEMORY_LINE = "Terminating due to java.lang.OutOfMemoryError"


@dataclass(frozen=True)
class Job:
    """A process that holds its leases and has everything running that its queries need."""

    layers: tuple[Layer, ...]
    wiring: Wiring
    supervisor: Supervisor
    stop: StopSignal

    def start(self, *, available_now: bool = False) -> None:
        """Start the queries of all layers, in data order."""
        for table in self.wiring.await_sources(
            self.layers, wait=not available_now, stopping=self.stop.is_said
        ):
            say(f"waiting for {table}: the job before this one has not made it yet")
        for layer in self.layers:
            # Stopped while it waited: there is nothing yet that a stream could be built over.
            if self.stop.is_said():
                return
            when = None if available_now else self.wiring.has_begun
            self.supervisor.start(self.wiring.streams(layer), available_now=available_now, when=when)
        if "gold" in self.layers and not available_now and not self.stop.is_said():
            self.supervisor.start(self.wiring.publications(), when=self.wiring.has_begun)

    def publish(self) -> None:
        """Send on what the tables have now, and end; to be called when the queries of gold are done."""
        if "gold" in self.layers and self.wiring.pipeline.publish and not self.stop.is_said():
            self.supervisor.start(self.wiring.publications(), available_now=True)
            self.supervisor.run()


@contextmanager
def opened(
    pipeline: Pipeline,
    settings: Settings,
    layers: Sequence[Layer] = LAYERS,
    *,
    name: str,
    compiled: Compiled = "all",
) -> Iterator[Job]:
    """A job, ready to start; everything it opened is closed at the end, in reverse.

    Args:
        pipeline: What to run.
        settings: Where and how.
        layers: Whose queries; the leases are those of the tables these layers write.
        name: Names the job in leases and its log file.
        compiled: How well Spark's JVM compiles.

    Raises:
        BrokerError: The broker cannot be reached, or lacks a topic.
        LeaseHeldError: Another process writes one of the tables.
        OutOfMemoryError: Spark's JVM ended because its heap was full.
        QueryFailedError: Spark's JVM ended under the job.
        SetupError: Java, a jar or the broker is missing.
    """
    layout = Layout.of(pipeline, settings)
    with ExitStack() as stack:
        stack.enter_context(term_interrupts())
        leases = stack.enter_context(Leases(layout.leases, written(pipeline, layers), name))
        address: Future[str] = Future()
        if "bronze" not in layers and not ("gold" in layers and sinks_in_force(pipeline)):
            address.set_result("")
        elif kafka.resolve(pipeline, settings) is None and not _asked_for_port(settings):
            address = stack.enter_context(_meanwhile(broker_for(pipeline, settings)))
        else:
            address.set_result(stack.enter_context(broker_for(pipeline, settings)))
            if kafka.resolve(pipeline, settings) is not None:
                require_topics(pipeline, settings, address.result())
        began = time.monotonic()
        spark = build_session(settings, name, layout.log, compiled=compiled)
        stack.enter_context(_living(spark, layout.log / f"{name}.jvm.log", settings.spark.driver_memory))
        if (jvm := _jvm(spark)) is not None:
            leases.record_jvm(jvm.pid)
        took = f"{time.monotonic() - began:.1f} s"
        say(f"Spark {spark.version} on {spark.sparkContext.master}, started in {took}")
        stop = stack.enter_context(StopSignal().installed())
        supervisor = Supervisor(spark, stop, stop_timeout_seconds=settings.stop_timeout_seconds)
        wiring = Wiring(spark, pipeline, settings, layout, address.result())
        yield Job(tuple(layers), wiring, supervisor, stop)


@contextmanager
def writing(
    pipeline: Pipeline, settings: Settings, tables: Sequence[str], *, name: str
) -> Iterator[SparkSession]:
    """Spark for a command that writes tables beside their queries, whose jobs must stand still meanwhile.

    Raises:
        LeaseHeldError: Another process writes one of the tables.
        OutOfMemoryError: Spark's JVM ended because its heap was full.
        QueryFailedError: Spark's JVM ended under the command.
        SetupError: Java or a jar is missing.
    """
    layout = Layout.of(pipeline, settings)
    with ExitStack() as stack:
        stack.enter_context(term_interrupts())
        leases = stack.enter_context(Leases(layout.leases, tables, name))
        spark = build_session(settings, name, layout.log, compiled="rows")
        stack.enter_context(_living(spark, layout.log / f"{name}.jvm.log", settings.spark.driver_memory))
        if (jvm := _jvm(spark)) is not None:
            leases.record_jvm(jvm.pid)
        yield spark


@contextmanager
def reading(pipeline: Pipeline, settings: Settings, *, name: str) -> Iterator[SparkSession]:
    """Spark for a command that writes no table, and so may run beside the jobs.

    Raises:
        OutOfMemoryError: Spark's JVM ended because its heap was full.
        QueryFailedError: Spark's JVM ended under the command.
        SetupError: Java or a jar is missing.
    """
    with writing(pipeline, settings, (), name=name) as spark:
        yield spark


def _asked_for_port(settings: Settings) -> bool:
    """Whether the embedded broker may find its port taken: that is told before Spark is started."""
    return bool(settings.kafka.port or settings.kafka.controller_port)


@contextmanager
def _meanwhile(opening: AbstractContextManager[str]) -> Iterator[Future[str]]:
    """A context that is entered in the background; its value comes as a future, its end as always."""
    with ThreadPoolExecutor(1) as pool:
        entered = pool.submit(opening.__enter__)
        try:
            yield entered
        finally:
            if entered.exception() is None:
                opening.__exit__(None, None, None)


@contextmanager
def broker_for(pipeline: Pipeline, settings: Settings) -> Iterator[str]:
    """The broker in force: the pipeline's own, or the embedded one with the pipeline's topics made.

    Raises:
        BrokerError: The pipeline's own does not answer. Spark would wait for it without a word.
    """
    named = kafka.resolve(pipeline, settings)
    if named is not None:
        options = kafka.client_options(settings, pipeline, pipeline.bronze[0])
        kafka.wait_reachable(named, options, _REACH_SECONDS)
        say(f"Kafka at {named}")
        yield named
        return
    with broker.start(settings) as embedded:
        address = embedded.bootstrap_servers
        read = {name for topic in pipeline.bronze for name in topic.topic_names}
        topics = sorted(read | {sink.topic for sink in sinks_in_force(pipeline)})
        made = kafka.ensure_topics(address, topics, settings.kafka.partitions, {})
        say(f"embedded Kafka at {address}" + (f", made {', '.join(made)}" if made else ""))
        yield address


def require_topics(pipeline: Pipeline, settings: Settings, address: str) -> None:
    """Check that every topic that the pipeline names is on its broker; those of a pattern may come later.

    Raises:
        BrokerError: One is not there; names it, the nearest one that is, and how to make it.
    """
    for topic in pipeline.bronze:
        options = kafka.client_options(settings, pipeline, topic)
        for name in kafka.missing_topics(address, topic.topic_names, options):
            near = nearest(name, kafka.topic_names(address, options))
            raise BrokerError(
                f"{topic.table}: topic {name} does not exist at {address}, or this user may not see it "
                f"({near}). Correct the name in the pipeline, or make the topic there with the partitions "
                f"you want: kafka-topics.sh --bootstrap-server {address} --create --topic {name} "
                "--partitions 2"
            )
    options = kafka.client_options(settings, pipeline)
    wanted = [sink.topic for sink in sinks_in_force(pipeline)]
    for name in kafka.missing_topics(address, wanted, options) if wanted else ():
        raise BrokerError(
            f"topic {name}, which rows are published to, does not exist at {address}, or this user may not "
            f"see it. Make it there: kafka-topics.sh --bootstrap-server {address} --create --topic {name}"
        )


def sinks_in_force(pipeline: Pipeline) -> tuple[KafkaSink, ...]:
    """Topics that rows are sent on to, of the broker that the pipeline reads from."""
    sinks = (publish.to for publish in pipeline.publish)
    return tuple(s for s in sinks if isinstance(s, KafkaSink) and "bootstrap.servers" not in s.kafka)


def written(pipeline: Pipeline, layers: Sequence[Layer]) -> tuple[str, ...]:
    """Tables that these layers write, side tables included, and publications."""
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
def _living(spark: SparkSession, output: Path, heap: str) -> Iterator[None]:
    """Stop Spark at the end; when its JVM is gone, say that instead of what py4j makes of it."""
    try:
        try:
            yield
        finally:
            # A dead JVM has nothing left to stop, and asking it would hide why it matters.
            if (jvm := _jvm(spark)) is None or jvm.poll() is None:
                spark.stop()
    except (Py4JError, OSError) as error:
        jvm = _jvm(spark)
        # The connection breaks a moment before the process is gone.
        if jvm is None or not _has_ended(jvm):
            raise
        if jvm.returncode == _OUT_OF_MEMORY and _OUT_OF_MEMORY_LINE in _tail(output):
            raise OutOfMemoryError(heap) from error
        raise QueryFailedError(
            "Spark's JVM",
            f"it {process.ended(jvm.returncode)} under the job. If the machine ran out of memory, set "
            f"spark.driver_memory lower; its output is in {output}. Nothing is lost: the same command goes "
            "on, and replays the micro-batch that was running",
        ) from error


def _tail(output: Path, size: int = 4096) -> str:
    """The end of what the JVM printed; earlier runs printed to the same file."""
    try:
        return output.read_bytes()[-size:].decode(errors="replace")
    except OSError:
        return ""


def _has_ended(jvm: subprocess.Popen[bytes]) -> bool:
    try:
        jvm.wait(_GONE_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _jvm(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    return getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001  # no public way to the JVM's process
