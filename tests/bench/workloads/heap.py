"""W11, heap: what ``medallion up`` keeps in memory, while it works and when it rests, minute after minute.

The earthquakes example with its eight gold tables and the product's default settings. In each round a
producer sends for a part of a minute; then no more comes until no table has had a commit for a while. Live
heap is what a full collection leaves in the midst of the sending (micro-batches in flight included), and
what two full collections leave at rest: the first one tells Spark's cleaner which broadcast relations have
ended, the second one takes their memory. A JVM that keeps what ended micro-batches used grows from round to
round at rest.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.config.paths import Layout, all_tables
from common.config.settings import load_settings
from common.delta.log import latest_version
from common.java.find_java import find_java
from common.machine import processes
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka import client as kafka
from tests.bench.contenders.contender import CORES, DRIVER_MEMORY
from tests.bench.contenders.started_process import ROOT, ContenderError, Started, set_options
from tests.bench.measure.stats import Goal, median
from tests.bench.reporting.report import Section, table
from tests.bench.run import Run

MOST_AT_REST = 400.0
MOST_GROWTH = 1.1
MOST_SHARE = 0.7
"""Of the heap, while it works."""

EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"
_PER_SECOND = 500
_SENDING_SECONDS = 40.0
_LOOK_SECONDS = 25.0
_QUIET_SECONDS = 15.0
_CLEANING_SECONDS = 2.0
_TIMEOUT_SECONDS = 300.0
_MB = 2**20
_QUERY_PLAN = "org.apache.spark.sql.execution.QueryExecution"
_GENERATED = "org.apache.spark.sql.catalyst.expressions.codegen.ByteCodeStats"
"""One for each generated class in the cache, and none elsewhere."""
_NATIVE = re.compile(r"^-\s+([\w ]+) \(reserved=\d+KB, committed=(\d+)KB\)", re.MULTILINE)
_JAVA_OPTIONS = (
    "spark.conf.spark.driver.extraJavaOptions="
    "-XX:NativeMemoryTracking=summary -XX:MarkSweepAlwaysCompactCount=1"
)
"""The second: the serial collector otherwise leaves some dead objects in three of four full collections."""


@dataclass(frozen=True, slots=True)
class Live:
    """What full collections left.

    Attributes:
        bytes: In the heap, dead objects left out.
        plans: Query plans among it.
        generated: Generated classes in Spark's cache of compiled code, which is full at
            ``spark.sql.codegen.cache.maxEntries``; each keeps its source text.
        resident: Bytes of the JVM that are in memory, heap or not.
    """

    bytes: int
    plans: int
    generated: int
    resident: int


@dataclass(frozen=True, slots=True)
class Heap:
    """All rounds.

    Attributes:
        size: Of the heap, at most.
        working: In the midst of each round's sending.
        resting: At each round's end.
        native: Bytes that the JVM has for itself at the end, by what for.
    """

    size: int
    working: tuple[Live, ...]
    resting: tuple[Live, ...]
    native: Mapping[str, int]

    @property
    def growth(self) -> float:
        """Median of the last third of the rounds at rest, in times of that of the second third.

        In the first third classes are loaded and caches fill.
        """
        third = max(1, len(self.resting) // 3)
        first, last = self.resting[third : 2 * third] or self.resting[:1], self.resting[-third:]
        return median([one.bytes for one in last]) / median([one.bytes for one in first])


def counted(histogram: str, names: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Bytes of all objects in a class histogram, and the number of objects of each named class."""
    size, found = 0, dict.fromkeys(names, 0)
    for line in histogram.splitlines():
        words = line.split()
        if words[:1] == ["Total"]:
            size = int(words[2])
        elif len(words) > 3 and words[3] in found:
            found[words[3]] = int(words[1])
    return size, found


class Jvm:
    """A running JVM, as ``jcmd`` of the same Java shows it."""

    def __init__(self, pid: int, jcmd: str) -> None:
        self._pid, self._jcmd = pid, jcmd

    def command(self, *words: str) -> str:
        """What a diagnostic command prints."""
        done = subprocess.run(
            [self._jcmd, str(self._pid), *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ContenderError(f"jcmd {' '.join(words)}: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def live(self, collections: int = 1) -> Live:
        """After full collections; what Spark's cleaner lets go after one of them is gone after the next."""
        for _ in range(collections - 1):
            self.command("GC.run")
            time.sleep(_CLEANING_SECONDS)
        size, found = counted(self.command("GC.class_histogram"), (_QUERY_PLAN, _GENERATED))
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        resident = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        memory = 1024 * int(resident[1]) if resident else 0
        return Live(size, found[_QUERY_PLAN], found[_GENERATED], memory)

    def native(self) -> dict[str, int]:
        """Bytes committed, by what for."""
        found = _NATIVE.findall(self.command("VM.native_memory", "summary"))
        return {name.strip(): 1024 * int(size) for name, size in found}

    def heap_size(self) -> int:
        """Bytes, at most."""
        flags = self.command("VM.flags")
        found = re.search(r"-XX:MaxHeapSize=(\d+)", flags)
        return int(found[1]) if found else 0


def measured(run: Run, seconds: float) -> Heap:
    """Send and rest, a minute at a time."""
    folder = run.scratch("heap")
    (folder / "medallion.yaml").touch()
    kafka.ensure_topics(run.broker.bootstrap_servers, ["quakes"], 2, {})
    given = (
        f"data_dir={folder / 'data'}",
        f"kafka.bootstrap_servers={run.broker.bootstrap_servers}",
        f"spark.master=local[{CORES}]",
        f"spark.driver_memory={DRIVER_MEMORY}",
        _JAVA_OPTIONS,
        *run.settings,
    )
    settings = load_settings(file=folder / "medallion.yaml", overrides=given)
    layout = Layout.of(load_pipeline(EXAMPLE), settings)
    jcmd = shutil.which("jcmd", path=str(find_java(settings).home / "bin")) or shutil.which("jcmd")
    if jcmd is None:
        raise ContenderError("no jcmd was found: a JDK is needed, not only a Java runtime")
    options = ("-p", str(EXAMPLE), "--settings", str(folder / "medallion.yaml"), *set_options(given))

    def versions() -> tuple[int | None, ...]:
        return tuple(latest_version(layout.table_path(name)) for name in all_tables(load_pipeline(EXAMPLE)))

    working, resting = [], []
    with Started("orchestration", ("up", *options), folder / "up.log") as up:
        jvm = Jvm(_jvm(folder, up), jcmd)
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            words = ("produce", "--rate", str(_PER_SECOND), "--seconds", str(_SENDING_SECONDS))
            with Started("orchestration", (*words, *options), folder / "produce.log") as producer:
                time.sleep(_LOOK_SECONDS)
                working.append(jvm.live())
                producer.await_end(_TIMEOUT_SECONDS)
            _await_rest(versions, up)
            resting.append(jvm.live(collections=2))
            run.say(
                f"heap: {working[-1].bytes / _MB:.0f} MiB at work, {resting[-1].bytes / _MB:.0f} at rest, "
                f"{resting[-1].plans} plans; {resting[-1].resident / _MB:.0f} MiB resident"
            )
        native = jvm.native()
        found = Heap(jvm.heap_size(), tuple(working), tuple(resting), native)
        up.stop()
    return found


def _jvm(folder: Path, up: Started) -> int:
    """The pid of Spark's JVM, once it is there and its queries run."""
    over = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < over:
        up.check()
        if "running " in up.said() and (pids := processes.find_by_command_line(f"-Dmedallion.log={folder}")):
            return pids[0]
        time.sleep(1)
    raise ContenderError(f"no query ran within {_TIMEOUT_SECONDS:.0f} s\n{up.said()}")


def _await_rest(versions: Callable[[], tuple[int | None, ...]], up: Started) -> None:
    """Return once no table has had a commit for a while."""
    over = time.monotonic() + _TIMEOUT_SECONDS
    last, since = versions(), time.monotonic()
    while time.monotonic() - since < _QUIET_SECONDS:
        if time.monotonic() > over:
            raise ContenderError(f"tables still had commits after {_TIMEOUT_SECONDS:.0f} s\n{up.said()}")
        up.check()
        time.sleep(1)
        if (now := versions()) != last:
            last, since = now, time.monotonic()


def heap(run: Run) -> Section:
    """W11."""
    found = measured(run, run.sized(run.seconds, 900, 120))
    return Section("heap", "Heap: at work and at rest", lines(found, run.settings), goals(found), found)


def goals(found: Heap) -> list[Goal]:
    """By the worst round."""
    rounds = len(found.resting)
    few = "" if rounds >= 9 else f"{rounds} rounds only"
    peak = max(one.bytes for one in found.working)
    at_rest = max(one.bytes for one in found.resting) / _MB
    return [
        Goal("W11 live heap at rest, MiB", at_rest, MOST_AT_REST, "at most", few),
        Goal("W11 live heap at rest, last third / second", found.growth, MOST_GROWTH, "at most", few),
        Goal("W11 live heap at work / heap", peak / found.size, MOST_SHARE, "at most", few),
    ]


def lines(found: Heap, settings: tuple[str, ...] = ()) -> list[str]:
    """The section's text."""
    given = f" and {', '.join(settings)}" if settings else ""
    what = (
        f"`medallion up` with its default settings{given} and the earthquakes example's eight gold tables: "
        f"rounds of {_SENDING_SECONDS:.0f} s with {_PER_SECOND} messages a second, then a rest until no "
        f"table has had a commit for {_QUIET_SECONDS:.0f} s. Live heap: what a full collection leaves at "
        f"work, with the micro-batches that are in flight, and what two leave at rest, of a heap of "
        f"{found.size / _MB:,.0f} MiB at most."
    )
    rows = [
        (
            str(number),
            f"{work.bytes / _MB:.0f}",
            f"{rest.bytes / _MB:.0f}",
            str(rest.plans),
            f"{rest.generated:,}",
            f"{rest.resident / _MB:,.0f}",
        )
        for number, (work, rest) in enumerate(zip(found.working, found.resting, strict=True), 1)
    ]
    head = (
        "round",
        "live heap at work, MiB",
        "at rest",
        "query plans at rest",
        "generated classes cached",
        "resident memory of the JVM",
    )
    return [what, "", *table(head, rows), "", _explained(found)]


def _explained(found: Heap) -> str:
    """Of what the resident memory consists."""
    own = {name: size / _MB for name, size in found.native.items()}
    classes = own.get("Class", 0) + own.get("Metaspace", 0) + own.get("Shared class space", 0)
    heap_mb, code = own.get("Java Heap", 0), own.get("Code", 0)
    others = sum(own.values()) - heap_mb - code - classes
    resident = found.resting[-1].resident / _MB
    beyond = max(0.0, resident - sum(own.values()))
    return (
        f"The JVM's resident memory at the end, {resident:,.0f} MiB, is the heap as far as it has grown "
        f"({heap_mb:,.0f} MiB; it grows to `spark.driver_memory` and shrinks after full collections only), "
        f"compiled code ({code:.0f}, at most 256), classes ({classes:.0f}), the JVM's other memory (threads, "
        f"collector, buffers outside of the heap: {others:.0f}), and {beyond:.0f} of native libraries "
        "(RocksDB's state, compression, and what the allocator has not given back). So a process needs "
        "`spark.driver_memory` and about a GiB beside it."
    )
