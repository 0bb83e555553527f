"""One process that runs some or all layers: leases first, then broker, then Spark, then the queries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.declare import Pipeline, Silver, Table
from common.layout import Layout
from common.lease import Leases
from common.settings import Settings
from common.spark import build_session
from orchestration import broker, kafka
from orchestration.console import say
from orchestration.supervisor import StopSignal, Supervisor
from orchestration.wiring import LAYERS, Layer, Wiring

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
            self.supervisor.start(self.wiring.streams(layer), available_now=available_now)


@contextmanager
def opened(
    pipeline: Pipeline,
    settings: Settings,
    layers: Sequence[Layer] = LAYERS,
    *,
    name: str,
    quiet: bool = False,
) -> Iterator[Job]:
    """A job, ready to start; everything it opened is closed at the end, in reverse.

    Args:
        pipeline: What to run.
        settings: Where and how.
        layers: Whose queries; the leases are those of the tables these layers write.
        name: Names the job in leases and its log file.
        quiet: Say nothing of the steps.

    Raises:
        LeaseHeldError: Another process writes one of the tables.
        SetupError: Java, a jar or the broker is missing.
    """
    layout = Layout.of(pipeline, settings)
    tell = (lambda text: None) if quiet else say
    with ExitStack() as stack:
        leases = stack.enter_context(Leases(layout.leases, written(pipeline, layers), name))
        address = ""
        if "bronze" in layers:
            address = stack.enter_context(broker_for(pipeline, settings, tell))
        began = time.monotonic()
        spark = build_session(settings, name, layout.log)
        stack.callback(spark.stop)
        if (pid := _jvm_pid(spark)) is not None:
            leases.record_jvm(pid)
        tell(f"Spark {spark.version} on {settings.spark.master}, started in {time.monotonic() - began:.1f} s")
        stop = stack.enter_context(StopSignal().installed())
        supervisor = Supervisor(spark, stop, stop_timeout_seconds=settings.stop_timeout_seconds)
        wiring = Wiring(spark, pipeline, settings, layout, address)
        yield Job(tuple(layers), wiring, supervisor, stop)


@contextmanager
def broker_for(pipeline: Pipeline, settings: Settings, tell=say) -> Iterator[str]:  # type: ignore[no-untyped-def]
    """The broker in force: the pipeline's own, or the embedded one with the pipeline's topics made."""
    named = kafka.resolve(pipeline, settings)
    if named is not None:
        tell(f"Kafka at {named}")
        yield named
        return
    with broker.start(settings) as embedded:
        address = embedded.bootstrap_servers
        topics = sorted({name for topic in pipeline.bronze for name in topic.topic_names})
        made = kafka.ensure_topics(address, topics, settings.kafka.partitions, {})
        tell(f"embedded Kafka at {address}" + (f", made {', '.join(made)}" if made else ""))
        yield address


def written(pipeline: Pipeline, layers: Sequence[Layer]) -> tuple[str, ...]:
    """Tables that these layers write, side tables included."""
    groups: dict[Layer, Sequence[Table]] = {
        "bronze": pipeline.bronze,
        "silver": pipeline.silver,
        "gold": pipeline.gold,
    }
    names: list[str] = []
    for layer in layers:
        for table in groups[layer]:
            names.append(table.table)
            if isinstance(table, Silver):
                names.append(table.quarantine)
    return tuple(names)


def _jvm_pid(spark: SparkSession) -> int | None:
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001  # no public way to the JVM's pid
    return process.pid if process is not None else None
