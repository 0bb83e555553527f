"""One life of a pipeline in the simulated world: its job, its faults, and what must be true at its end."""

from __future__ import annotations

import errno
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest import mock

import bronze.query
import common.delta.log
import gold.publish.file_sink
import gold.publish.query
import gold.query
import orchestration.run.failures.restart_notices
import orchestration.run.supervisor
import orchestration.run.wiring
import silver.query
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import BatchSink, FileSink, Json, Pipeline, Publish, Silver, Topic, Upsert
from common.delta.match.batch_match import StepHistory
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.micro_batch import MicroBatch
from common.delta.written_once import is_written
from common.errors import LeaseLostError, MedallionError
from common.machine import lease_owner
from common.machine.storage_folder import mounted
from common.spark import jvm
from common.streaming.query import Stream
from gold.publish.file_sink import write_files
from gold.source.foreign_appends import refuse_foreign_appends
from orchestration.access.declaration import last_declaration
from orchestration.access.history.stopped_queries import keep_started, keep_stopped
from orchestration.access.kafka.single_records import Record
from orchestration.access.progress import set_back
from orchestration.run import start_checks, topic_checks
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.job import Job
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import LAYERS, Wiring
from tests.conftest import make_settings
from tests.simulation.broker import TOPIC, Broker, Sent, SimulatedRecords
from tests.simulation.delta import Row, Tables
from tests.simulation.disk import Killed, MemoryDisk
from tests.simulation.engine import Frame, Query

ROOT = "/simulated"
DATA, CHECKPOINTS, FILES = f"{ROOT}/tables", f"{ROOT}/checkpoints", f"{ROOT}/export"
ORDERS, QUARANTINE, LATEST = "silver.orders", "silver.orders__quarantine", "gold.latest"
BRONZE = "bronze.orders"
LAYOUT = Layout(DATA, CHECKPOINTS, Path(ROOT) / "local")
_REJECTED = 7
"""Numbers that this divides are quarantined."""


def table(name: str) -> str:
    """The folder of a table."""
    return LAYOUT.table_path(name)


def checkpoint(query: str) -> str:
    """The folder of a checkpoint."""
    return LAYOUT.checkpoint_path(query)


SCOPES: Mapping[str, tuple[str, ...]] = {
    "bronze": (table(BRONZE),),
    "bronze and its checkpoint": (table(BRONZE), checkpoint(BRONZE)),
    "silver": (table(ORDERS), table(QUARANTINE), table(f"{ORDERS}__late")),
    "quarantine": (table(QUARANTINE),),
    "silver and its checkpoint": (table(ORDERS), table(QUARANTINE), checkpoint(ORDERS)),
    "gold": (table(LATEST),),
    "gold and its checkpoint": (table(LATEST), checkpoint(LATEST)),
    "tables": (DATA,),
    "data folder": (DATA, CHECKPOINTS),
    "checkpoints of publications": (checkpoint("publish.files"), checkpoint("publish.db")),
    "published files": (FILES,),
    "published files and their checkpoint": (FILES, checkpoint("publish.files")),
    "checkpoint of bronze": (checkpoint(BRONZE),),
    "checkpoint of silver": (checkpoint(ORDERS),),
    "checkpoint of gold": (checkpoint(LATEST),),
}
"""What an older copy may put back."""

QUERIES = (BRONZE, ORDERS, LATEST, "publish.files", "publish.db")
RESTORED = (BRONZE, ORDERS, QUARANTINE, LATEST)


@cache
def _settings() -> Settings:
    return make_settings(Path(mkdtemp(prefix="medallion-simulated-")), "none:1")


@cache
def _described(name: str) -> last_declaration.Declaration:
    return last_declaration.Declaration("simulated", {"name": name})


class World:
    """The pipeline, and everything that it runs on.

    Attributes:
        events: What has happened, in order: a life is told by them.
        said: By table, the numbers that were ever committed there.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, random.Random(seed)  # noqa: S311
        self.disk, self.broker = MemoryDisk(), Broker()
        self.tables = Tables(self.disk)
        self.database: dict[str, list[int]] = {}
        self.running: list[Query] = []
        self.job: Job | None = None
        self.events: list[str] = []
        self.said: dict[str, set[int]] = {BRONZE: set(), ORDERS: set(), QUARANTINE: set(), LATEST: set()}
        self.steps = self.sent = 0
        self.is_dead = self.is_open = False
        self._is_working = False
        self._at_write: dict[str, Callable[[], None]] = {}
        self._due: list[tuple[int, Callable[[], None]]] = []
        self._holder: Job | None = None  # of the leases
        self._acting: Job | None = None  # whose process works at this step
        self._is_committing = False
        self._full = 0  # so many writes fail
        self._was_full = self._is_filled_again = False
        self.refusal: Exception | None = None
        self.disk.step, self.disk.before_write = self._step, self._before_write
        self.spark: Any = SimpleNamespace(
            conf=SimpleNamespace(get=lambda name, default="": "1", set=lambda name, value: None),
            sparkContext=SimpleNamespace(setLocalProperty=lambda name, value: None),
            newSession=lambda: self.spark,
        )
        self.pipeline = Pipeline(
            "simulated",
            bronze=[Topic("orders")],
            silver=[
                Silver(
                    "orders",
                    reads=BRONZE,
                    value=Json("id string, at timestamp"),
                    columns={"id": "id", "at": "at"},
                    key=["id"],
                    event_time="at",
                    watermark="1 day",
                )
            ],
            gold=[Upsert("latest", reads=ORDERS, key=["id"], newest_by=["at"])],
            publish=[
                Publish("files", reads=ORDERS, to=FileSink(FILES)),
                Publish("db", reads=ORDERS, to=BatchSink(self._store)),
            ],
        )

    def without_gold(self) -> None:
        """Have only publications read silver."""
        self.pipeline = replace(self.pipeline, gold=())

    # What may happen -------------------------------------------------------------------------------------

    def produce(self, count: int, partition: int | None = None) -> None:
        """Send records to any partitions, or to one."""
        self._tell(f"{count} records")
        for _ in range(count):
            self.sent += 1
            self._send(self.random.randrange(2) if partition is None else partition, self.sent)

    def abort(self, count: int, partition: int = 0) -> None:
        """A transaction that is aborted: offsets without records, and a marker."""
        self._tell(f"a transaction of {count} aborted")
        for _ in range(count + 1):
            self._send(partition, 0)

    def _send(self, partition: int, number: int) -> None:
        self.disk.clock += 1
        self.broker.partitions[partition].append(Sent(number, self.disk.clock))

    def start(self) -> None:
        """Start the job; one that is refused has ended."""
        if self.job is not None:
            return
        self._tell("start")
        wiring = Wiring(self.spark, self.pipeline, _settings(), LAYOUT, "none:1")
        policy = RestartPolicy(first_pause=0.0, longest_pause=0.0, per_hour=1_000_000)
        stop = StopSignal()
        supervisor = Supervisor(self.spark, stop, stop_timeout_seconds=0.0, policy=policy)
        job = self.job = self._holder = Job(LAYERS, wiring, supervisor, stop)
        supervisor.gate.lost_lease = lambda: self._lost_lease(job)
        self._in_process(job.start)

    def stop(self) -> None:
        """Stop the job between micro-batches."""
        if self.job is not None:
            self._tell("stop")
        self._end()

    def kill(self) -> None:
        """End the process at once."""
        if self.job is not None:
            self._tell("killed")
        self._end()

    def _end(self) -> None:
        for query in self.running:
            query.isActive = False
        self.running, self.job, self.is_dead, self._was_full = [], None, False, False

    def trigger(self, name: str | None = None) -> bool:
        """Let one query look for something to read; whether one ran."""
        active = [one for one in self.running if one.isActive and name in {None, one.frame.query}]
        return bool(active) and self._in_process(self.random.choice(active).trigger)

    def look(self) -> None:
        """Let the job look after its queries, and after its topics."""
        if self.job is not None:
            self._in_process(self._supervise)

    def _supervise(self) -> None:
        job = self.job
        if job is None:
            return
        job.supervisor.poll()
        failed = list(job.supervisor.failures.errors.values())  # what it says of them
        if failed:
            raise failed[0]

    def hold(self, name: str) -> None:
        """``medallion stop`` of one query."""
        if self.job is not None:
            self._tell(f"stop {name}")
            keep_stopped(LAYOUT, name)
            self.job.supervisor.gate.held.add(name)
            self.look()

    def go_on(self, name: str) -> None:
        """``medallion start`` of one query."""
        keep_started(LAYOUT, name)
        if self.job is None or self.job.supervisor.is_running(name):
            return
        self._tell(f"start {name}")
        wiring, layer = self.job.wiring, self.pipeline.query(name).LAYER
        supervisor = self.job.supervisor
        streams = (
            wiring.publications(only=name) if layer == "publish" else wiring.streams(layer, only=name)  # type: ignore[arg-type]
        )
        self._in_process(lambda: supervisor.resume(name, streams, wiring.has_begun))
        if self.refusal is not None:
            keep_stopped(LAYOUT, name)

    def settle(self, rounds: int = 60) -> None:
        """Let the job run until nothing is left to read."""
        for _ in range(rounds):
            if self.job is None or self.refusal is not None:
                return
            self.look()
            ran = [self.trigger(one.frame.query) for one in list(self.running) if one.isActive]
            if not any(ran):
                return

    def _in_process(self, work: Callable[[], Any]) -> bool:
        """Do something in the job's process, which may be killed by it or refuse."""
        self.steps += 1
        self._is_working, self._acting = True, self.job
        try:
            return bool(work())
        except Killed:
            self.kill()
            return False
        except (MedallionError, OSError, LookupError) as error:  # of an older copy under the reader's hands
            if self.is_dead:
                self.kill()
            elif self._was_full or self._lost_lease(self._acting) is not None:
                self._tell(f"ended: {error}")
                self._end()
            elif not getattr(error, "retryable", False):
                self.refusal = error
                self._tell(f"refused: {error}")
                self._end()
            return False
        finally:
            self._is_working, self._acting = False, None

    # A frozen process, and a full disk --------------------------------------------------------------------

    def freeze(self) -> None:
        """Freeze the job inside of its work; somebody deletes its lock files, and another job runs, and ends.

        The frozen process goes on where it was. It may not be frozen between its proof and its commit: only
        a lease on an object store is proven by the commit itself.
        """
        if self._is_committing or self.job is None or self._acting is not self.job:
            return
        frozen, running, acting = self.job, self.running, self._acting
        self._tell("frozen; its lock files are deleted, and another job runs")
        self.job, self.running = None, []
        self.start()
        for _ in range(self.random.randrange(12)):
            self.random.choice((self.trigger, self.look, self.settle, lambda: self.produce(3)))()
        self.stop()
        self.job, self.running, self._acting, self._holder = frozen, running, acting, None
        if self.refusal is not None:
            self.die()
        self._tell("the frozen process goes on")

    def fill(self) -> None:
        """Have the disk full: some of the next writes of the job fail."""
        self._tell("the disk is full")
        self._full = self.random.randint(1, 20)

    def _lost_lease(self, job: Job | None) -> LeaseLostError | None:
        return None if self._holder is job else LeaseLostError(ORDERS, "another job")

    def _prove(self) -> None:
        if self._acting is not None and (lost := self._lost_lease(self._acting)) is not None:
            raise lost

    def _before_write(self) -> None:
        if self._full and self._is_working:
            self._full, self._was_full = self._full - 1, True
            raise OSError(errno.ENOSPC, "No space left on device")

    # Older copies -----------------------------------------------------------------------------------------

    def copy(self, scope: str) -> dict[str, tuple[bytes, int]]:
        """A copy of some folders as they are now."""
        self._tell(f"a copy of {scope}")
        return self.disk.copy(SCOPES[scope])

    def put_back(self, scope: str, copy: dict[str, tuple[bytes, int]]) -> None:
        """Have a copy in the place of what is there."""
        self._tell(f"an older copy put back: {scope}")
        self.disk.put_back(SCOPES[scope], copy)

    def restore(self, name: str, version: int) -> None:
        """RESTORE a table."""
        self._tell(f"RESTORE {name} to {version}")
        self.tables.restore(table(name), version)

    # What must be true ------------------------------------------------------------------------------------

    def wrong(self, *, may_repeat: bool = False) -> list[str]:
        """What is not in its one place, in words; empty where all is right."""
        there = {sent.number for part in self.broker.partitions for sent in part if sent.number}
        rows = self.tables.rows
        bronze_rows = Counter(row[4] for row in rows(table(BRONZE)))
        silver_rows = Counter(row[0] for row in rows(table(ORDERS)))
        aside = Counter(row[0] for row in rows(table(QUARANTINE)))
        kept = set(self.said[BRONZE] | there)
        good = {number for number in kept if number % _REJECTED}
        stored = Counter(number for numbers in self.database.values() for number in numbers)
        compared = {
            "bronze": (bronze_rows, kept),
            "silver": (silver_rows, good),
            "quarantine": (aside, kept - good),
            "gold": (Counter(row[0] for row in rows(table(LATEST))), good if self.pipeline.gold else set()),
            "files": (self._published(), good),
            "database": (Counter(set(stored)) if may_repeat else stored, good),
        }
        return list(_differences(compared))

    def _published(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for name in self.disk.names(f"{FILES}/_manifest"):
            content = json.loads(self.disk.read(f"{FILES}/_manifest/{name}"))
            for file in content.get("files", ()):
                path = f"{FILES}/{file}"
                if self.disk.has_file(path):
                    found.update(json.loads(self.disk.read(path)))
        return found

    # The product's code over this world -------------------------------------------------------------------

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have the product's code run in this world, inside the block."""
        SimulatedRecords.broker = self.broker
        quiet = [orchestration.run.supervisor, orchestration.run.wiring, start_checks, topic_checks]
        quiet += [orchestration.run.failures.restart_notices]
        with ExitStack() as stack:
            stack.enter_context(mounted(ROOT, self.disk))
            stack.callback(lease_owner.hold_while(self._prove))
            for module in quiet:
                stack.enter_context(mock.patch.object(module, "say", self._say))
            for module, name, made in (
                (common.delta.log, "_open", self.tables.opened),
                (common.delta.log, "_totals", lambda opened: (len(opened.files), 0, self._count(opened))),
                (common.delta.log, "_live_files", lambda opened: ()),
                (start_checks.TornCommits, "take_away", lambda torn, layout, declared: None),
                (start_checks, "missing_feed_warning", lambda context, declared: None),
                (last_declaration, "described", lambda declared, settings: _described(declared.table)),
                (Wiring, "_may_change", lambda wiring, declared: False),
                (topic_checks, "broker_topics", lambda address, names, options: self.broker.topics(names)),
                (topic_checks, "topic_ids", self._topic_ids),
                (topic_checks, "time", SimpleNamespace(sleep=self._sleep)),
                (set_back, "SingleRecords", SimulatedRecords),
                (set_back, "_BronzeRows", lambda path: BronzeRows(self.tables, path)),
                (set_back, "last_records", self._last_records),
                (bronze.query, "build_query", self._bronze),
                (silver.query, "build_query", self._silver),
                (gold.query, "build_query", self._gold),
                (gold.publish.query, "build_query", self._publish),
                (gold.publish.file_sink, "_written", self._write_files),
                (jvm, "answers", lambda: False),
            ):
                stack.enter_context(mock.patch.object(module, name, made))
            yield

    def _count(self, opened: Any) -> int:
        return sum(json.loads(stats)["numRecords"] for _, stats in opened.files.values())

    def _topic_ids(self, address: str, names: Sequence[str], *rest: object) -> dict[str, str]:
        return {name: one.id for name, one in self.broker.topics(names).items()}

    def _last_records(self, path: str, rows: object) -> dict[tuple[str, int], Record]:
        version = self.tables.latest(path) or 0
        added = list(self.tables.files(path, version))[-1:]
        found = sorted(self.tables.rows_of(path, added), key=lambda row: row[2])
        return {(TOPIC, row[1]): Record(row[2], row[3], f"{row[4]}") for row in found}

    def _stream(self, name: str, reads: Sequence[str], write: Callable[[Any, MicroBatch], None]) -> Stream:
        frame: Any = Frame(self, name, [table(one) for one in reads])
        return Stream("simulated", name, frame, write, checkpoint(name), "1 second")

    def _bronze(self, spark: object, pipeline: str, topic: Topic, **given: Any) -> Stream:
        self.tables.create(table(BRONZE))
        identity = given["identity"]

        def write(frame: Any, batch: MicroBatch) -> None:
            batch = replace(batch, facts={**batch.facts, **identity.facts(batch.positions)})
            rows = frame.rows()
            identity.compare(batch)
            self._append(BRONZE, rows, batch, "append", {}, {row[4] for row in rows})
            identity.learn(None)

        return self._stream(BRONZE, (), write)

    def _silver(self, spark: object, pipeline: str, declared: Silver, **given: Any) -> Stream:
        for name in (ORDERS, QUARANTINE, f"{ORDERS}__late"):
            self.tables.create(table(name))
        watches = silver.query._watches(declared, _settings(), LAYOUT, (0,))
        steps = StepHistory(table(ORDERS), {"quarantine": table(QUARANTINE)})

        def write(frame: Any, batch: MicroBatch) -> None:
            for watch in watches:
                watch.look_at(batch)
            numbers = [row[4] for row in frame.rows()]
            bad = [[one] for one in numbers if not one % _REJECTED]
            good = [[one] for one in numbers if one % _REJECTED]
            batch = steps.with_steps(batch, {"quarantine": bool(bad)})
            counts = {"accepted": len(good), "quarantined": len(bad)}
            self._append(ORDERS, good, batch, "accepted", counts, {row[0] for row in good})
            if bad:
                self._append(QUARANTINE, bad, batch, "quarantine", counts, {row[0] for row in bad})

        return self._stream(ORDERS, (BRONZE,), write)

    def _gold(self, context: gold.query.Context, declared: Any) -> Stream:
        self.tables.create(table(LATEST))

        def write(frame: Any, batch: MicroBatch) -> None:
            rows = frame.rows()
            last = last_commit_metadata(table(LATEST), LATEST)
            self._is_filled_again |= last is not None and last["query_id"] != batch.query_id
            if self._is_filled_again:  # by a new checkpoint, and by the key
                there = {row[0] for row in self.tables.rows(table(LATEST))}
                rows = [row for row in rows if row[0] not in there]
            self._append(LATEST, rows, batch, "rows", {}, {row[0] for row in rows})

        stream = refuse_foreign_appends(context, declared, self._stream(LATEST, (ORDERS,), write))
        return replace(stream, declared=gold.query.meaning(declared))

    def _publish(self, context: gold.query.Context, declared: Publish, kafka: object) -> Stream:
        sink = declared.to
        # Built with the query, as the product does: before the query plans its first micro-batch.
        send: Any = (
            gold.publish.query._to_function(sink, checkpoint(declared.table))
            if isinstance(sink, BatchSink)
            else None
        )

        def write(frame: Any, batch: MicroBatch) -> None:
            rows = [row[0] for row in frame.rows()]
            if isinstance(sink, FileSink):
                content: Any = SimpleNamespace(arrow=None, packed=lambda: rows)
                rows_of: Any = SimpleNamespace(collected=lambda: content)
                write_files(rows_of, batch, sink, checkpoint(declared.table))
            else:
                send(rows, batch)

        return refuse_foreign_appends(
            context, declared, self._stream(declared.table, (declared.reads,), write)
        )

    def _write_files(self, rows: Any, batch: MicroBatch, sink: FileSink) -> list[str]:
        name = f"batch={batch.batch_id}/part-0"
        self.disk.write(f"{sink.folder}/{name}", json.dumps(rows).encode())
        return [name]

    def _store(self, rows: Any, batch_id: int, token: str) -> None:
        self._step()
        if token not in self.database:
            self.database[token] = list(rows)

    def _append(  # a write has this many parts
        self,
        name: str,
        rows: Sequence[Row],
        batch: MicroBatch,
        step: str,
        counts: Mapping[str, int],
        numbers: set[int],
    ) -> None:
        if is_written(table(name), batch, step):
            return
        if (happens := self._at_write.pop(table(name), None)) is not None:
            happens()
        metadata, self._is_committing = batch.metadata(step, counts), True
        try:
            self.tables.append(table(name), rows, metadata)
        finally:
            self._is_committing = False
        self.said[name] |= numbers

    def later(self, most: int, happens: Callable[[], None]) -> None:
        """Have something happen inside of the job's work, before one of its next steps."""
        self._due.append((self.steps + self.random.randint(1, most), happens))

    def at_write(self, path: str, happens: Callable[[], None]) -> None:
        """Have something happen inside of the next micro-batch that writes a table, before it does."""
        self._at_write[path] = happens

    def nothing_later(self) -> None:
        """Forget what was to happen."""
        self._due.clear()
        self._at_write.clear()
        self._full = 0

    def die(self) -> None:
        """The process ends at this step."""
        self.is_dead = True
        raise Killed

    def _step(self) -> None:
        self.steps += 1
        if self.is_dead:
            raise Killed
        if self._due and self._is_working and self.steps >= self._due[0][0]:
            _, happens = self._due.pop(0)
            self._is_working = False  # what happens is no work of the job
            try:
                happens()
            finally:
                self._is_working = True

    def _sleep(self, seconds: float) -> None:
        """A pause of the job's process takes none of the test's time."""
        self.disk.clock += round(seconds * 1000)

    def _say(self, text: str, **facts: object) -> None:
        """What the job says: a comparison that could not be made is an open point."""
        self.is_open |= "not compared" in text

    def _tell(self, text: str) -> None:
        self.events.append(text)


class BronzeRows:
    """``_BronzeRows`` of the product over a simulated table."""

    def __init__(self, tables: Tables, path: str) -> None:
        self._rows = tables.rows(path)

    def last(self, names: Any, ends: Mapping[int, int]) -> dict[int, int]:
        """Per partition, the offset of the last row before an end."""
        near = getattr(set_back, "_NEAR", 1 << 62)
        found: dict[int, int] = {}
        for _, partition, offset, *_ in self._rows:
            end = ends.get(partition, 0)
            if max(0, end - near) <= offset < end:
                found[partition] = max(offset, found.get(partition, -1))
        return found

    def first(self, names: Any, ranges: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Per partition, the offset of the first row in a range."""
        found: dict[int, int] = {}
        for _, partition, offset, *_ in self._rows:
            begin, end = ranges.get(partition, (0, 0))
            if begin <= offset < end:
                found[partition] = min(offset, found.get(partition, offset))
        return found

    def records(self, names: Any, places: Mapping[int, int]) -> dict[int, Record]:
        """The rows at an offset per partition."""
        return {
            partition: Record(offset, at_ms, f"{number}")
            for _, partition, offset, at_ms, number in self._rows
            if places.get(partition) == offset
        }

    def count(self, names: Any, partition: int, first: int, end: int) -> int:
        """How many rows there are in a range."""
        return sum(1 for row in self._rows if row[1] == partition and first <= row[2] < end)


def _differences(compared: Mapping[str, tuple[Counter[int], set[int]]]) -> Iterator[str]:
    for place, (have, want) in compared.items():
        if missing := sorted(want - set(have)):
            yield f"{place}: {len(missing)} are missing ({missing[:5]})"
        if twice := sorted(one for one, count in have.items() if count > 1):
            yield f"{place}: {len(twice)} are there more than once ({twice[:5]})"
        if extra := sorted(set(have) - want):
            yield f"{place}: {len(extra)} must not be there ({extra[:5]})"
