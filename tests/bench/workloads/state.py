"""W4, state: what a micro-batch of silver costs, and how much memory it takes, with many ids to remember.

``medallion run silver`` as a process of its own, over a bronze table that is made without Kafka: as many
events as the watermark covers, each with an id of its own, then equal micro-batches. Time goes on with them,
so that each brings as many ids as it lets go of, and the number of ids stays what it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema

from bronze.table import PROPERTIES, SCHEMA
from common.delta.log import LogReader
from tests.bench.contenders.contender import DRIVER_MEMORY
from tests.bench.contenders.started_process import ContenderError, Started
from tests.bench.data import history, preloaded
from tests.bench.data.events import WATERMARK_SECONDS, Stream
from tests.bench.data.topic import Source
from tests.bench.measure.machine import Meter
from tests.bench.measure.stats import Goal, median, number, ratio
from tests.bench.reporting.report import Section, table
from tests.bench.run import OURS, Run

ROWS = 20_000
"""Of a micro-batch that is measured."""
LOADED_AT_ONCE = 500_000
"""Rows of a micro-batch before that, in two files."""
WARM_UP = 3
"""Micro-batches of ``ROWS`` that are not measured."""
MOST_BYTES, MOST_TIMES = 3 * 2**30, 2.0
_TIMEOUT_SECONDS = 900.0
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Held:
    """What it takes to remember so many ids.

    Attributes:
        ids: That the watermark covers.
        load_cpu: CPU seconds in which they were taken in.
        load_seconds: The same on the clock.
        peak_bytes: Most memory of the process and all it started, from its start to its end.
        steady_peak_bytes: The same while micro-batches were measured.
        cpu: CPU seconds of each micro-batch, with all that went on beside it until the next.
        seconds: From each one's rows in bronze to its commit in silver, with the wait for the trigger.
        disk_bytes: Of the state, in the checkpoint.
        failures: What makes the figures void.
    """

    ids: int
    load_cpu: float
    load_seconds: float
    peak_bytes: int
    steady_peak_bytes: int
    cpu: tuple[float, ...]
    seconds: tuple[float, ...]
    disk_bytes: int
    failures: tuple[str, ...] = ()

    @property
    def batch_cpu(self) -> float:
        """Mean CPU seconds of a micro-batch: what is done only now and then is in it."""
        return sum(self.cpu) / len(self.cpu)


class Feed:
    """A bronze table that grows commit by commit, and the silver table that follows it.

    Args:
        bronze: Where it is to be.
        silver: The table that is made of it, by a process.
        stream: What to put in, from its first message.
    """

    def __init__(self, bronze: Path, silver: Path, stream: Stream) -> None:
        self._bronze, self._silver, self._stream = bronze, silver, stream
        self._schema = to_arrow_schema(SCHEMA, timestamp_utc=True)
        history.created(bronze, self._schema, PROPERTIES)
        self.sent = self._came = 0
        self._seen = -1

    def next(self, rows: int, files: int = 1) -> pa.Table:
        """The next rows, not put in yet: making them costs CPU that is nobody's."""
        found = preloaded.bronze_of(self._schema, self._stream.batch(self.sent, rows))
        self.sent += rows
        return found.combine_chunks() if files == 1 else found

    def put(self, rows: pa.Table, started: Started, files: int = 1) -> float:
        """One commit; how long it took until silver had it, in seconds.

        Raises:
            ContenderError: The process has ended, or takes too long.
        """
        history.append(self._bronze, rows, files=files)
        began = time.monotonic()
        while not self._has_come():
            started.check()
            if time.monotonic() - began > _TIMEOUT_SECONDS:
                raise ContenderError(f"silver has {self._came:,} of {self.sent:,} rows\n{started.said()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def _has_come(self) -> bool:
        log = LogReader(str(self._silver))
        if self._seen < 0 and log.latest_version() is None:
            return False
        for commit in log.commits(self._seen + 1):
            self._seen = commit.version
            self._came += commit.rows or 0
        return self._came >= self.sent

    def differences(self) -> list[str]:
        """What is wrong with silver; empty where each id is there once."""
        ids = DeltaTable(str(self._silver)).to_pyarrow_table(columns=["event_id"])["event_id"]
        once = len(ids.unique())
        if len(ids) == once == self.sent:
            return []
        return [f"silver has {len(ids):,} rows of {once:,} ids, {self.sent:,} were sent"]


def stream_of(ids: int) -> Stream:
    """A stream of which the watermark covers so many ids, or a few fewer: each message has one of its own."""
    return Stream(per_second=ids // WATERMARK_SECONDS, duplicates=0.0, late=0.0, malformed=0.0)


def held(run: Run, ids: int, batches: int) -> Held:
    """Load ids, then measure micro-batches."""
    folder = run.scratch(f"state{ids}")
    stream, ours = stream_of(ids), run.ours()
    tables = ours.tables(folder)
    feed = Feed(tables.bronze, tables.silver, stream)
    live = WATERMARK_SECONDS * _SECOND // stream.step
    source = Source(run.broker.bootstrap_servers, "none")
    with (
        ours.command(folder, source, "run", "silver") as started,
        Meter({OURS: started.pid}) as whole,
    ):
        before = whole.at_birth(OURS, started.began)
        while feed.sent < live:
            rows = min(LOADED_AT_ONCE, live - feed.sent)
            seconds = feed.put(feed.next(rows, 2), started, files=2)
            run.say(f"state: {feed.sent:,} of {live:,} ids, the last {rows:,} in {seconds:.1f} s")
        load = whole.read().since(before, OURS)
        for _ in range(WARM_UP):
            feed.put(feed.next(ROWS), started)
        _settle(whole, run.say)
        cpu, waits = [], []
        with Meter({OURS: started.pid}) as steady:
            for _ in range(batches):
                rows_ = feed.next(ROWS)
                begun = steady.read()
                waits.append(feed.put(rows_, started))
                time.sleep(1.0)  # the end of the micro-batch, after its commit, is its own
                cpu.append(steady.read().since(begun, OURS).cpu)
            peak = steady.read().since(begun, OURS).peak_bytes
        usage = whole.read().since(before, OURS)
        started.stop()
    state = folder / "data" / "shop" / "checkpoints" / "silver.events" / "state"
    disk = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
    failures = tuple(feed.differences())
    done = Held(
        live, load.cpu, load.seconds, usage.peak_bytes, peak, tuple(cpu), tuple(waits), disk, failures
    )
    run.say(
        f"state: with {live:,} ids {done.batch_cpu:.2f} CPU s per micro-batch, peak "
        f"{done.peak_bytes / 2**30:.2f} GiB"
    )
    return done


def _settle(meter: Meter, say: Callable[[str], None]) -> None:
    """Wait until the process rests, or for half a minute: what loading has left to do is not measured."""
    for _ in range(15):
        before = meter.read()
        time.sleep(2.0)
        if meter.read().since(before, OURS).cores < 0.1:
            return
    say("state: it does not come to rest after loading")


def state(run: Run) -> Section:
    """W4."""
    most = run.sized(run.events, 10_000_000, 1_000_000)
    batches = run.sized(run.rounds, 10, 5)
    found: list[Held] = []
    failures: list[str] = []
    for ids in (most // 10, most):
        try:
            found.append(held(run, ids, batches))
            failures += [f"{ids:,} ids: {fault}" for fault in found[-1].failures]
        except ContenderError as error:
            run.say(f"state: FAILED with {ids:,} ids: {error}")
            failures.append(f"{ids:,} ids: {error}")
    settings = f", with {', '.join(run.settings)}" if run.settings else ""
    return Section(
        "state",
        "State: ids that silver remembers",
        lines(found, settings),
        goals(found, most),
        found,
        failures,
    )


def goals(found: Sequence[Held], most: int) -> list[Goal]:
    """Of ten million ids, and against a tenth of them."""
    told = "" if most == 10_000_000 else f"with {most:,} ids, not 10,000,000"
    whole = len(found) == 2 and not any(one.failures for one in found)
    memory = found[-1].peak_bytes / 2**30 if whole else None
    times = ratio(found[-1].batch_cpu, found[0].batch_cpu) if whole else None
    return [
        Goal(f"W4 {most:,} ids, peak memory, GiB", memory, MOST_BYTES / 2**30, "at most", told),
        Goal(f"W4 {most:,} ids, CPU of a micro-batch / at a tenth", times, MOST_TIMES, "at most", told),
    ]


def lines(found: Sequence[Held], settings: str = "") -> list[str]:
    """The section's text."""
    base = found[0].batch_cpu if found else float("nan")
    rows = [
        (
            f"{one.ids:,}",
            f"{one.batch_cpu:.2f}",
            f"{median(one.cpu):.2f}",
            number(ratio(one.batch_cpu, base)),
            f"{median(one.seconds):.1f}",
            f"{one.peak_bytes / 2**30:.2f} GiB",
            f"{one.steady_peak_bytes / 2**30:.2f} GiB",
            f"{one.disk_bytes / 2**20:,.0f} MiB",
            f"{one.load_cpu / one.ids * 1e6:.1f}",
        )
        for one in found
    ]
    head = (
        "ids",
        "CPU s of a micro-batch",
        "median",
        "times the first",
        "seconds until it was there",
        "peak memory",
        "of it while measured",
        "state on disk",
        "CPU s per million to load",
    )
    what = (
        f"`medallion run silver` with its default settings{settings} (state store, triggers), "
        f"{DRIVER_MEMORY} of heap, over a bronze table made without Kafka. First as many events as the "
        f"watermark of {WATERMARK_SECONDS // 60} minutes covers, each with an id of its own, "
        f"{LOADED_AT_ONCE:,} at a time; then micro-batches of {ROWS:,} events, each of which lets go of as "
        f"many ids as it brings. {len(found[0].cpu) if found else 0} of them are measured, one at a time; "
        "mean, since what a state store does now and then counts. Memory is what was resident at most in "
        "all its processes."
    )
    return [what, "", *table(head, rows)]
