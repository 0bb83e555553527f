"""W1, W1b, W10: what is in the topic, drained into fresh tables by each contender, one after the other.

A topic is filled once. In each round every contender starts a new process over an empty folder, ours first;
clock and CPU run from its start to its end, that of its JVM included. A run whose tables differ from the
oracle's is a failure, and none of its figures are used.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable

from tests.bench import topic
from tests.bench.contenders.contender import Contender
from tests.bench.contenders.started import ContenderError
from tests.bench.events import Stream
from tests.bench.machine import Meter, Usage
from tests.bench.oracle import Expected, Tables, differences, expected
from tests.bench.plots import Bars, Plot
from tests.bench.report import Section, table
from tests.bench.run import OURS, Run
from tests.bench.stats import Goal, median, number, ratio

_TIMEOUT_SECONDS = 3_600.0
_BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Drained:
    """One contender's run.

    Attributes:
        usage: From its start to its end; figures of the broker are in ``usage.others``.
        events: Messages that it read.
        tables: Live files, commits and bytes of each table at the end.
        failures: Why the run does not count; empty where it does.
    """

    contender: str
    events: int
    usage: Usage
    tables: Mapping[str, Mapping[str, int]]
    failures: Sequence[str] = field(default_factory=tuple)

    @property
    def cpu_per_million(self) -> float:
        """Seconds of CPU per million messages."""
        return self.usage.cpu / self.events * 1e6

    @property
    def per_second(self) -> float:
        """Messages per second on the clock."""
        return self.events / self.usage.seconds


@dataclass(frozen=True, slots=True)
class Drain:
    """All rounds of one workload."""

    events: int
    rounds: int
    runs: tuple[Drained, ...]

    def of(self, contender: str) -> list[Drained]:
        """A contender's runs that count."""
        return [run for run in self.runs if run.contender == contender and not run.failures]

    def cpu(self, contender: str) -> float:
        """Median seconds of CPU per million messages."""
        return median([run.cpu_per_million for run in self.of(contender)])

    def rate(self, contender: str) -> float:
        """Median messages per second, of runs whose clock may be believed; else not a number."""
        return median([run.per_second for run in self.of(contender) if run.usage.refusal is None])

    @property
    def contenders(self) -> list[str]:
        """In the order in which they took turns."""
        return list(dict.fromkeys(run.contender for run in self.runs))

    @property
    def failures(self) -> list[str]:
        """Of all runs."""
        return [f"{run.contender}: {failure}" for run in self.runs for failure in run.failures]


def measured(
    run: Run,
    name: str,
    stream: Stream,
    events: int,
    rounds: int,
    peers: Sequence[str],
    *,
    bronze_only: bool = False,
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
    """
    run.say(f"{name}: {events:,} messages into a topic, and the oracle's word on them")
    source = topic.filled(run.broker, name, stream, events)
    wanted = expected(stream, events, bronze_only=bronze_only)
    runs = []
    for turn in range(rounds):
        for contender in run.contenders(peers):
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
        Meter({contender.name: started.pid, _BROKER: run.broker.pid}) as meter,
    ):
        before = meter.read()
        try:
            started.await_end(_TIMEOUT_SECONDS)
        except ContenderError as error:
            failures.append(str(error))
        usage = meter.read().since(before, contender.name)
    tables = contender.tables(folder)
    if not failures:
        failures += differences(
            tables, wanted, may_lack_beyond=contender.drops_beyond, bronze_only=bronze_only
        )
    return Drained(contender.name, wanted.messages, usage, table_facts(tables), tuple(failures))


def table_facts(tables: Tables) -> dict[str, dict[str, int]]:
    """Live files, commits and bytes by table, of those that there are."""
    found = {}
    for name, path in tables.all().items():
        if DeltaTable.is_deltatable(str(path)):
            read = DeltaTable(str(path))
            sizes = read.get_add_actions(flatten=True).column("size_bytes").to_pylist()
            found[name] = {"files": len(sizes), "commits": read.version() + 1, "bytes": sum(sizes)}
    return found


def _line(name: str, turn: int, done: Drained) -> str:
    usage = done.usage
    verdict = f"FAILED: {done.failures[0]}" if done.failures else "tables equal the oracle"
    return (
        f"{name} round {turn + 1}, {done.contender}: {usage.seconds:.1f} s, {usage.cpu:.1f} CPU s, "
        f"broker {usage.others[_BROKER]:.1f}, others {usage.foreign_cores:.2f} cores; {verdict}"
    )


def lines(drain: Drain, what: str) -> list[str]:
    """The section's text: what was run, then a row per contender, each the median of its rounds."""
    rows = []
    base = drain.cpu(OURS)
    base_rate = drain.rate(OURS)
    for name in drain.contenders:
        runs = drain.of(name)
        if not runs:
            rows.append((name, *("failed",) * 10))
            continue
        rate = drain.rate(name)
        facts = runs[-1].tables.values()
        rows.append(
            (
                name,
                number(rate),
                number(drain.cpu(name)),
                number(ratio(drain.cpu(name), base)),
                number(ratio(base_rate, rate)),
                number(median([run.usage.cores for run in runs])),
                number(median([run.usage.others[_BROKER] / run.events * 1e6 for run in runs])),
                f"{max(run.usage.peak_bytes for run in runs) / 2**30:.2f} GiB",
                str(sum(fact["files"] for fact in facts)),
                str(sum(fact["commits"] for fact in facts)),
                f"{max(run.usage.foreign_cores for run in runs):.2f}",
            )
        )
    head = (
        "who",
        "messages/s",
        "CPU s per million",
        "times our CPU",
        "ours is faster, times",
        "cores",
        "broker's CPU s per million",
        "peak memory",
        "files",
        "commits",
        "foreign cores, most",
    )
    return [what, "", *table(head, rows)]


def _intro(drain: Drain, names: Sequence[Contender], what: str) -> str:
    who = "; ".join(f"`{one.name}`: {one.what}" for one in names)
    return (
        f"{drain.events:,} messages of about 540 bytes in a topic of 4 partitions, {what}, drained into "
        f"fresh tables by a process started anew; {drain.rounds} round(s) in which all take turns, median. "
        f"Tables were compared to the oracle's after each. {who}. Messages per second are - where others "
        "used more than 0.3 cores of the machine."
    )


def _section(
    run: Run, drain: Drain, name: str, title: str, what: str, peers: Sequence[str], goals: Sequence[Goal]
) -> Section:
    bars = Bars(
        f"{title}: CPU seconds per million messages",
        {who: drain.cpu(who) for who in drain.contenders},
        "CPU s",
    )
    plots: list[Plot] = [bars]
    return Section(
        name,
        title,
        lines(drain, _intro(drain, run.contenders(peers), what)),
        goals,
        drain,
        drain.failures,
        plots,
    )


def drained(run: Run) -> Section:
    """W1: all three layers."""
    peers = ("tutorial", "polars")
    events, rounds = run.sized(run.events, 1_000_000, 20_000), run.sized(run.rounds, 3, 1)
    drain = measured(run, "drain", Stream(), events, rounds, peers)
    goals = []
    if "tutorial" in drain.contenders:
        cpu = ratio(drain.cpu("tutorial"), drain.cpu(OURS))
        wall = ratio(drain.rate(OURS), drain.rate("tutorial"))
        goals += [
            Goal(f"W1 {events:,} cold, CPU of the tutorial / ours", cpu, 6, "at least"),
            Goal(f"W1 {events:,} cold, speed of ours / the tutorial", wall, 6, "at least", _why(wall)),
        ]
    if "polars" in drain.contenders:
        wall = ratio(drain.rate(OURS), drain.rate("polars"))
        cpu = ratio(drain.cpu("polars"), drain.cpu(OURS))
        goals += [
            Goal(f"W1 {events:,} cold, speed of ours / the Polars loop", wall, 0.7, "at least", _why(wall)),
            Goal(f"W1 {events:,} cold, CPU of the Polars loop / ours", cpu, 0.7, "at least"),
        ]
    what = "5 % duplicates, 2 % late, 1 % malformed"
    return _section(run, drain, "drain", "Drain: Kafka to gold", what, peers, goals)


def bronze(run: Run) -> Section:
    """W1b: the first hop alone."""
    peers = ("tutorial", "polars")
    events, rounds = run.sized(run.events, 1_000_000, 20_000), run.sized(run.rounds, 3, 1)
    drain = measured(run, "bronze", Stream(), events, rounds, peers, bronze_only=True)
    what = "to bronze alone"
    return _section(run, drain, "bronze", "Drain: Kafka to bronze", what, peers, ())


def malformed(run: Run) -> Section:
    """W10: half of the records cannot be read; against the same number of clean ones."""
    events, rounds = run.sized(run.events, 1_000_000, 20_000), run.sized(run.rounds, 3, 1)
    clean = measured(run, "clean", Stream(malformed=0.0), events, rounds, ())
    bad = measured(run, "malformed", Stream(malformed=0.5), events, rounds, ())
    wall, cpu = ratio(bad.rate(OURS), clean.rate(OURS)), ratio(clean.cpu(OURS), bad.cpu(OURS))
    goals = [
        Goal(f"W10 {events:,}, speed with half malformed / none", wall, 0.8, "at least", _why(wall)),
        Goal(f"W10 {events:,}, CPU with none / half malformed", cpu, 0.8, "at least"),
    ]
    first = lines(clean, _intro(clean, run.contenders(()), "none of them malformed"))
    second = lines(bad, "The same with half of them malformed:")
    return Section(
        "malformed",
        "Drain: half of the records malformed",
        [*first, "", *second],
        goals,
        {"clean": clean, "malformed": bad},
        [*clean.failures, *bad.failures],
    )


def _why(wall: float) -> str:
    return "others used the machine" if wall != wall else ""  # noqa: PLR0124  # not a number
