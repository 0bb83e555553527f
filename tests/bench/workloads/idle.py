"""W8, idle: what ``medallion up`` costs when there is nothing to do.

A topic is taken to the end and the tables are compared to the oracle; then, after a while in which whatever
is left may be done, CPU and commits are counted over minutes in which no message comes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from common.delta.log import latest_version
from tests.bench.contenders.started_process import ContenderError
from tests.bench.data import topic
from tests.bench.data.events import Stream
from tests.bench.measure.machine import Meter, Usage
from tests.bench.measure.oracle import Tables
from tests.bench.measure.settling import all_paths, settled
from tests.bench.measure.stats import Goal
from tests.bench.reporting.report import Section, table
from tests.bench.run import OURS, Run

MOST_CORES = 0.05
_MESSAGES = 20_000
_DRAIN_SECONDS = 300.0
_BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Idle:
    """What was used, and written, while there was nothing to do.

    Attributes:
        usage: Of the product; the broker's is in its ``others``.
        commits: By table, those made meanwhile.
        failures: What makes the figures void.
    """

    usage: Usage
    commits: Mapping[str, int]
    failures: tuple[str, ...] = ()

    @property
    def all_commits(self) -> int:
        """Of all tables."""
        return sum(self.commits.values())


def versions(tables: Tables) -> dict[str, int]:
    """The newest version of each table, the one of late events among them; -1 where there is no table."""
    found = {name: latest_version(str(path)) for name, path in all_paths(tables).items()}
    return {name: -1 if version is None else version for name, version in found.items()}


def measured(run: Run, seconds: float, warm_up: float) -> Idle:
    """Drain, rest, count."""
    folder, ours = run.scratch("idle"), run.ours()
    stream = Stream(seed=8)
    source = topic.filled(run.broker, "idle", stream, _MESSAGES)
    with (
        ours.run(folder, source) as started,
        Meter({OURS: started.pid, _BROKER: run.broker.pid}) as meter,
    ):
        wrong = settled(ours, folder, started, stream, _MESSAGES, seconds=_DRAIN_SECONDS)
        if wrong:
            raise ContenderError("; ".join(wrong))
        run.say(f"idle: all is done; {warm_up} s of rest, then {seconds} s are measured")
        time.sleep(warm_up)
        tables = ours.tables(folder)
        before, written = meter.read(), versions(tables)
        time.sleep(seconds)
        usage, now = meter.read().since(before, OURS), versions(tables)
        started.check()
        started.stop()
    done = Idle(usage, {name: now[name] - written[name] for name in now})
    run.say(f"idle: {usage.cores:.3f} cores, {done.all_commits} commits")
    return done


def idle(run: Run) -> Section:
    """W8."""
    seconds, warm_up = run.sized(run.seconds, 600, 60), run.sized(run.warm_up, 60, 20)
    title = "Idle: nothing comes"
    found = measured(run, seconds, warm_up)
    return Section("idle", title, lines(found, run.settings), goals(found), found)


def goals(found: Idle) -> list[Goal]:
    """By what was measured, however long."""
    told = "" if found.usage.seconds >= 600 else f"over {found.usage.seconds:.0f} s, not 600"
    return [
        Goal("W8 idle, cores", found.usage.cores, MOST_CORES, "at most", told),
        Goal("W8 idle, commits", found.all_commits, 0, "at most", told),
    ]


def lines(found: Idle, settings: tuple[str, ...] = ()) -> list[str]:
    """The section's text."""
    given = f" and {', '.join(settings)}" if settings else ""
    what = (
        f"`medallion up` with its default settings{given}, all of {_MESSAGES:,} messages in the tables, "
        f"which equal the oracle; no message for {found.usage.seconds:.0f} s."
    )
    usage = found.usage
    row = (
        f"{usage.cores:.3f}",
        f"{usage.others[_BROKER] / usage.seconds:.3f}",
        ", ".join(f"{name} {count}" for name, count in found.commits.items() if count) or "0",
        f"{usage.peak_bytes / 2**30:.2f} GiB",
        f"{usage.foreign_cores:.2f}",
    )
    head = ("cores", "cores of the broker", "commits", "peak memory", "foreign cores")
    return [what, "", *table(head, [row])]
