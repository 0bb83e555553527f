"""W9: the same drain on a standalone cluster with one and two executors of one core, and with skewed keys.

The machine has two processors, and broker, driver and master need some of them: the second executor has to
share one. So the clock says little, and CPU seconds are compared: those of all tasks, and those of the
busiest executor of each stage, which is how long the run would take at least if each executor had a
processor of its own.

Processor 1 is that of the first executor. Processor 0 is that of broker, driver, master and harness, and of
the second executor. A run whose tables differ from the oracle's is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from distribution.bench.cluster import task_log
from distribution.bench.cluster.task_log import TaskCpu
from distribution.bench.contenders.ours import Ours
from distribution.bench.contenders.started_process import ContenderError
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.measure.machine import Meter, Usage
from distribution.bench.measure.oracle import Expected, differences, expected
from distribution.bench.measure.stats import Goal, number, ratio
from distribution.bench.reporting.drain_report import BROKER
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import OURS, Run
from tests.support.servers.spark_cluster import Cluster, spark_cluster

EFFICIENCY, SKEW = 0.85, 2.0
_TIMEOUT_SECONDS = 3_600.0
_SHARED, _OWN = 0, 1
"""Processors: of everything else, and of the first executor."""

STREAMS = {
    "even keys": Stream(),
    "Zipf 1.5": Stream(zipf=1.5, users_zipf=1.5),
    "one hot key": Stream(hot=0.5),
}
"""Zipf 1.5: the most frequent user and product have 38 % of the events each. One hot key: half of the events
are of one user and one product."""

RUNS = (("even keys", 1), ("even keys", 2), ("Zipf 1.5", 2), ("one hot key", 2))


@dataclass(frozen=True, slots=True)
class Scaled:
    """One drain.

    Attributes:
        keys: One of ``STREAMS``.
        executors: Number of executors.
        events: Messages in the topic.
        tasks: CPU of the tasks.
        usage: Clock and CPU of the driver.
        failures: What makes the figures void.
    """

    keys: str
    executors: int
    events: int
    tasks: TaskCpu
    usage: Usage
    failures: tuple[str, ...] = ()


def scale_out(run: Run) -> Section:
    """One drain after the other; the streams of ``STREAMS`` have as many messages each."""
    # Each executor compiles its own code, for some ten CPU seconds: few messages show little else.
    events = run.sized(run.events, 2_000_000, 20_000)
    done: list[Scaled] = []
    with _only_on(run.broker.pid, _SHARED), _only_on(os.getpid(), _SHARED):
        for keys, executors in RUNS:
            stream = STREAMS[keys]
            run.say(f"{keys}, {executors} executors: {events:,} messages into a topic")
            source = topic.filled(run.broker, f"scale-{len(done)}", stream, events)
            found = _drained(run, keys, executors, source, expected(stream, events))
            run.say(_line(found))
            done.append(found)
    goals = _goals(done)
    failures = [failure for one in done for failure in one.failures]
    return Section("scale_out", "Scale-out: one and two executors", lines(done), goals, done, failures)


def _drained(run: Run, keys: str, executors: int, source: topic.Source, wanted: Expected) -> Scaled:
    folder = run.scratch(f"scale-{source.topic}")
    events = folder / "events"
    events.mkdir()
    failures: list[str] = []
    with spark_cluster(folder / "cluster", executors, (_OWN, _SHARED)) as cluster:
        ours = Ours((*_settings(cluster, events, executors), *run.settings))
        with (
            ours.drain(folder, source) as started,
            Meter({OURS: started.pid, BROKER: run.broker.pid}) as meter,
        ):
            try:
                started.await_end(_TIMEOUT_SECONDS)
            except ContenderError as error:
                failures.append(str(error))
            usage = meter.read().since(meter.at_birth(OURS, started.began), OURS)
    tasks = task_log.read(events)
    if len(tasks.by_executor) != executors:
        failures.append(f"{len(tasks.by_executor)} executors did the work of {executors}")
    failures += differences(ours.tables(folder), wanted)
    shutil.rmtree(folder)
    return Scaled(keys, executors, wanted.messages, tasks, usage, tuple(failures))


def _settings(cluster: Cluster, events: Path, executors: int) -> tuple[str, ...]:
    log = (*task_log.SETTINGS, f"dir={events.as_uri()}")
    # What a cluster of a service has: compiled code, and as many state partitions whatever the executors.
    own = [text for text in cluster.overrides if "defaultJavaOptions" not in text]
    return (
        *own,
        *(f"spark.conf.spark.eventLog.{text}" for text in log),
        "spark.shuffle_partitions=4",
        f"spark.conf.spark.scheduler.minRegisteredResourcesRatio={1.0}",
        f"spark.conf.spark.cores.max={executors}",
    )


@contextmanager
def _only_on(pid: int, processor: int) -> Iterator[None]:
    """Have a process, with all its threads and what it starts from now on, use one processor."""
    before = os.sched_getaffinity(pid)
    _pin(pid, {processor})
    try:
        yield
    finally:
        _pin(pid, before)


def _pin(pid: int, processors: set[int]) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), processors)


def _goals(done: Sequence[Scaled]) -> list[Goal]:
    found = {(one.keys, one.executors): one for one in done}
    one, two = found["even keys", 1], found["even keys", 2]
    skewed = [found[keys, 2] for keys in STREAMS if keys != "even keys"]
    return [
        Goal(
            "W9 CPU of all tasks, one executor / two",
            ratio(one.tasks.total, two.tasks.total),
            EFFICIENCY,
            "at least",
        ),
        Goal(
            "W9 efficiency with two: CPU of one / twice the busiest executors' of two",
            ratio(one.tasks.total, 2 * two.tasks.critical),
            EFFICIENCY,
            "at least",
        ),
        *(
            Goal(
                f"W9 {each.keys}: the busiest executors' CPU, times that of even keys",
                ratio(each.tasks.critical, two.tasks.critical),
                SKEW,
                "at most",
            )
            for each in skewed
        ),
    ]


def lines(done: Sequence[Scaled]) -> list[str]:
    """The section's text."""
    head = (
        "keys",
        "executors",
        "CPU s of all tasks",
        "of each executor",
        "of the busiest one per stage",
        "per million",
        "driver, CPU s",
        "clock, s",
        "largest result of a task",
    )
    rows = [
        (
            one.keys,
            str(one.executors),
            number(one.tasks.total),
            ", ".join(number(each) for each in one.tasks.by_executor),
            number(one.tasks.critical),
            number(one.tasks.total / one.events * 1e6),
            number(one.usage.cpu),
            number(one.usage.seconds),
            f"{one.tasks.largest_result / 1024:,.1f} KiB",
        )
        for one in done
    ]
    what = (
        f"`medallion backfill` of {done[0].events:,} messages on a Spark standalone cluster, from start to "
        "end, with executors of one core and 512 MB. Broker, driver and master share processor 0, the first "
        "executor has processor 1, and the second shares processor 0 with them: the clock of two executors "
        "is that of two processors for everything. CPU is that of tasks, by Spark's event log. *Of the "
        "busiest one per stage* is the least time in which executors with a processor each would be done, "
        "reckoned from the tasks' CPU, without the driver's time between stages. Until its code is compiled, "
        "an executor takes some ten CPU seconds more, whatever the number of messages."
    )
    return [what, "", *table(head, rows)]


def _line(done: Scaled) -> str:
    verdict = f"FAILED: {done.failures[0]}" if done.failures else "tables equal the oracle"
    tasks = done.tasks
    return (
        f"{done.keys}, {done.executors} executors: {tasks.total:.1f} CPU s of {tasks.tasks:,} tasks, busiest "
        f"{tasks.critical:.1f}, {done.usage.seconds:.1f} s on the clock; {verdict}"
    )
