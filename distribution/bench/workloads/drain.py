"""W1 to W1d, W10: what is in the topic, drained into fresh tables by each contender, one after the other.

A topic is filled once. In each round every contender starts a new process over an empty folder, ours first;
clock and CPU run from its start to its end, that of its JVM included. A run whose tables differ from the
oracle's is a failure, and none of its figures are used.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from math import nan
from pathlib import Path

from distribution.bench.contenders.contender import Contender
from distribution.bench.contenders.started_process import ContenderError
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.measure.machine import Meter
from distribution.bench.measure.oracle import Expected, differences, expected
from distribution.bench.measure.stats import Goal, number, ratio
from distribution.bench.reporting.drain_report import (
    BROKER,
    Drain,
    Drained,
    against_the_loop,
    bars,
    further,
    further_goal,
    goals,
    intro,
    lines,
    why,
)
from distribution.bench.reporting.report import Section
from distribution.bench.run import OURS, Run

_TIMEOUT_SECONDS = 3_600.0


def measured(
    run: Run,
    name: str,
    stream: Stream,
    events: int,
    rounds: int,
    peers: Sequence[str],
    *,
    bronze_only: bool = False,
    wide: bool = False,
) -> Drain:
    """Fill a topic, and have the contenders drain it in turns.

    Args:
        run: Sizes, broker, folder.
        name: Of the topic; also of the folders.
        stream: What is in the topic.
        events: How many messages of it.
        rounds: Turns of each.
        peers: Whom ours is measured against, unless the command line says.
        bronze_only: Only the first hop.
        wide: All fields of the events, and a rule.
    """
    run.say(f"{name}: {events:,} messages into a topic, and the oracle's word on them")
    source = topic.filled(run.broker, name, stream, events)
    wanted = expected(stream, events, bronze_only=bronze_only, wide=wide)
    runs = []
    for turn in range(rounds):
        for contender in run.contenders(peers, wide=wide):
            folder = run.scratch(f"{name}-{contender.name}-{turn}")
            done = _drained(run, contender, folder, source, wanted, bronze_only=bronze_only)
            run.say(_line(name, turn, done))
            runs.append(done)
            shutil.rmtree(folder)
    return Drain(events, rounds, tuple(runs))


def _drained(
    run: Run,
    contender: Contender,
    folder: Path,
    source: topic.Source,
    wanted: Expected,
    *,
    bronze_only: bool,
) -> Drained:
    failures: list[str] = []
    with (
        contender.drain(folder, source, bronze_only=bronze_only) as started,
        Meter({contender.name: started.pid, BROKER: run.broker.pid}) as meter,
    ):
        try:
            started.await_end(_TIMEOUT_SECONDS)
        except ContenderError as error:
            failures.append(str(error))
        usage = meter.read().since(meter.at_birth(contender.name, started.began), contender.name)
        phases = started.phases()
    tables = contender.tables(folder)
    if not failures:
        failures += differences(
            tables, wanted, may_lack_beyond=contender.drops_beyond, bronze_only=bronze_only
        )
    facts = {name: found for name in tables.all() if (found := tables.facts(name)) is not None}
    return Drained(contender.name, wanted.messages, usage, facts, phases, tuple(failures))


def _line(name: str, turn: int, done: Drained) -> str:
    usage = done.usage
    verdict = f"FAILED: {done.failures[0]}" if done.failures else "tables equal the oracle"
    return (
        f"{name} round {turn + 1}, {done.contender}: {usage.seconds:.1f} s, {usage.cpu:.1f} CPU s, "
        f"broker {usage.others[BROKER]:.1f}, others {usage.foreign_cores:.2f} cores; {verdict}"
    )


def drained(run: Run) -> Section:
    """W1: all three layers; in full a million beside the tutorial, and two millions beside the others."""
    rounds = run.sized(run.rounds, 3, 1)
    sizes = [(run.sized(run.events, 0, 20_000), ("tutorial", "polars", "flink"))]
    if not sizes[0][0]:
        sizes = [(1_000_000, ("tutorial",)), (2_000_000, ("polars", "flink"))]
    what = "5 % duplicates, 2 % late, 1 % malformed"
    drains, text = [], []
    for events, peers in sizes:
        drain = measured(run, f"drain-{events}", Stream(), events, rounds, peers)
        drains.append(drain)
        text += ["", *lines(drain, intro(drain, run.contenders(peers), what))]
    return Section(
        "drain",
        "Drain: Kafka to gold",
        text[1:],
        [goal for drain in drains for goal in goals(drain)],
        drains,
        [failure for drain in drains for failure in drain.failures],
        [bars("Drain", drain) for drain in drains],
    )


MILLIONS = (1, 2, 5, 10)
MOST_PER_MILLION = 20.0
"""CPU seconds of each further million."""


def millions(run: Run) -> Section:
    """W1c: what each further million costs; the largest beside the loop."""
    counts = [count * (10_000 if run.quick else 1_000_000) for count in MILLIONS]
    drains = [
        measured(run, f"millions-{count}", Stream(), count, 1, ("polars",) if count == counts[-1] else ())
        for count in counts
    ]
    text = further(drains)
    return Section(
        "millions",
        "Drain: what each further million costs",
        [*text, "", *lines(drains[-1], "The largest of them:")],
        [further_goal(drains, MOST_PER_MILLION), *goals(drains[-1])],
        drains,
        [failure for drain in drains for failure in drain.failures],
    )


def wide(run: Run) -> Section:
    """W1d: events declared whole, few groups, many keys touched at random; two sizes beside the loop."""
    events, rounds = run.sized(run.events, 1_000_000, 10_000), run.sized(run.rounds, 1, 1)
    stream = Stream(products=50, note=135)
    drains = [
        measured(run, f"wide-{count}", stream, count, rounds, ("polars",), wide=True)
        for count in (events, 2 * events)
    ]
    ratios = against_the_loop(drains)
    what = (
        f"{drains[0].events:,} and {drains[1].events:,} messages of 478 bytes, all 17 fields declared, 15 "
        "columns of silver, one rule, 50 groups, the newest event of each of 100,000 users; 5 % duplicates, "
        f"2 % late, 1 % malformed; {rounds} round(s) in which all take turns."
    )
    first = [
        f"- {goal.what.removeprefix('W1 wide events, ')}: {number(goal.measured or nan)}" for goal in ratios
    ]
    return Section(
        "wide",
        "Drain: events declared whole",
        [what, "", *first, *(line for drain in drains for line in ("", *lines(drain, f"{drain.events:,}:")))],
        ratios,
        drains,
        [failure for drain in drains for failure in drain.failures],
    )


def bronze(run: Run) -> Section:
    """W1b: the first hop alone."""
    peers = ("tutorial", "polars")
    events, rounds = run.sized(run.events, 1_000_000, 20_000), run.sized(run.rounds, 3, 1)
    drain = measured(run, "bronze", Stream(), events, rounds, peers, bronze_only=True)
    return Section(
        "bronze",
        "Drain: Kafka to bronze",
        lines(drain, intro(drain, run.contenders(peers), "to bronze alone")),
        raw=drain,
        failures=drain.failures,
        plots=[bars("Bronze", drain)],
    )


def malformed(run: Run) -> Section:
    """W10: half of the records cannot be read; against the same number of clean ones."""
    events, rounds = run.sized(run.events, 1_000_000, 20_000), run.sized(run.rounds, 3, 1)
    clean = measured(run, "clean", Stream(malformed=0.0), events, rounds, ())
    bad = measured(run, "malformed", Stream(malformed=0.5), events, rounds, ())
    wall, cpu = ratio(bad.rate(OURS), clean.rate(OURS)), ratio(clean.cpu(OURS), bad.cpu(OURS))
    goals = [
        Goal(f"W10 {events:,}, speed with half malformed / none", wall, 0.8, "at least", why(wall)),
        Goal(f"W10 {events:,}, CPU with none / half malformed", cpu, 0.8, "at least"),
    ]
    first = lines(clean, intro(clean, run.contenders(()), "none of them malformed"))
    second = lines(bad, "The same with half of them malformed:")
    return Section(
        "malformed",
        "Drain: half of the records malformed",
        [*first, "", *second],
        goals,
        {"clean": clean, "malformed": bad},
        [*clean.failures, *bad.failures],
    )
