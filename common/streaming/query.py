"""One streaming query: how it is started, how it ends at a micro-batch boundary, what it died of.

A layer describes a query as a ``Stream``; nothing is read or written until ``start``. Every query
writes by ``foreachBatch``, because there alone a write can carry the batch's identity, its counts and
the source positions it covers.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from common.config.settings import FOLLOW
from common.delta.checkpoint import Checkpoint
from common.delta.table import MicroBatch
from common.delta.user_writes import clear_transaction_ids
from common.errors import MedallionError, QueryFailedError, RegistryError, SourceChangedError
from common.spark.session_conf import WITHOUT_ROWS
from common.streaming.dropped_rows import DroppedRows
from common.streaming.wake_up import POLL_INTERVAL, CommitNotifier, wakeable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_REGISTRY = re.compile(r"medallion\.avro\.RegistryUnavailable: (.+)")  # thrown by the reader of Avro values

_SCHEMA_CHANGED = re.compile(r"\[DELTA_SCHEMA_CHANGED\w*\]")

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A query that is ready to start.

    Attributes:
        name: The table it feeds, such as ``silver.quakes``; also names its query, checkpoint and pool.
        frame: What it reads, as a streaming frame.
        write: Writes one micro-batch; called with the frame and the batch's identity. It must be
            idempotent by that identity, consume the whole batch, and swallow no exception.
        checkpoint: Path or URI of its checkpoint.
        trigger: Interval such as ``2 seconds``; empty: the next batch starts when data is there; ``follow``:
            when a query of the same process has committed to a table that it reads.
        output_mode: Spark's output mode.
        without_rows: Whether a micro-batch without rows follows one that moved the watermark, where none
            with rows does: it writes what the watermark has closed.
        reads: The tables it reads; a bounded run reads those that are fed in it when they are whole.
        beside: The tables that it feeds besides.
        again: Makes the stream anew, with the columns that its source has then.
        declared: Marks of what its declaration means, for its commits.
    """

    pipeline: str
    name: str
    frame: DataFrame
    write: Callable[[DataFrame, MicroBatch], None]
    checkpoint: str
    trigger: str
    output_mode: OutputMode = "append"
    without_rows: bool = False
    reads: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    again: Callable[[], Stream] | None = None
    declared: Mapping[str, str] = field(default_factory=dict)


class _Stopped(Exception):  # noqa: N818  # not an error: it ends a query where a batch would begin
    """Raised before a micro-batch has done anything, to end its query there."""


@dataclass
class Gate:
    """Lets micro-batches begin until it is closed; one for all queries of a process."""

    closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """From now on no micro-batch begins."""
        self.closed.set()


@dataclass
class RunningQuery:
    """A started query."""

    stream: Stream
    query: StreamingQuery
    state: _State

    @property
    def name(self) -> str:
        """The table it feeds."""
        return self.stream.name

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return bool(self.query.isActive)

    @property
    def is_idle(self) -> bool:
        """Whether it is between two micro-batches right now."""
        return not self.state.in_batch and not self.query.status["isTriggerActive"]

    def failure(self) -> MedallionError | None:
        """What it died of; ``None`` while it runs and when it ended as it was asked to."""
        if self.is_active or self.state.stopped:
            return None
        error = self.state.error
        if isinstance(error, MedallionError):
            return error
        died = self.query.exception()
        if died is None and error is None:
            return None
        if (silent := registry_failure(f"{error}\n{died}")) is not None:
            return RegistryError(f"{self.name}: {silent}")
        cause = one_line(str(error or died))
        if _SCHEMA_CHANGED.search(f"{error}\n{died}") is not None:
            return SourceChangedError(self.name, cause)
        return QueryFailedError(self.name, cause)

    def progress(self) -> Iterator[dict[str, Any]]:
        """Spark's recent progress reports, oldest first, as plain values."""
        yield from (dict(report) for report in self.query.recentProgress)

    def stop(self) -> None:
        """Stop now, wherever it is; the batch that was running is replayed by the next start."""
        if self.is_active:
            self.state.stopped = True
            self.query.stop()


@dataclass
class _State:
    """What the thread of the micro-batches and the supervising thread tell each other."""

    began: bool = False
    in_batch: bool = False
    stopped: bool = False
    error: BaseException | None = None


def start(
    spark: SparkSession,
    stream: Stream,
    gate: Gate,
    notifier: CommitNotifier | None = None,
    *,
    available_now: bool = False,
) -> RunningQuery:
    """Start a query in a fair scheduler pool of its own.

    Args:
        spark: The session.
        stream: What to run.
        gate: Once closed, the query ends before its next micro-batch.
        notifier: Wakes the queries that read what this query writes, and this query; unset: no wake-ups.
        available_now: Process what is there now and end.
    """
    state = _State()
    notifier = notifier or CommitNotifier()
    checkpoint = Checkpoint(stream.checkpoint)

    def each(frame: DataFrame, batch_id: int) -> None:
        if gate.closed.is_set():
            state.stopped = True
            raise _Stopped
        state.in_batch, is_first, state.began = True, not state.began, True
        try:
            # Transaction ids that anybody left in the session would have Delta skip our writes.
            clear_transaction_ids(frame.sparkSession)
            identity = _identity(stream, checkpoint, frame, batch_id)
            stream.write(frame, replace(identity, is_first=is_first))
            notifier.notify((stream.name, *stream.beside))
        except Exception as error:
            state.error = state.error or error
            raise
        except BaseException as error:
            # A panic of a library: what is no exception is never answered, and the JVM would wait for ever.
            state.error = state.error or error
            raise QueryFailedError(stream.name, f"{type(error).__name__}: {error}") from error
        finally:
            state.in_batch = False

    spark.sparkContext.setLocalProperty("spark.scheduler.pool", stream.name)
    writer = (
        stream.frame.writeStream.queryName(stream.name)
        .outputMode(stream.output_mode)
        .option("checkpointLocation", stream.checkpoint)
        .foreachBatch(each)
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif stream.trigger:
        writer = writer.trigger(processingTime=POLL_INTERVAL if stream.trigger == FOLLOW else stream.trigger)
    with ExitStack() as starting:
        if stream.without_rows:
            starting.enter_context(_batches_without_rows(spark))
        if stream.trigger == FOLLOW and not available_now:
            wake = starting.enter_context(wakeable(stream.frame.sparkSession, stream.name))
            # Before its first look, or a commit right after that would wake nobody.
            notifier.follow(stream.name, stream.reads, wake)
        query = writer.start()
    return RunningQuery(stream, query, state)


@contextmanager
def _batches_without_rows(spark: SparkSession) -> Iterator[None]:
    """A query that is started in here has them: it copies the session's settings at its start."""
    before = str(spark.conf.get(WITHOUT_ROWS))
    spark.conf.set(WITHOUT_ROWS, "true")
    try:
        yield
    finally:
        spark.conf.set(WITHOUT_ROWS, before)


def _identity(stream: Stream, checkpoint: Checkpoint, frame: DataFrame, batch_id: int) -> MicroBatch:
    query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    entry, before = checkpoint.planned_batch(batch_id), checkpoint.planned_batch(batch_id - 1)
    # The query is looked up, never kept: py4j keeps what a callback refers to for as long as Spark keeps the
    # query, so a callback that refers to its query would keep both, and the query's session, for ever.
    dropped = DroppedRows(lambda: _running(stream.frame.sparkSession, query_id))
    return MicroBatch(
        pipeline=stream.pipeline,
        query=stream.name,
        query_id=query_id,
        batch_id=batch_id,
        positions=tuple(entry.sources) if entry else (),
        planned_ms=entry.timestamp_ms if entry else 0,
        before=tuple(before.sources) if before else (),
        declared=stream.declared,
        dropped=dropped.counts,
        forget_dropped=dropped.reset,
        late_watermark_ms=dropped.late_watermark_ms,
    )


def _running(spark: SparkSession, query_id: str) -> StreamingQuery:
    """The active query of this id. Spark lists a query before the query's first micro-batch begins."""
    query = spark.streams.get(query_id)
    if query is None:
        raise RuntimeError(f"Spark lists no active query {query_id}")
    return query


def registry_failure(text: str) -> str | None:
    """What the schema registry did not do, by an error's text; ``None`` where that is of something else."""
    found = _REGISTRY.search(text)
    return found[1].strip() if found is not None else None


_NOISE = re.compile(r"^(org|java|scala|py4j|io)\.[\w.$]+(Exception|Error): ")


def one_line(text: str) -> str:
    """The cause in a Java or Python stack trace's text, as one line of at most 400 characters.

    The last ``Caused by`` is where it began; stack frames and class names in front are left out.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    told = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "...", "===", "JVM"))]
    line = causes[-1] if causes else (told[0] if told else "no cause was given")
    while _NOISE.match(line):
        line = _NOISE.sub("", line)
    return line if len(line) <= 400 else line[:399] + "…"  # noqa: PLR2004
