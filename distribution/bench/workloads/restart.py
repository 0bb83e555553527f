"""W6, restart: ``medallion up`` is killed under a steady stream and started again, time after time.

The kill is a SIGKILL to Python and JVM at once, at a moment of no choice of theirs. The clock runs from there
to the first row of gold, read by delta-rs, that has seen an event sent after the kill. In the end all
tables must equal the oracle: nothing lost, nothing twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from distribution.bench.contenders.started_process import ContenderError, Started
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.data.sender import sending
from distribution.bench.measure.machine import Meter, Usage
from distribution.bench.measure.oracle import Tables
from distribution.bench.measure.settling import settled
from distribution.bench.measure.stats import Goal, median, number
from distribution.bench.measure.watch import Watch
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import OURS, Run

MOST_SECONDS, WORST_SECONDS = 12.0, 15.0
"""Until the first row of gold: the median of all kills, and the worst one."""
_POLL_SECONDS = 0.05
_TIMEOUT_SECONDS = 300.0
_AT_REST_SECONDS = 15.0
"""Gold is up to date again once both tables have rows no older than that."""
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill, and what came after it, in seconds since.

    Attributes:
        after: Since gold was up to date again after the last one.
        first_commit: Until either gold table had a new version, whatever of.
        first_row: Until either had a row that has seen an event sent after the kill.
        both_rows: Until both had.
        usage: Of the new process up to ``both_rows``.
    """

    after: float
    first_commit: float
    first_row: float
    both_rows: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class Restart:
    """All kills.

    Attributes:
        per_second: Messages per second meanwhile.
        sent: How many messages there were in all.
        failures: What makes the figures void.
    """

    per_second: int
    sent: int
    kills: tuple[Kill, ...]
    failures: tuple[str, ...] = ()

    @property
    def refusal(self) -> str:
        """Why the clock may not be believed; empty where it may."""
        return next((why for kill in self.kills if (why := kill.usage.refusal)), "")


class Gold:
    """The newest moment of sending that each gold table has seen, as a reader of delta-rs finds it.

    Args:
        tables: Where they are.
    """

    def __init__(self, tables: Tables) -> None:
        columns = {"groups": "newest_sent_at", "latest": "sent_at"}
        paths = tables.all()
        self._watches = {name: (Watch(paths[name], [column]), column) for name, column in columns.items()}
        self.newest = dict.fromkeys(columns, 0)
        self.changed_at = 0

    def poll(self) -> None:
        """Look at what is new."""
        for name, (watch, column) in self._watches.items():
            for seen in watch.poll():
                self.changed_at = seen.at
                top = seen.rows.select(pl.col(column).max()).item()
                self.newest[name] = max(self.newest[name], top or 0)

    def until(self, fact: Callable[[], bool], started: Started) -> float:
        """Poll until something holds; when that was, by the clock of ``time.time``.

        Raises:
            ContenderError: The process has ended, or it takes too long.
        """
        over = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            self.poll()
            if fact():
                return time.time()
            started.check()
            if time.monotonic() > over:
                raise ContenderError(f"gold does not come up to date\n{started.said()}")
            time.sleep(_POLL_SECONDS)


def measured(run: Run, per_second: int, kills: int) -> Restart:
    """Start, kill and start again so many times."""
    folder, ours = run.scratch("restart"), run.ours()
    source = topic.made(run.broker, "restart")
    stream = Stream(seed=6, start=time.time_ns() // 1_000 + _SECOND, per_second=per_second)
    gold = Gold(ours.tables(folder))
    chance = random.Random(6)  # noqa: S311  # moments, not secrets
    found: list[Kill] = []
    with sending(source, stream, folder) as sender:
        started = ours.run(folder, source)
        try:
            for number_ in range(kills):
                gold.until(lambda: is_up_to_date(gold), started)
                after = chance.uniform(1, 10)
                time.sleep(after)
                started.kill()
                killed = time.time_ns() // 1_000
                gold.poll()  # what it had still written is not what comes after
                started = ours.run(folder, source)
                others = {"broker": run.broker.pid, "sender": sender.started.pid}
                with Meter({OURS: started.pid, **others}) as meter:
                    found.append(_kill(gold, started, meter, killed, after))
                run.say(
                    f"restart: kill {number_ + 1}: first row after {found[-1].first_row:.1f} s, in both "
                    f"tables after {found[-1].both_rows:.1f} s, {found[-1].usage.cpu:.1f} CPU s"
                )
            sent = sender.stop()
            wrong = settled(ours, folder, started, stream, sent, seconds=_TIMEOUT_SECONDS)
            if not wrong:
                started.stop()
        finally:
            started.end()
    return Restart(per_second, sent, tuple(found), tuple(wrong))


def is_up_to_date(gold: Gold) -> bool:
    """Whether both gold tables have rows that are young enough."""
    newest = time.time() * _SECOND - min(gold.newest.values())
    return newest < _AT_REST_SECONDS * _SECOND


def _kill(gold: Gold, started: Started, meter: Meter, killed: int, after: float) -> Kill:
    """What comes after a kill at that moment, microseconds since 1970."""
    before, last = meter.at_birth(OURS, started.began), gold.changed_at
    gold.until(lambda: gold.changed_at > last, started)
    commit = gold.changed_at
    row = gold.until(lambda: max(gold.newest.values()) > killed, started)
    both = gold.until(lambda: min(gold.newest.values()) > killed, started)
    usage = meter.read().since(before, OURS)
    moment = killed / _SECOND
    return Kill(after, commit / _SECOND - moment, row - moment, both - moment, usage)


def restart(run: Run) -> Section:
    """W6."""
    title = "Restart: killed under load"
    rate = run.per_second or 2_000
    found = measured(run, rate, run.sized(run.rounds, 10, 2))
    return Section("restart", title, lines(found, run.settings), goals(found), found, found.failures)


def goals(found: Restart) -> list[Goal]:
    """By the median, and by the worst."""
    void = found.refusal or ("its tables differ from the oracle's" if found.failures else "")
    seconds = [kill.first_row for kill in found.kills]
    return [
        Goal(
            f"W6 restart, {what} of {len(seconds)} kills, s",
            None if void else of,
            bound,
            "at most",
            void,
        )
        for what, of, bound in (
            ("median", median(seconds), MOST_SECONDS),
            ("worst", max(seconds), WORST_SECONDS),
        )
    ]


def lines(found: Restart, settings: tuple[str, ...] = ()) -> list[str]:
    """The section's text."""
    given = f" and {', '.join(settings)}" if settings else ""
    end = "equalled the oracle" if not found.failures else f"DIFFERED from the oracle ({found.failures[0]})"
    what = (
        f"`medallion up` with its default settings{given} under {found.per_second:,} messages a second, "
        "killed with SIGKILL, Python and JVM at once, 1 to 10 s after gold was up to date, and started again "
        f"at once; {len(found.kills)} times. Seconds since the kill, until a reader of delta-rs had it. "
        f"{found.sent:,} messages were sent in all; in the end all tables {end}."
    )
    figures: dict[str, list[float]] = {
        "first new gold commit": [kill.first_commit for kill in found.kills],
        "first gold row of an event sent after the kill": [kill.first_row for kill in found.kills],
        "such a row in both gold tables": [kill.both_rows for kill in found.kills],
        "CPU seconds up to there": [kill.usage.cpu for kill in found.kills],
    }
    rows = [
        (name, number(min(values)), number(median(values)), number(max(values)))
        for name, values in figures.items()
    ]
    foreign = max(kill.usage.foreign_cores for kill in found.kills)
    note = f"Others than the product, the broker and the sender used up to {foreign:.2f} cores meanwhile."
    return [what, "", *table(("seconds", "least", "median", "most"), rows), "", note]
