"""How drains are told: figures of all rounds, a table, where the time went, and goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distribution.bench.contenders.contender import Contender
from distribution.bench.measure.machine import Usage
from distribution.bench.measure.stats import Goal, median, number, ratio
from distribution.bench.reporting.plots import Bars
from distribution.bench.reporting.report import table
from distribution.bench.run import OURS

BROKER = "broker"
TIMES_THE_TUTORIAL, OF_THE_LOOP = 4.5, 0.5
"""How much faster than the tutorial, and than the hand-written loop, a drain should be."""
OF_FLINK = 0.6
"""CPU of a drain in times of Flink's."""
_REST = "start, end and between"


@dataclass(frozen=True, slots=True)
class Drained:
    """One contender's run.

    Attributes:
        usage: From its start to its end; figures of the broker are in ``usage.others``.
        events: Messages that it read.
        tables: Live files, commits and bytes of each table at the end.
        phases: Seconds by what the process says of itself; what is left is its start and its end.
        failures: Why the run does not count; empty where it does.
    """

    contender: str
    events: int
    usage: Usage
    tables: Mapping[str, Mapping[str, int]]
    phases: Mapping[str, float] = field(default_factory=dict)
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
                number(median([run.usage.others[BROKER] / run.events * 1e6 for run in runs])),
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
    return [what, "", *table(head, rows), "", *_phase_lines(drain)]


def _phase_lines(drain: Drain) -> list[str]:
    """Where the time went, as each process says of itself: of its last run that counts."""
    last = {name: drain.of(name)[-1] for name in drain.contenders if drain.of(name)}
    body = [
        (
            name,
            phase,
            "-" if run.usage.refusal else f"{seconds:.1f}",
            f"{seconds / run.usage.seconds:.0%}".replace("%", " %"),
        )
        for name, run in last.items()
        for phase, seconds in [*run.phases.items(), (_REST, run.usage.seconds - sum(run.phases.values()))]
    ]
    return table(("who", "phase", "seconds", "of its time"), body)


def intro(drain: Drain, names: Sequence[Contender], what: str) -> str:
    who = "; ".join(f"`{one.name}`: {one.what}" for one in names)
    return (
        f"{drain.events:,} messages of about 540 bytes in a topic of 4 partitions, {what}, drained into "
        f"fresh tables by a process started anew; {drain.rounds} round(s) in which all take turns, median. "
        f"Tables were compared to the oracle's after each. {who}. Messages per second are - where others "
        "used more than 0.3 cores of the machine."
    )


def goals(drain: Drain) -> list[Goal]:
    """The bounds: a million beside the tutorial, two beside Flink and the loop, ten beside the loop."""
    goals, size = [], f"W1 {drain.events:,} cold"
    if "tutorial" in drain.contenders:
        cpu = ratio(drain.cpu("tutorial"), drain.cpu(OURS))
        wall = ratio(drain.rate(OURS), drain.rate("tutorial"))
        goals += [
            Goal(f"{size}, CPU of the tutorial / ours", cpu, TIMES_THE_TUTORIAL, "at least"),
            Goal(f"{size}, speed of ours / the tutorial", wall, TIMES_THE_TUTORIAL, "at least", why(wall)),
        ]
    if "polars" in drain.contenders:
        wall = ratio(drain.rate(OURS), drain.rate("polars"))
        cpu = ratio(drain.cpu("polars"), drain.cpu(OURS))
        goals += [
            Goal(f"{size}, speed of ours / the Polars loop", wall, OF_THE_LOOP, "at least", why(wall)),
            Goal(f"{size}, CPU of the Polars loop / ours", cpu, OF_THE_LOOP, "at least"),
        ]
    if "flink" in drain.contenders:
        cpu = ratio(drain.cpu(OURS), drain.cpu("flink"))
        goals.append(Goal(f"{size}, CPU of ours / Flink", cpu, OF_FLINK, "at most"))
    return goals


def per_further_million(drains: Sequence[Drain], who: str = OURS) -> float:
    """CPU seconds of each million of the largest drain beyond those of the smallest."""
    first, last = drains[0], drains[-1]
    more = last.cpu(who) * last.events - first.cpu(who) * first.events
    return ratio(more, last.events - first.events)


def further_goal(drains: Sequence[Drain], most: float) -> Goal:
    """Between the smallest and the largest."""
    what = f"W1 each further million, CPU s, {drains[0].events:,} to {drains[-1].events:,}"
    return Goal(what, per_further_million(drains), most, "at most")


def further(drains: Sequence[Drain]) -> list[str]:
    """A row per size, with what its messages cost beyond those of the size before."""
    what = (
        "Topics of 4 partitions, each drained by `medallion backfill` with its default settings into fresh "
        "tables, which equalled the oracle's after each; one run per size."
    )
    body = []
    for place, drain in enumerate(drains):
        usage = drain.of(OURS)[-1].usage if drain.of(OURS) else None
        body.append(
            (
                f"{drain.events:,}",
                *(("failed",) * 2 if usage is None else (f"{usage.seconds:.1f}", f"{usage.cpu:.1f}")),
                number(drain.rate(OURS)),
                "-" if not place else number(per_further_million(drains[place - 1 : place + 1])),
                "-" if usage is None else f"{usage.peak_bytes / 2**30:.2f} GiB",
            )
        )
    head = ("messages", "seconds", "CPU s", "messages/s", "CPU s per further million", "peak memory")
    return [what, "", *table(head, body)]


def against_the_loop(drains: Sequence[Drain]) -> list[Goal]:
    """What a further million takes, and how fast the larger drain is, as ratios to the loop beside it."""
    last = drains[-1]
    more = ratio(per_further_million(drains), per_further_million(drains, "polars"))
    wall = ratio(last.rate(OURS), last.rate("polars"))
    size = f"W1 wide events, {last.events:,} cold"
    return [
        Goal("W1 wide events, CPU of each further million, ours / the Polars loop", more, 1.5, "at most"),
        Goal(f"{size}, speed of ours / the Polars loop", wall, 0.7, "at least", why(wall)),
    ]


def bars(what: str, drain: Drain) -> Bars:
    values = {who: drain.cpu(who) for who in drain.contenders}
    return Bars(f"{what} of {drain.events:,}: CPU seconds per million messages", values, "CPU s")


def why(wall: float) -> str:
    return "others used the machine" if wall != wall else ""  # noqa: PLR0124  # not a number
