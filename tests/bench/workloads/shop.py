"""One pipeline with tables grown to a size, whose queries run one at a time, each micro-batch measured.

In the process that measures: what a micro-batch costs is then told from what its query does between two.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.streaming import query as streaming
from common.streaming.query import Stream
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.embedded_broker.lifecycle import Broker
from orchestration.run.wiring import Layer, Wiring
from tests.bench.contenders.contender import CORES, DRIVER_MEMORY
from tests.bench.contenders.ours import PIPELINE
from tests.bench.data import history, preloaded, topic
from tests.bench.data.events import Stream as Events

ROWS = 1_000
"""Of a micro-batch."""
ROWS_PER_FILE = 2_000
FILES, COMMITS = 10, 100
"""Of the smallest table, beside what the measured micro-batches add."""
_TIMEOUT_SECONDS = 300.0
_KEYS_FROM = 10_000_000
"""The first user of the tables that are grown; those of the messages have smaller numbers."""

HOPS: Mapping[str, tuple[Layer, str]] = {
    "commit to bronze": ("bronze", "bronze.events"),
    "commit to silver": ("silver", "silver.events"),
    "MERGE into gold": ("gold", "gold.latest"),
}
"""What is measured, and the query that does it."""


class Spent(NamedTuple):
    """Seconds on the clock, and of CPU in Spark's JVM and this process, to the nanosecond."""

    seconds: float
    cpu: float

    def since(self, before: Spent) -> Spent:
        """Between two of them."""
        return Spent(self.seconds - before.seconds, self.cpu - before.cpu)


@dataclass(frozen=True, slots=True)
class Measured:
    """One micro-batch.

    Attributes:
        hop: One of ``HOPS``.
        times: How many times the smallest table this one has.
        write: From the micro-batch's rows to its commit.
        whole: From the moment its rows were there to be read, so with the source's part.
    """

    hop: str
    times: int
    write: Spent
    whole: Spent


@dataclass(frozen=True, slots=True)
class Size:
    """One table at the time of its measurement."""

    hop: str
    times: int
    rows: int
    files: int
    commits: int
    checkpoint_cpu: float


class Shop:
    """One pipeline, whose tables are grown to a size, and whose queries run one at a time.

    Args:
        spark: The session.
        folder: Of its own.
        broker: For its topic.
        times: How many times the smallest table its tables have.
        settings: Further ones, as ``--set`` takes them.
    """

    def __init__(
        self, spark: Any, folder: Path, broker: Broker, times: int, settings: Sequence[str] = ()
    ) -> None:
        self.spark, self.times = spark, times
        source = topic.made(broker, f"flat{times}")
        folder.mkdir()
        file = folder / "shop.py"
        file.write_text(PIPELINE.format(topic=source.topic), encoding="utf-8")
        self.pipeline = load_pipeline(file)
        given = settings_in(folder, source.bootstrap_servers, settings)
        self.layout = Layout.of(self.pipeline, given)
        self._wiring = Wiring(spark, self.pipeline, given, self.layout, source.bootstrap_servers)
        self._outbox = topic.Outbox(source, linger_ms=100)
        self._events = Events(duplicates=0.0, late=0.0, malformed=0.0)
        self._sent = 0
        self._keys = 0
        self._chance = np.random.default_rng(times)

    def path(self, name: str) -> Path:
        """Of a table."""
        return Path(self.layout.table_path(name))

    def grow(self) -> None:
        """Run each query once, then give each table files and a history.

        All queries first: one that begins reads all that its source has.
        """
        for hop in HOPS:
            self.turn(hop, 0)
        for _, name in HOPS.values():
            rows = {
                "bronze.events": preloaded.bronze_rows,
                "silver.events": preloaded.silver_rows,
                "gold.latest": preloaded.latest_rows,
            }[name]
            schema = pa.schema(DeltaTable(str(self.path(name))).schema())

            def made(number: int, rows: preloaded.Rows = rows, schema: pa.Schema = schema) -> pa.Table:
                return rows(schema, _KEYS_FROM + number * ROWS_PER_FILE, ROWS_PER_FILE)

            history.grow(self.path(name), made, FILES * self.times, COMMITS * self.times)
        self._keys = FILES * self.times * ROWS_PER_FILE

    def size(self, hop: str) -> Size:
        """A table as it is now."""
        path = self.path(HOPS[hop][1])
        now = LogReader(str(path)).snapshot()
        if now is None or now.rows is None:
            raise AssertionError(f"{path} does not say how many rows it has")
        return Size(hop, self.times, now.rows, now.files, now.version, history.checkpoint_cpu(path))

    def turn(self, hop: str, batches: int) -> list[Measured]:
        """Start a query, have it catch up, then so many micro-batches of ``ROWS`` rows one by one."""
        done: queue.Queue[tuple[Spent, Spent]] = queue.Queue()
        with self._running(hop, done) as caught_up:
            self._bring(hop)
            caught_up()
            while not done.empty():
                done.get()
            found = []
            for _ in range(batches):
                self._bring(hop)
                there = spent(self.spark)
                begun, ended = done.get(timeout=_TIMEOUT_SECONDS)
                found.append(Measured(hop, self.times, ended.since(begun), ended.since(there)))
                caught_up()
                if not done.empty():
                    raise AssertionError(f"{hop}: the rows of one micro-batch came in two")
        return found

    @contextmanager
    def _running(self, hop: str, done: queue.Queue[tuple[Spent, Spent]]) -> Iterator[Callable[[], None]]:
        layer, name = HOPS[hop]
        (stream,) = (one for one in self._wiring.streams(layer) if one.name == name)
        started = streaming.start(self.spark, _clocked(self.spark, stream, done), streaming.Gate())

        def caught_up() -> None:
            started.query.processAllAvailable()
            if (failure := started.failure()) is not None:
                raise failure

        try:
            yield caught_up
        finally:
            started.stop()

    def _bring(self, hop: str) -> None:
        """What the next micro-batch of a query is made of: all at once."""
        layer = HOPS[hop][0]
        if layer == "gold":
            path = self.path("silver.events")
            # Before the table is grown, keys that it will not have then.
            first = _KEYS_FROM + (int(self._chance.integers(self._keys - ROWS)) if self._keys else -ROWS)
            schema = pa.schema(DeltaTable(str(path)).schema())
            self._sent += 1
            history.append(path, preloaded.silver_rows(schema, first, ROWS, later=self._sent))
            return
        batch = self._events.batch(self._sent, ROWS)
        self._sent += ROWS
        if layer == "silver":
            path = self.path("bronze.events")
            schema = pa.schema(DeltaTable(str(path)).schema())
            history.append(path, preloaded.bronze_of(schema, batch))
            return
        # To one partition, and small enough for one request, so that the query sees all of it or none.
        self._outbox.send((key, value, 0) for key, value, _ in topic.letters(batch))
        self._outbox.close()


def spent(spark: Any) -> Spent:
    """What the JVM and this process have used so far."""
    # The clock of another process, as clock_getcpuclockid(3) names it.
    jvm = time.clock_gettime(~int(spark.sparkContext._gateway.proc.pid) << 3 | 2)
    return Spent(time.perf_counter(), jvm + time.process_time())


def _clocked(spark: Any, stream: Stream, done: queue.Queue[tuple[Spent, Spent]]) -> Stream:
    def write(frame: Any, batch: MicroBatch) -> None:
        begun = spent(spark)
        stream.write(frame, batch)
        done.put((begun, spent(spark)))

    return replace(stream, write=write)


def settings_in(folder: Path, servers: str, more: Sequence[str] = ()) -> Settings:
    """The product's defaults, but for triggers: micro-batches follow each other without a pause.

    Args:
        folder: For all data.
        servers: Addresses of the broker.
        more: Further settings, as ``--set`` takes them.
    """
    empty = folder / "medallion.yaml"
    empty.touch()
    layers = ("bronze", "silver", "gold")
    overrides = [
        f"data_dir={folder / 'data'}",
        f"kafka.bootstrap_servers={servers}",
        f"spark.master=local[{CORES}]",
        f"spark.driver_memory={DRIVER_MEMORY}",
        *(f"{layer}.trigger=asap" for layer in layers),
        *more,
    ]
    return load_settings(file=empty, overrides=overrides)
