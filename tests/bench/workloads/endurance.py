"""W13, endurance: what an hour under a steady stream leaves behind, with nobody typing.

``medallion up`` with its default settings. Twelve times in the run the memory, handles and threads of its
processes, the files of its tables and checkpoints and the size of its logs are counted. What a job keeps of
each micro-batch grows from count to count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable

from tests.bench.data import topic
from tests.bench.data.events import Stream
from tests.bench.data.sender import sending
from tests.bench.measure.footprint import Footprint, footprint
from tests.bench.measure.machine import Meter, Usage
from tests.bench.measure.settling import all_paths, settled
from tests.bench.measure.stats import Goal, median, ratio
from tests.bench.reporting.report import Section, table
from tests.bench.run import OURS, Run

COUNTS = 12
MOST_GROWTH = 1.1
MOST_FILES = 60
_SETTLE_SECONDS = 300.0
_SECOND = 1_000_000
_MB = 2**20
_LOOKS = 5
"""At the newest row of gold, a second apart; the median of them counts."""


@dataclass(frozen=True, slots=True)
class Count:
    """One moment.

    Attributes:
        seconds: Since the start of the job.
        footprint: What the pipeline occupies.
        age: Seconds since the newest event in gold was to be sent.
        usage: Of the job, since the count before.
    """

    seconds: float
    footprint: Footprint
    age: float
    usage: Usage

    @property
    def most_files(self) -> int:
        """Live files of the table with the most."""
        return max((one.live for one in self.footprint.tables.values()), default=0)


@dataclass(frozen=True, slots=True)
class Endured:
    """The whole run.

    Attributes:
        per_second: Messages a second.
        sent: Messages in the topic at the end.
        counts: In order of time.
        failures: What makes the figures void.
    """

    per_second: int
    sent: int
    counts: Sequence[Count]
    failures: Sequence[str] = ()

    def growth(self, figure: Callable[[Count], float]) -> float:
        """Median of a figure in the last third of the counts, in times of that in the second third."""
        third = max(1, len(self.counts) // 3)
        middle, last = self.counts[third : 2 * third] or self.counts[:1], self.counts[-third:]
        return ratio(median([figure(one) for one in last]), median([figure(one) for one in middle]))


def measured(run: Run, per_second: int, seconds: float) -> Endured:
    """Run under the stream, from nothing, and compare all tables with the oracle at the end."""
    folder, ours = run.scratch("endurance"), run.ours()
    source, tables = topic.made(run.broker, "endurance"), ours.tables(folder)
    stream = Stream(seed=13, start=time.time_ns() // 1_000 + _SECOND, per_second=per_second)
    found: list[Count] = []
    with (
        sending(source, stream, folder) as sender,
        ours.run(folder, source) as started,
        Meter({OURS: started.pid, "broker": run.broker.pid, "sender": sender.started.pid}) as meter,
    ):
        last = meter.at_birth(OURS, started.began)
        for number in range(1, COUNTS + 1):
            over = started.began + number * seconds / COUNTS
            while (left := over - time.monotonic()) > 0:
                time.sleep(min(1.0, left))
                started.check()
                sender.started.check()
            now = meter.read()
            seen = footprint(started.pid, folder / "data" / "shop", all_paths(tables))
            found.append(Count(now.at - started.began, seen, _age(tables.groups), now.since(last, OURS)))
            last = now
            run.say(_line(found[-1]))
        sent = sender.stop()
        failures = settled(ours, folder, started, stream, sent, seconds=_SETTLE_SECONDS)
        started.stop()
    return Endured(per_second, sent, found, failures)


def _age(path: Path) -> float:
    """Of gold's newest row, in seconds."""
    ages = []
    for _ in range(_LOOKS):
        newest = pc.max(DeltaTable(str(path)).to_pyarrow_table(columns=["newest_sent_at"])["newest_sent_at"])
        ages.append(time.time() - newest.as_py() / _SECOND)
        time.sleep(1)
    return median(ages)


def _line(count: Count) -> str:
    seen = count.footprint
    return (
        f"endurance: {count.seconds:.0f} s, {seen.resident / _MB:,.0f} MiB ({seen.java / _MB:,.0f} of "
        f"Java), {seen.handles} handles, "
        f"{seen.threads} threads, {count.most_files} live files at most, "
        f"{sum(one.data for one in seen.tables.values()):,} data files, {seen.checkpoints:,} files of "
        f"checkpoints, {seen.logs / _MB:.1f} MiB of logs; newest row {count.age:.1f} s old, "
        f"{count.usage.cores:.2f} cores"
    )


def endurance(run: Run) -> Section:
    """W13."""
    found = measured(run, run.per_second or 2_000, run.sized(run.seconds, 3_600, 120))
    title = "Endurance: an hour with nobody typing"
    return Section("endurance", title, lines(found, run.settings), goals(found), found, found.failures)


def goals(found: Endured) -> list[Goal]:
    """What must not grow from the second third of the run to the last one."""
    whole = found.counts[-1].seconds
    note = "" if whole >= 3_600 else f"{whole:.0f} s only"
    flat = {
        "resident memory": lambda one: one.footprint.resident,
        "open handles": lambda one: one.footprint.handles,
        "threads": lambda one: one.footprint.threads,
        "files of checkpoints": lambda one: one.footprint.checkpoints,
    }
    most = max(one.most_files for one in found.counts)
    return [
        Goal("W13 live files of the table with the most", most, MOST_FILES, "at most", note),
        *(
            Goal(f"W13 {what}, last third / second", found.growth(figure), MOST_GROWTH, "at most", note)
            for what, figure in flat.items()
        ),
    ]


def lines(found: Endured, settings: tuple[str, ...] = ()) -> list[str]:
    """The section's text."""
    given = f" and {', '.join(settings)}" if settings else ""
    whole = found.counts[-1].seconds
    what = (
        f"`medallion up` with its default settings{given} under {found.per_second:,} messages a second for "
        f"{whole / 60:.0f} minutes, {found.sent:,} messages, with nobody typing; afterwards all tables equal "
        "the oracle's. Memory, handles and threads are those of the command and of Spark's JVM. The log "
        "files of a Delta table stay for `delta.logRetentionDuration` (30 days), so their number grows with "
        "the commits; data files include those of older versions, which stay for the tables' retention."
    )
    head = (
        "minute",
        "memory, MiB",
        "of it the JVM",
        "handles",
        "threads",
        "live files, most",
        "data files",
        "Delta log files",
        "checkpoint files",
        "logs, MiB",
        "newest row in gold",
        "cores",
    )
    rows = [
        (
            f"{one.seconds / 60:.0f}",
            f"{one.footprint.resident / _MB:,.0f}",
            f"{one.footprint.java / _MB:,.0f}",
            f"{one.footprint.handles:,}",
            f"{one.footprint.threads:,}",
            f"{one.most_files:,}",
            f"{sum(files.data for files in one.footprint.tables.values()):,}",
            f"{sum(files.log for files in one.footprint.tables.values()):,}",
            f"{one.footprint.checkpoints:,}",
            f"{one.footprint.logs / _MB:.1f}",
            f"{one.age:.1f} s",
            f"{one.usage.cores:.2f}",
        )
        for one in found.counts
    ]
    last = found.counts[-1].footprint.tables
    of_tables = [
        (name, f"{files.live:,}", f"{files.data:,}", f"{files.log:,}") for name, files in last.items()
    ]
    return [
        what,
        "",
        *table(head, rows),
        "",
        *table(("table, at the end", "live files", "data files", "Delta log files"), of_tables),
    ]
