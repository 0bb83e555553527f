"""W15: what five gold tables of one source cost, in times of one.

One ``Upsert`` of silver's events, then five alike, each with its own table, in a job of their own. A trigger
of ten seconds leaves the CPU idle between two rounds of micro-batches: so each job makes the same number of
them, and CPU seconds say what a table costs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.delta.log import latest_version
from distribution.bench.contenders.ours import PIPELINE, Ours
from distribution.bench.contenders.started_process import ContenderError, Started
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.data.sender import sending
from distribution.bench.measure.machine import Meter, Usage
from distribution.bench.measure.oracle import LATEST, expected, latest_of, rows
from distribution.bench.measure.stats import Goal, number, ratio
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import OURS, Run

FEW, MANY = 1, 5
"""Gold tables of the two jobs."""
MOST_TIMES = 1.5
TRIGGER = "10 seconds"
_SECOND = 1_000_000
_TIMEOUT_SECONDS = 300.0
_POLL_SECONDS = 1.0

_UPSERT = """
        Upsert(
            "{name}", reads="silver.events", key=["user_id"], newest_by=["event_time", "event_id"],
            columns=["user_id", "event_id", "event_time", "sent_at", "product", "cents"],
        ),"""


@dataclass(frozen=True, slots=True)
class Cost:
    """One job.

    Attributes:
        tables: How many gold tables it has.
        usage: Over the window.
        commits: To its gold tables, over the window.
        failures: What makes the figures void.
    """

    tables: int
    usage: Usage
    commits: int
    failures: tuple[str, ...] = ()


def names(tables: int) -> list[str]:
    """Of the gold tables."""
    return [f"latest_{number_}" for number_ in range(tables)]


def pipeline_of(tables: int) -> str:
    """The pipeline file, with a place for the topic."""
    before, _, _ = PIPELINE.partition("    gold=[")
    upserts = "".join(_UPSERT.format(name=name) for name in names(tables))
    return f"{before}    gold=[{upserts}\n    ],\n)\n"


def measured(run: Run, tables: int, per_second: int, seconds: float, warm_up: float) -> Cost:
    """Run a job with so many gold tables under a steady stream, from nothing."""
    name = f"gold-{tables}"
    folder = run.scratch(name)
    ours = Ours((f"bronze.trigger={TRIGGER}", *run.settings), pipeline_of(tables))
    source = topic.made(run.broker, name)
    stream = Stream(seed=9, start=time.time_ns() // 1_000 + _SECOND, per_second=per_second)
    gold = ours.tables(folder).latest.parent
    paths = [gold / one for one in names(tables)]
    with (
        ours.run(folder, source) as started,
        sending(source, stream, folder) as sender,
        Meter({OURS: started.pid, "broker": run.broker.pid, "sender": sender.started.pid}) as meter,
    ):
        _until_written(paths, started)
        run.say(f"{name}: all gold tables have rows; {warm_up} s of warm-up, then {seconds} s are measured")
        time.sleep(warm_up)
        before, versions = meter.read(), _versions(paths)
        time.sleep(seconds)
        usage, commits = meter.read().since(before, OURS), _versions(paths) - versions
        failures = _wrong(ours, folder, paths, started, stream, sender.stop())
        started.stop()
    done = Cost(tables, usage, commits, tuple(failures))
    run.say(f"{name}: {usage.cores:.2f} cores, {commits} commits to gold; {failures or 'tables are right'}")
    return done


def _versions(paths: Sequence[Path]) -> int:
    return sum(latest_version(str(path)) or 0 for path in paths)


def _until_written(paths: Sequence[Path], started: Started) -> None:
    over = time.monotonic() + _TIMEOUT_SECONDS
    while not all(latest_version(str(path)) for path in paths):
        started.check()
        if time.monotonic() > over:
            raise ContenderError(f"not all gold tables have rows\n{started.said()}")
        time.sleep(_POLL_SECONDS)


def _wrong(
    ours: Ours, folder: Path, paths: Sequence[Path], started: Started, stream: Stream, sent: int
) -> list[str]:
    """The gold tables that do not come to equal the oracle."""
    wanted = latest_of(expected(stream, sent).silver).sort("user_id")
    over = time.monotonic() + _TIMEOUT_SECONDS
    left = list(paths)
    while left:
        left = [path for path in left if not rows(path, LATEST).sort("user_id").equals(wanted)]
        started.check()
        if time.monotonic() > over:
            return [f"{path.name} differs from the oracle" for path in left]
        time.sleep(_POLL_SECONDS)
    return []


def gold_tables(run: Run) -> Section:
    """W15."""
    rate = run.per_second or 2_000
    seconds, warm_up = run.sized(run.seconds, 120, 30), run.sized(run.warm_up, 120, 20)
    found = [measured(run, tables, rate, seconds, warm_up) for tables in (FEW, MANY)]
    failures = [f"{one.tables} gold tables: {fault}" for one in found for fault in one.failures]
    title = "Gold: five tables of one source"
    return Section("gold_tables", title, lines(found, rate), goals(found), found, failures)


def goals(found: Sequence[Cost]) -> list[Goal]:
    """CPU of the whole job."""
    few, many = found
    void = "its tables differ from the oracle's" if few.failures or many.failures else ""
    times = None if void else ratio(many.usage.cpu / many.usage.seconds, few.usage.cpu / few.usage.seconds)
    what = f"W15 CPU of a job with {many.tables} gold tables of one source / with {few.tables}"
    return [Goal(what, times, MOST_TIMES, "at most", void)]


def lines(found: Sequence[Cost], per_second: int) -> list[str]:
    """The section's text."""
    few, many = found
    each = (many.usage.cores - few.usage.cores) / (many.tables - few.tables)
    what = (
        f"`medallion up` with `bronze.trigger: {TRIGGER}` under {per_second:,} messages a second, one silver "
        f"table, and gold tables that are all the same `Upsert` by user; each job from nothing, over "
        f"{few.usage.seconds:.0f} s after a warm-up. In the end the gold tables equalled the oracle's. One "
        f"more gold table took {number(each)} cores."
    )
    body = [
        (
            str(one.tables),
            number(one.usage.cores),
            str(one.commits),
            number(ratio(one.usage.cores, few.usage.cores)),
            f"{one.usage.peak_bytes / 2**30:.2f} GiB",
            f"{one.usage.foreign_cores:.2f}",
        )
        for one in found
    ]
    head = ("gold tables", "cores", "commits to gold", "times one", "peak memory", "foreign cores")
    return [what, "", *table(head, body)]
