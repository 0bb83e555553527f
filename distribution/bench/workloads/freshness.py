"""W2: from the moment at which an event was to be sent, to the moment at which a reader sees it.

Each contender runs with its running triggers, ours with its defaults, while a sender keeps its schedule
and a reader of delta-rs polls silver and both gold tables. What is measured are the events of a window that
begins when gold has its first row and a warm-up has passed; sending goes on until the window's rows have
come, or have been waited for long enough. Events that are duplicates, malformed or beyond the watermark do
not count; those that never came do, as older than all that did.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path

import polars as pl

from distribution.bench.contenders.contender import Contender
from distribution.bench.contenders.started_process import ContenderError, Started
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.data.sender import sending
from distribution.bench.measure.fresh_reader import GOLD, TABLES, Ages, Reader, ages
from distribution.bench.measure.machine import Meter, Usage
from distribution.bench.measure.oracle import GROUPS, Expected, Tables, differences, expected
from distribution.bench.measure.stats import Goal, Quantile, number, ratio
from distribution.bench.reporting.plots import Lines
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import OURS, Run

SLOW, FAST = 2_000, 20_000
"""Messages a second."""
POLL_SECONDS = 0.05
FIRST_GOLD_SECONDS = 300.0
"""How long to wait for a first row of gold before the window begins all the same."""
GRACE_SECONDS = 30.0
"""How long rows of the window are waited for after its end."""
CATCH_UP_SECONDS = 120.0
_SECOND = 1_000_000
_MINUTE = 60.0
_FIRST_SECONDS = 120
"""What the picture shows, from the first event on."""
PICTURE = "freshness.svg"
MOST_GROWTH = 1.1
"""Ages in the last minute, in times of those in the second one."""
BESIDE_PEERS = {"polars": ("the Polars loop", 3.0, 1.2), "flink": ("Flink", 0.9, 1.0)}
"""Of a peer, how it is called, and the most of ages of rows in gold, and of cores, in times of its own."""
MOST_WITH_OTHER_WORK = 1.5
"""Ages with other work on the machine, in times of those without."""
FIRST_GOLD_GOAL = 12.0
"""Seconds from a cold start to the first row of gold."""


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute, counted from the first row of gold.

    Attributes:
        number: From 1.
        p50: Of the ages of its events in gold, of the worse of both tables.
        p99: Likewise.
        usage: Of the contender.
    """

    number: int
    p50: Quantile
    p99: Quantile
    usage: Usage


@dataclass(frozen=True, slots=True)
class Fresh:
    """One contender at one rate.

    Attributes:
        warm_up: Seconds from the first rows of gold to the window.
        seconds: Length of the window.
        first_gold_seconds: From its start to the first rows of gold; not a number where none came.
        usage: Over the window.
        kept_up: Whether its tables equalled the oracle's soon after the sending had ended.
        failures: What makes its figures void.
        minutes: Every whole minute of warm-up and window.
        beside: Cores of other work on the machine.
        first: Median and 99th percentile in ``groups`` by second from the first event on.
    """

    contender: str
    per_second: int
    warm_up: float
    seconds: float
    first_gold_seconds: float
    usage: Usage
    ages: Mapping[str, Ages]
    kept_up: bool
    failures: Sequence[str] = field(default_factory=tuple)
    minutes: Sequence[Minute] = ()
    beside: float = 0.0
    first: Sequence[tuple[float, float, float]] = ()

    def gold(self, share: str) -> Quantile:
        """The worse of both gold tables: ``p50`` or ``p99``."""
        return max((getattr(self.ages[name], share) for name in GOLD), key=lambda q: q.seconds)

    @property
    def share_seen(self) -> float:
        """Of the window's events, in the worse of both gold tables."""
        return min(ratio(a.seen, a.seen + a.unseen) for a in (self.ages[name] for name in GOLD))


def measured(
    run: Run, contender: Contender, per_second: int, seconds: float, warm_up: float, *, beside: float = 0.0
) -> Fresh:
    """Run a contender under a steady stream, from nothing, with so many cores of other work beside it."""
    name = f"fresh-{contender.name}-{per_second}{'-beside' if beside else ''}"
    run.say(f"{name}: {warm_up:.0f} s after its first gold row, {seconds:.0f} s are measured")
    folder = run.scratch(name)
    source = topic.made(run.broker, name)
    stream = Stream(seed=7, start=time.time_ns() // 1_000 + _SECOND, per_second=per_second)
    reader = Reader(contender.tables(folder), stream)
    with (
        contender.run(folder, source) as started,
        sending(source, stream, folder) as sender,
        _other_work(beside, folder) as others,
        Meter(
            {
                contender.name: started.pid,
                "broker": run.broker.pid,
                "sender": sender.started.pid,
                **others,
            }
        ) as meter,
    ):

        def watch(seconds: float) -> bool:
            """Poll for so long; whether gold had rows at the end."""
            over = time.monotonic() + seconds
            while (left := over - time.monotonic()) > 0:
                reader.poll()
                time.sleep(min(POLL_SECONDS, left))
            started.check()
            sender.started.check()
            return reader.has_gold

        first_gold = math.nan
        while time.monotonic() - started.began < FIRST_GOLD_SECONDS:
            if watch(POLL_SECONDS):
                first_gold = time.monotonic() - started.began
                break
        run.say(f"{name}: first gold row after {first_gold:.1f} s")
        clock = _Minutes(meter, contender.name)
        clock.watch(watch, warm_up)
        before, begins = meter.read(), time.time_ns() // 1_000
        clock.watch(watch, seconds)
        usage, ends = meter.read().since(before, contender.name), time.time_ns() // 1_000
        window = (begins, ends)
        found = _waited_for(watch, reader, stream, window)
        minutes = clock.ages(reader, stream)
        start = (stream.start, min(ends, stream.start + _FIRST_SECONDS * _SECOND))
        first = ages(reader, stream, start, time.time_ns() // 1_000)["groups"].over_time
        sent = sender.stop()
        kept_up, failures = _caught_up(contender, folder, stream, sent)
        if kept_up:
            started.stop()
    # A peer that does not keep up is told so in the table: its ages are lower bounds, and void nothing.
    void = failures if contender.name == OURS else []
    done = Fresh(
        contender.name,
        per_second,
        warm_up,
        seconds,
        first_gold,
        usage,
        found,
        kept_up=kept_up,
        failures=void,
        minutes=minutes,
        beside=beside,
        first=first,
    )
    run.say(_line(name, done))
    return done


@contextmanager
def _other_work(cores: float, folder: Path) -> Iterator[dict[str, int]]:
    """A process that keeps so much of a core busy, by name; none for 0."""
    if not cores:
        yield {}
        return
    with Started("distribution.bench.measure.busy", [str(cores)], folder / "busy.log") as busy:
        yield {"other work": busy.pid}


class _Minutes:
    """Reads the meter at the end of each minute, over warm-up and window."""

    def __init__(self, meter: Meter, group: str) -> None:
        self._meter, self._group = meter, group
        self._ends = [(time.monotonic(), time.time_ns() // 1_000, meter.read())]

    def watch(self, watch: Callable[[float], bool], seconds: float) -> None:
        """Watch for so long; a minute may begin in one call and end in the next."""
        over = time.monotonic() + seconds
        while (left := over - time.monotonic()) > 0:
            rest = self._ends[-1][0] + _MINUTE - time.monotonic()
            watch(min(left, max(rest, POLL_SECONDS)))
            if time.monotonic() - self._ends[-1][0] >= _MINUTE:
                self._ends.append((time.monotonic(), time.time_ns() // 1_000, self._meter.read()))

    def ages(self, reader: Reader, stream: Stream) -> list[Minute]:
        """Each minute that has ended; the reader has polled until now."""
        found = []
        for place, (start, end) in enumerate(pairwise(self._ends), 1):
            seen = ages(reader, stream, (start[1], end[1]), time.time_ns() // 1_000)
            worst = (max((getattr(seen[name], s) for name in GOLD), key=_seconds) for s in ("p50", "p99"))
            found.append(Minute(place, *worst, usage=end[2].since(start[2], self._group)))
        return found


def _seconds(age: Quantile) -> float:
    return age.seconds


def _waited_for(
    watch: Callable[[float], bool], reader: Reader, stream: Stream, window: tuple[int, int]
) -> dict[str, Ages]:
    """Ages of the window's events, once all have come or have been waited for."""
    over = time.monotonic() + GRACE_SECONDS
    while True:
        found = ages(reader, stream, window, time.time_ns() // 1_000)
        if not any(one.unseen for one in found.values()) or time.monotonic() > over:
            return found
        watch(1.0)


def _caught_up(contender: Contender, folder: Path, stream: Stream, sent: int) -> tuple[bool, list[str]]:
    """Whether its tables come to equal the oracle's within a time; if not, how they differ."""
    wanted = expected(stream, sent)
    tables = contender.tables(folder)
    over = time.monotonic() + CATCH_UP_SECONDS
    while not _is_near(tables, wanted):
        if time.monotonic() > over:
            return False, [f"gold has not got all events {CATCH_UP_SECONDS:.0f} s after the last was sent"]
        time.sleep(1)
    while found := differences(tables, wanted, may_lack_beyond=contender.drops_beyond):
        if time.monotonic() > over:
            return False, found
        time.sleep(1)
    return True, []


def _is_near(tables: Tables, wanted: Expected) -> bool:
    total = tables.rows("groups", GROUPS)["events"].cast(pl.Int64).sum()
    in_time = wanted.silver.filter(~pl.col("is_beyond")).height
    return bool(total >= in_time)


def _line(name: str, done: Fresh) -> str:
    gold = f"gold p50 {done.gold('p50')}, p99 {done.gold('p99')}"
    kept = "tables equal the oracle" if done.kept_up else "DID NOT KEEP UP"
    return f"{name}: {gold}, {done.share_seen:.1%} seen, {done.usage.cores:.2f} cores; {kept}"


def freshness(run: Run) -> Section:
    """W2, at 2,000 and 20,000 messages a second; the faster stream is the shorter one.

    With ``run.beside`` each contender is measured once more, with so many cores of other work beside it.
    """
    rates = (run.per_second,) if run.per_second else (SLOW,) if run.quick else (SLOW, FAST)
    found, failures = [], []
    for rate in rates:
        peers = ("polars",) if rate > SLOW else ("polars", "flink", *(() if run.quick else ("tutorial",)))
        seconds = run.sized(run.seconds, 300 if rate <= SLOW else 120, 30)
        warm_up = run.sized(run.warm_up, 120 if rate <= SLOW else 60, 20)
        others = (0.0, run.beside) if run.beside else (0.0,)
        for one, beside in product(run.contenders(peers), others):
            try:
                found.append(measured(run, one, rate, seconds, warm_up, beside=beside))
            except ContenderError as error:
                run.say(f"{one.name} FAILED: {error}")
                if one.name == OURS:  # a peer that ends voids nothing; it has no line in the table
                    failures.append(f"{one.name} at {rate:,}/s: {error}")
    failures += [
        f"{one.contender} at {one.per_second:,}/s: {fault}" for one in found for fault in one.failures
    ]
    return Section(
        "freshness",
        "Freshness: from sending to a reader",
        _lines(found, run),
        [goal for rate in rates for goal in _goals([one for one in found if one.per_second == rate])],
        found,
        failures,
        [_plot(found, rate) for rate in rates],
        {PICTURE: _first_minutes(found)} if SLOW in rates else {},
    )


def _lines(found: Sequence[Fresh], run: Run) -> list[str]:
    ours = f"; ours with {', '.join(run.settings)}" if run.settings else ""
    what = (
        "Steady streams of messages of about 540 bytes into 4 partitions, measured over a window that "
        "begins when both gold tables have had rows and a warm-up has passed. Age: from the moment at which "
        "an event was to be sent to the moment at which a reader of files (Delta's by delta-rs), polled each "
        "50 ms, has read its row. `>`: that row had still not come, so the age is a lower bound. - where "
        "others used more than 0.3 cores of the machine. Triggers are those that each runs with by "
        f"itself{ours}."
    )
    head = (
        "who",
        "messages/s",
        "other work, cores",
        "warm-up",
        "window",
        "silver p50",
        "p99",
        "groups p50",
        "p99",
        "latest p50",
        "p99",
        "seen",
        "cores",
        "peak memory",
        "first gold row",
        "kept up",
        "foreign cores",
    )
    body = [
        (
            one.contender,
            f"{one.per_second:,}",
            number(one.beside),
            f"{one.warm_up:.0f} s",
            f"{one.seconds:.0f} s",
            *(
                "-" if one.usage.refusal else str(getattr(one.ages[name], share))
                for name in TABLES
                for share in ("p50", "p99")
            ),
            f"{one.share_seen:.1%}".replace("%", " %"),
            f"{one.usage.cores:.2f}",
            f"{one.usage.peak_bytes / 2**30:.2f} GiB",
            f"{number(one.first_gold_seconds)} s",
            "yes" if one.kept_up else "no",
            f"{one.usage.foreign_cores:.2f}",
        )
        for one in found
    ]
    return [what, "", *table(head, body), *_by_minutes(found)]


def _by_minutes(found: Sequence[Fresh]) -> list[str]:
    """What each minute cost, and how old its events were in gold, so that what grows with time is seen."""
    lines = []
    for one in found:
        if len(one.minutes) > 2:  # fewer are no curve
            other = f" beside {one.beside:g} cores" if one.beside else ""
            head = (f"minute, {one.contender} at {one.per_second:,}/s{other}", "gold p50", "p99", "cores")
            body = [
                (str(each.number), str(each.p50), str(each.p99), f"{each.usage.cores:.2f}")
                for each in one.minutes
            ]
            lines += ["", *table(head, body)]
    return lines


def _goals(found: Sequence[Fresh]) -> list[Goal]:
    disturbed = [one for one in found if one.beside]
    found = [one for one in found if not one.beside]
    ours = next((one for one in found if one.contender == OURS), None)
    if ours is None:
        return []
    rate, why = ours.per_second, ours.usage.refusal or ""
    p50, p99 = (ours.gold(share).seconds if not why else None for share in ("p50", "p99"))
    if rate > SLOW:
        goals = [Goal(f"W2 {rate:,}/s, gold p99, s", p99, 10.0, "at most", why)]
    else:
        goals = [
            Goal(f"W2 {rate:,}/s, gold p50, s", p50, 1.5, "at most", why),
            Goal(f"W2 {rate:,}/s, gold p99, s", p99, 3.0, "at most", why),
            Goal(f"W2 {rate:,}/s, cores", ours.usage.cores, 1.2, "at most"),
        ]
    if rate <= SLOW and len(ours.minutes) > 2:  # fewer are no curve
        second, last = ours.minutes[1], ours.minutes[-1]
        goals += [
            Goal(
                f"W2 {rate:,}/s, gold {share}, minute {last.number} / minute 2",
                None if why else ratio(getattr(last, share).seconds, getattr(second, share).seconds),
                MOST_GROWTH,
                "at most",
                why,
            )
            for share in ("p50", "p99")
        ]
    if not math.isnan(ours.first_gold_seconds):
        first = ours.first_gold_seconds
        goals.append(Goal(f"W2 {rate:,}/s, first gold row, cold, s", first, FIRST_GOLD_GOAL, "at most"))
    if rate <= SLOW:
        goals += [goal for one in found if one.contender != OURS for goal in _beside(ours, one)]
        goals += [_with_other_work(ours, one) for one in disturbed if one.contender == OURS]
    return goals


def _with_other_work(alone: Fresh, beside: Fresh) -> Goal:
    noisy = alone.usage.refusal or beside.usage.refusal or ""
    times = None if noisy else ratio(beside.gold("p99").seconds, alone.gold("p99").seconds)
    what = f"W2 {alone.per_second:,}/s, gold p99 with {beside.beside:g} cores of other work / without"
    return Goal(what, times, MOST_WITH_OTHER_WORK, "at most", noisy)


def _beside(ours: Fresh, peer: Fresh) -> list[Goal]:
    """Ours as ratios to a peer of the same run."""
    noisy = ours.usage.refusal or peer.usage.refusal or ""
    head = f"W2 {ours.per_second:,}/s, "

    def times(share: str) -> float | None:
        """Ours in times of the peer's."""
        return None if noisy else ratio(ours.gold(share).seconds, peer.gold(share).seconds)

    def note(share: str) -> str:
        bound = f"the peer's {share} is a lower bound" if peer.gold(share).at_least else ""
        return noisy or bound

    if peer.contender not in BESIDE_PEERS:
        slower = times("p50")
        faster = None if slower is None else ratio(1, slower)
        return [Goal(f"{head}gold p50 of the tutorial / ours", faster, 60, "at least", note("p50"))]
    cores = ratio(ours.usage.cores, peer.usage.cores)
    name, times_the_peer, cores_of_the_peer = BESIDE_PEERS[peer.contender]
    return [
        *(
            Goal(
                f"{head}gold {share} of ours / {name}",
                times(share),
                times_the_peer,
                "at most",
                note(share),
            )
            for share in ("p50", "p99")
        ),
        Goal(f"{head}cores of ours / {name}", cores, cores_of_the_peer, "at most"),
    ]


def _plot(found: Sequence[Fresh], rate: int) -> Lines:
    series = [(one, one.ages["groups"].over_time) for one in found if one.per_second == rate]
    return _lines_of(f"Age of rows in gold.groups, {rate:,} messages/s", series, "seconds of the window")


def _first_minutes(found: Sequence[Fresh]) -> Lines:
    """What a first user sees: ages from the start of each contender on, nothing left out."""
    series = [(one, one.first) for one in found if one.per_second == SLOW and not one.beside]
    title = f"The first two minutes: age of rows in gold.groups, {SLOW:,} messages/s"
    return _lines_of(title, series, "seconds since the first event")


def _lines_of(
    title: str, series: Sequence[tuple[Fresh, Sequence[tuple[float, float, float]]]], x: str
) -> Lines:
    points = {
        f"{one.contender} {share}{f' +{one.beside:g}' if one.beside else ''}": [
            (at, values[place]) for at, *values in seconds
        ]
        for one, seconds in series
        for place, share in enumerate(("p50", "p99"))
    }
    return Lines(title, points, x, "seconds")
