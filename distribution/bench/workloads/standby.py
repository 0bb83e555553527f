"""W6, restart with a standby: the job is killed or handed over under a steady stream, time after time.

A standby waits beside the job, ready and warm. Then the job is killed, Python and JVM at once, or ended by
``medallion hand-over``. The clock of a kill runs from there to the first row of gold, read by delta-rs, that
has seen an event sent after the kill. The gap of a hand-over is the longest time in which neither gold table
got new rows. In the end all tables must equal the oracle: nothing lost, nothing twice.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path

from distribution.bench.contenders.ours import Ours
from distribution.bench.contenders.started_process import ContenderError, Started
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.data.sender import sending
from distribution.bench.data.topic import Source
from distribution.bench.measure.machine import Meter, Usage
from distribution.bench.measure.settling import settled
from distribution.bench.measure.stats import Goal, median, number
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import OURS, Run
from distribution.bench.workloads.restart import Gold, is_up_to_date

KILL_SECONDS, HAND_OVER_SECONDS, CORES = 3.0, 2.0, 0.05
"""Until a fresh row of gold after a kill; without one in a hand-over; of a standby between warmings."""
_TIMEOUT_SECONDS = 300.0
_WARM_SECONDS = 75.0
"""A standby warms itself about once a minute."""
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """One change from a job to its standby.

    Attributes:
        how: ``kill`` or ``hand-over``.
        gap: Seconds without fresh rows of gold.
        ready: Seconds from the standby's start until it was ready.
        waiting: What the standby used while it waited.
        resident: Memory of the standby at its end, bytes.
        cpu: Seconds of CPU of the standby from the end of the job to the fresh rows.
    """

    how: str
    gap: float
    ready: float
    waiting: Usage
    resident: int
    cpu: float


def changed(run: Run, per_second: int, changes: int) -> tuple[list[Change], list[str]]:
    """Change from a job to its standby so many times; and what is wrong with the tables then."""
    folder, ours = run.scratch("standby"), run.ours()
    source = topic.made(run.broker, "standby")
    stream = Stream(seed=6, start=time.time_ns() // 1_000 + _SECOND, per_second=per_second)
    gold = Gold(ours.tables(folder))
    found: list[Change] = []
    with sending(source, stream, folder) as sender:
        job = ours.run(folder, source)
        try:
            for number_ in range(changes):
                gold.until(lambda: is_up_to_date(gold), job)
                how = "hand-over" if number_ % 2 else "kill"
                job, one = _changed(run, folder, source, gold, job, how, sender.started.pid)
                found.append(one)
                run.say(
                    f"standby: {how}: {one.gap:.1f} s, {one.cpu:.1f} CPU s; ready after {one.ready:.1f} s; "
                    f"{one.waiting.cores:.3f} cores for {one.waiting.seconds:.0f} s, "
                    f"{one.resident / 2**20:,.0f} MiB"
                )
            sent = sender.stop()
            wrong = settled(ours, folder, job, stream, sent, seconds=_TIMEOUT_SECONDS)
            if not wrong:
                job.stop()
        finally:
            job.end()
    return found, wrong


def _changed(  # a change and all that it concerns
    run: Run, folder: Path, source: Source, gold: Gold, job: Started, how: str, sender: int
) -> tuple[Started, Change]:
    """Start a standby, wait until it is warm, and end the job; the standby, which is the job then."""
    ours = run.ours()
    standby = ours.command(folder, source, "up", "--standby")
    try:
        gold.until(lambda: "is ready: it goes on when" in standby.said(), standby)
        ready = time.monotonic() - standby.began
        others = {"job": job.pid, "broker": run.broker.pid, "sender": sender}
        with Meter({OURS: standby.pid, **others}) as meter:
            before = meter.read()
            time.sleep(_WARM_SECONDS if run.warm_up is None else run.warm_up)
            after = meter.read()
            if how == "kill":
                gap = _killed(gold, job, standby)
            else:
                gap = _handed_over(ours, folder, source, gold, job, standby)
            cpu = meter.read().since(after, OURS).cpu
        waiting = after.since(before, OURS)
    except BaseException:
        standby.end()
        raise
    job.end()
    return standby, Change(how, gap, ready, waiting, waiting.peak_bytes, cpu)


def _killed(gold: Gold, job: Started, standby: Started) -> float:
    job.kill()
    killed = time.time_ns() // 1_000
    gold.poll()  # what it had still written is not what comes after
    return gold.until(lambda: max(gold.newest.values()) > killed, standby) - killed / _SECOND


def _handed_over(
    ours: Ours, folder: Path, source: Source, gold: Gold, job: Started, standby: Started
) -> float:
    """Hand over; the longest time in which gold got no rows, from the command's start to its end."""
    gold.poll()
    moments = [gold.changed_at]
    with ours.command(folder, source, "hand-over") as command:
        over = time.monotonic() + _TIMEOUT_SECONDS
        while command.is_running():
            gold.poll()
            if gold.changed_at != moments[-1]:
                moments.append(gold.changed_at)
            if time.monotonic() > over:
                raise ContenderError(f"the hand-over does not end\n{command.said()}")
            time.sleep(0.02)
        command.await_end(1)
    gold.until(lambda: gold.changed_at > moments[-1], standby)
    moments.append(gold.changed_at)
    return max(b - a for a, b in itertools.pairwise(moments)) / _SECOND


def standby(run: Run) -> Section:
    """W6 with a standby."""
    rate = run.per_second or 2_000
    found, wrong = changed(run, rate, run.sized(run.rounds, 6, 2))
    return Section(
        "standby",
        "A standby: killed and handed over under load",
        lines(found, rate),
        goals(found, wrong),
        found,
        tuple(wrong),
    )


def goals(found: list[Change], wrong: list[str]) -> list[Goal]:
    """Medians."""
    void = "its tables differ from the oracle's" if wrong else ""
    void = void or next((why for one in found if (why := one.waiting.refusal)), "")
    bounds = {"kill": KILL_SECONDS, "hand-over": HAND_OVER_SECONDS}
    gaps = {how: [one.gap for one in found if one.how == how] for how in bounds}
    gone_on = [
        Goal(
            f"W6 standby, {how}, median of {len(gaps[how])}, s",
            None if void else median(gaps[how]),
            bound,
            "at most",
            void,
        )
        for how, bound in bounds.items()
        if gaps[how]
    ]
    if not found:
        return gone_on
    cores = median([one.waiting.cores for one in found])
    return [*gone_on, Goal("W6 standby, cores while it waits", cores, CORES, "at most")]


def lines(found: list[Change], per_second: int) -> list[str]:
    """The section's text."""
    what = (
        f"`medallion up` under {per_second:,} messages a second with `medallion up --standby` beside it, "
        "changed by SIGKILL and `medallion hand-over` in turns. Seconds without fresh rows of gold, as a "
        "reader of delta-rs has them; what the standby used while it waited."
    )
    figures: dict[str, list[float]] = {
        "killed, s": [one.gap for one in found if one.how == "kill"],
        "handed over, s": [one.gap for one in found if one.how == "hand-over"],
        "CPU seconds of the standby up to there, killed": [one.cpu for one in found if one.how == "kill"],
        "until the standby was ready, s": [one.ready for one in found],
        "cores of a standby": [one.waiting.cores for one in found],
        "memory of a standby, MiB": [one.resident / 2**20 for one in found],
    }
    rows = [
        (name, number(min(values)), number(median(values)), number(max(values)))
        for name, values in figures.items()
        if values
    ]
    foreign = max(one.waiting.foreign_cores for one in found)
    note = f"Others than the product, the broker and the sender used up to {foreign:.2f} cores meanwhile."
    return [what, "", *table(("", "least", "median", "most"), rows), "", note]
