"""W14, soak: hours under a steady stream while faults are injected at random moments.

``medallion up`` with its default settings. A service manager is played: a job that ends is started again
after a second. At drawn moments the job, its Python process or its JVM is killed, told to stop or paused; the
broker is killed or paused; or another engine compacts a table. Every five minutes the memory, handles and
threads of the job and the files of its tables and checkpoints are counted. At the end all tables must equal
the oracle's, and the audit must balance.

The faults follow from the seed; what the machine does at these moments does not.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from common.config.settings import load_settings
from distribution.bench.contenders.ours import Ours
from distribution.bench.contenders.started_process import ContenderError, Started
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.data.sender import sending
from distribution.bench.data.topic import Source
from distribution.bench.measure.footprint import Footprint, footprint
from distribution.bench.measure.oracle import Tables
from distribution.bench.measure.settling import all_paths, settled
from distribution.bench.measure.stats import Goal, median, ratio
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import Run
from orchestration.access.embedded_broker import lifecycle as embedded
from orchestration.access.embedded_broker.lifecycle import Broker

SEED = 14
MOST_GROWTH = 1.1
COUNT_SECONDS = 300.0
SETTLED_SECONDS = 90.0
"""A younger job is not counted: it has not done yet what it does all the time."""
PAUSE_SECONDS = (120.0, 420.0)
"""Between the end of a fault and the next one."""
STILL_SECONDS = (5.0, 45.0)
"""How long a process is paused."""
_SETTLE_SECONDS = 900.0
_AUDIT_SECONDS = 600.0
_POLL_SECONDS = 0.5
_RESTART_SECONDS = 1.0
_STOP_SECONDS = 120.0
_QUICK_ENDS = 5
_QUICK_SECONDS = 60.0
_SECOND = 1_000_000
_MB = 2**20


@dataclass(frozen=True, slots=True)
class Fault:
    """One injected fault.

    Attributes:
        seconds: Since the start of the run.
        kind: A key of ``FAULTS``.
    """

    seconds: float
    kind: str


@dataclass(frozen=True, slots=True)
class Count:
    """One moment.

    Attributes:
        seconds: Since the start of the run.
        age: Of the job's process, in seconds.
        footprint: What the pipeline occupies.
    """

    seconds: float
    age: float
    footprint: Footprint


@dataclass
class Life:
    """The job, the broker, and what has happened to them."""

    run: Run
    ours: Ours
    folder: Path
    chance: random.Random
    broker: Broker
    source: Source
    began: float = field(default_factory=time.monotonic)
    faults: list[Fault] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    starts: int = 0
    ended: list[str] = field(default_factory=list)
    """What a job said that ended without a fault that ends it."""
    quick_ends: int = 0

    def __post_init__(self) -> None:
        self.job = self.start()

    @property
    def seconds(self) -> float:
        """Since the start of the run."""
        return time.monotonic() - self.began

    @property
    def tables(self) -> Tables:
        """Of the pipeline."""
        return self.ours.tables(self.folder)

    def start(self) -> Started:
        """Start the job; the output of the one before is kept."""
        log = self.folder / "up.log"
        if log.exists():
            log.rename(self.folder / f"up.{self.starts}.log")
        self.starts += 1
        return self.ours.run(self.folder, self.source)

    def restart(self) -> None:
        """Start it again, after all that is left of the former one has been waited for."""
        time.sleep(_RESTART_SECONDS)
        self.job.end()
        self.job = self.start()

    def keep_running(self) -> None:
        """Start it again where it has ended by itself.

        Raises:
            ContenderError: It ended several times, each within a minute of its start.
        """
        if self.job.is_running():
            return
        is_quick = time.monotonic() - self.job.began < _QUICK_SECONDS
        self.quick_ends = self.quick_ends + 1 if is_quick else 0
        self.ended.append(f"second {self.seconds:.0f}: {self.job.said(8)}")
        self.run.say(f"soak: the job has ended by itself: {self.job.said(3)}")
        if self.quick_ends >= _QUICK_ENDS:
            raise ContenderError(f"the job ended {_QUICK_ENDS} times in a row\n{self.job.said()}")
        self.restart()

    def count(self) -> None:
        """Take note of what the pipeline occupies."""
        with contextlib.suppress(psutil.NoSuchProcess):
            seen = footprint(self.job.pid, self.folder / "data" / "shop", all_paths(self.tables))
            self.counts.append(Count(self.seconds, time.monotonic() - self.job.began, seen))
            self.run.say(_line(self.counts[-1]))

    def jvm(self) -> int | None:
        """Of the job, where one runs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in psutil.Process(self.job.pid).children(recursive=True):
                if one.name() == "java":
                    return one.pid
        return None


def _kill_group(life: Life) -> None:
    life.job.kill()
    life.restart()


def _kill_python(life: Life) -> None:
    os.kill(life.job.pid, signal.SIGKILL)
    life.restart()


def _kill_jvm(life: Life) -> None:
    if (pid := life.jvm()) is None:
        return
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _STOP_SECONDS
    while life.job.is_running():
        if time.monotonic() > deadline:
            raise ContenderError(f"the job did not end after its JVM was killed\n{life.job.said()}")
        time.sleep(_POLL_SECONDS)
    life.restart()


def _stop(life: Life) -> None:
    os.kill(life.job.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while life.job.is_running():
        if time.monotonic() > deadline:
            raise ContenderError(f"the job did not stop on SIGTERM\n{life.job.said()}")
        time.sleep(_POLL_SECONDS)
    life.restart()


def _pause_job(life: Life) -> None:
    group = os.getpgid(life.job.pid)
    os.killpg(group, signal.SIGSTOP)
    time.sleep(life.chance.uniform(*STILL_SECONDS))
    os.killpg(group, signal.SIGCONT)


def _pause_broker(life: Life) -> None:
    os.kill(life.broker.pid, signal.SIGSTOP)
    time.sleep(life.chance.uniform(*STILL_SECONDS))
    os.kill(life.broker.pid, signal.SIGCONT)


def _kill_broker(life: Life) -> None:
    os.kill(life.broker.pid, signal.SIGKILL)
    time.sleep(life.chance.uniform(0, 20))
    life.broker.stop()
    life.broker = started_broker(life.folder / "broker")
    if life.broker.bootstrap_servers != life.source.bootstrap_servers:
        raise ContenderError("the broker came back at another address")


def _compact(life: Life) -> None:
    path = life.chance.choice([life.tables.bronze, life.tables.silver])
    with contextlib.suppress(DeltaError):  # a conflict with the job's own commit: then nothing has happened
        DeltaTable(str(path)).optimize.compact()


FAULTS: dict[str, Callable[[Life], None]] = {
    "SIGKILL of Python and JVM": _kill_group,
    "SIGKILL of Python": _kill_python,
    "SIGKILL of the JVM": _kill_jvm,
    "SIGTERM": _stop,
    "job paused": _pause_job,
    "broker paused": _pause_broker,
    "broker killed": _kill_broker,
    "compaction by another engine": _compact,
}
"""By name; each kind is drawn once before any is drawn again."""


def started_broker(folder: Path) -> Broker:
    """A broker in a folder, new or with what it held before."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "medallion.yaml").touch()
    return embedded.start(load_settings(file=folder / "medallion.yaml", overrides=[f"data_dir={folder}"]))


@dataclass(frozen=True, slots=True)
class Soaked:
    """The whole run.

    Attributes:
        per_second: Messages a second.
        sent: Messages in the topic at the end.
        faults: In order of time.
        counts: In order of time.
        starts: Of the job.
        ended: What jobs said that ended without a fault that ends them.
        offsets: Those the audit accounted for.
        failures: What makes the figures void.
    """

    per_second: int
    sent: int
    faults: Sequence[Fault]
    counts: Sequence[Count]
    starts: int
    ended: Sequence[str]
    offsets: int
    failures: Sequence[str] = ()

    def growth(self, figure: Callable[[Count], float]) -> float:
        """Median of a figure in the last third of the counts, in times of that in the second third."""
        third = max(1, len(self.counts) // 3)
        middle, last = self.counts[third : 2 * third] or self.counts[:1], self.counts[-third:]
        return ratio(median([figure(one) for one in last]), median([figure(one) for one in middle]))


def measured(run: Run, per_second: int, seconds: float) -> Soaked:
    """Run under the stream and the faults, and compare all tables with the oracle at the end."""
    folder, ours = run.scratch("soak"), run.ours()
    broker = started_broker(folder / "broker")
    source = topic.made(broker, "soak")
    stream = Stream(seed=SEED, start=time.time_ns() // 1_000 + _SECOND, per_second=per_second)
    chance = random.Random(SEED)  # noqa: S311  # repeatable is what matters
    life = Life(run, ours, folder, chance, broker, source)
    try:
        with sending(source, stream, folder) as sender:
            _live(life, sender.started, seconds)
            sent = sender.stop()
            failures = settled(ours, folder, life.job, stream, sent, seconds=_SETTLE_SECONDS)
            life.job.stop()
        offsets = _audited(life)
        if offsets != sent:
            failures.append(f"soak: the audit accounts for {offsets:,} of {sent:,} messages")
    finally:
        life.job.end()
        life.broker.stop()
    return Soaked(
        per_second, sent, life.faults, life.counts, life.starts, life.ended, offsets, tuple(failures)
    )


def _live(life: Life, sender: Started, seconds: float) -> None:
    """Until the time is over: inject faults, count, and keep the job running."""
    kinds: list[str] = []
    fault_at = life.chance.uniform(*PAUSE_SECONDS)
    count_at = COUNT_SECONDS
    while life.seconds < seconds:
        sender.check()
        life.keep_running()
        if life.seconds >= count_at and time.monotonic() - life.job.began >= SETTLED_SECONDS:
            life.count()
            count_at += COUNT_SECONDS
        if life.seconds >= fault_at:
            if not kinds:
                kinds = life.chance.sample(list(FAULTS), len(FAULTS))
            kind = kinds.pop()
            life.faults.append(Fault(life.seconds, kind))
            life.run.say(f"soak: fault {len(life.faults)}: {kind}")
            FAULTS[kind](life)
            fault_at = life.seconds + life.chance.uniform(*PAUSE_SECONDS)
        time.sleep(_POLL_SECONDS)


def _audited(life: Life) -> int:
    """Offsets that the audit accounts for.

    Raises:
        ContenderError: The audit does not balance.
    """
    with life.ours.command(life.folder, life.source, "audit", "--json") as audit:
        audit.await_end(_AUDIT_SECONDS)
        said = audit.said(100_000)
    return int(json.loads(said[said.index("{") :])["offsets"])


def _line(count: Count) -> str:
    seen = count.footprint
    live = max((one.live for one in seen.tables.values()), default=0)
    return (
        f"soak: {count.seconds:.0f} s, the job is {count.age:.0f} s old, {seen.resident / _MB:,.0f} MiB, "
        f"{seen.handles} handles, {seen.threads} threads, {live} live files at most, "
        f"{seen.checkpoints:,} files of checkpoints, {seen.logs / _MB:.1f} MiB of logs"
    )


def soak(run: Run) -> Section:
    """W14."""
    found = measured(run, run.per_second or 2_000, run.sized(run.seconds, 9_000, 600))
    return Section("soak", "Soak: hours of faults", lines(found), goals(found), found, list(found.failures))


def goals(found: Soaked) -> list[Goal]:
    """What must not grow from the second third of the run to the last one."""
    whole = found.counts[-1].seconds if found.counts else 0.0
    note = "" if whole >= 8_400 else f"{whole:.0f} s only"
    flat: dict[str, Callable[[Count], float]] = {
        "resident memory": lambda one: one.footprint.resident,
        "open handles": lambda one: one.footprint.handles,
        "threads": lambda one: one.footprint.threads,
        "files of checkpoints": lambda one: one.footprint.checkpoints,
    }
    return [
        Goal(f"W14 {what}, last third / second", found.growth(figure), MOST_GROWTH, "at most", note)
        for what, figure in flat.items()
    ]


def lines(found: Soaked) -> list[str]:
    """The section's text."""
    whole = found.counts[-1].seconds if found.counts else 0.0
    kinds = Counter(fault.kind for fault in found.faults)
    what = (
        f"`medallion up` with its default settings under {found.per_second:,} messages a second for "
        f"{whole / 60:.0f} minutes, {found.sent:,} messages, {len(found.faults)} faults; the job was started "
        f"{found.starts} times, {len(found.ended)} of them because it had ended without a fault that ends "
        f"it. Afterwards all tables equal the oracle's, and the audit accounts for {found.offsets:,} offsets."
    )
    head = (
        "minute",
        "age of the job, s",
        "memory, MiB",
        "handles",
        "threads",
        "live files, most",
        "checkpoint files",
    )
    rows = [
        (
            f"{one.seconds / 60:.0f}",
            f"{one.age:.0f}",
            f"{one.footprint.resident / _MB:,.0f}",
            f"{one.footprint.handles:,}",
            f"{one.footprint.threads:,}",
            f"{max((files.live for files in one.footprint.tables.values()), default=0):,}",
            f"{one.footprint.checkpoints:,}",
        )
        for one in found.counts
    ]
    of_faults = [(kind, f"{number:,}") for kind, number in sorted(kinds.items())]
    return [what, "", *table(("fault", "times"), of_faults), "", *table(head, rows)]
