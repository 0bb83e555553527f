"""One streaming query: its start, its end at a micro-batch boundary, and the error that ended it.

A layer describes a query as a ``Stream``; nothing is read or written until ``start``. Every query writes by
``foreachBatch``: only there can a write carry the identity of the micro-batch, the counts of its rows and
the source positions that it covers.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from common.declare.author_texts import AuthorText
from common.declare.intervals import FOLLOW
from common.delta.checkpoint import Checkpoint
from common.delta.match.source_match import Source, SourceNote
from common.delta.micro_batch import MicroBatch
from common.delta.user_writes import clear_transaction_ids
from common.errors import (
    DiskLowError,
    LeaseLostError,
    MedallionError,
    QueryFailedError,
    RegistryError,
    SourceChangedError,
    TransientFailureError,
)
from common.machine import event_log
from common.machine.files.free_space import FreeSpace
from common.spark import jvm
from common.spark.session_conf import (
    STATE_ENCODING,
    STATE_STORE,
    STATE_STORES,
    WATERMARK_POLICY,
    WITHOUT_ROWS,
)
from common.streaming.attempt_mark import AttemptMark, attempt
from common.streaming.dropped_rows import DroppedRows
from common.streaming.error_lines import one_line
from common.streaming.failure_cause import cause_of, causes_text
from common.streaming.spark_errors import FailedQuery, explain, without_values
from common.streaming.sql_failures import explain_sql, sql_failure
from common.streaming.table_watch import Beginning, PlaceWatch, SourceWatch, TableWatch
from common.streaming.turns import Turns
from common.streaming.wake_up import POLL_INTERVAL, CommitNotifier, wakeable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_REGISTRY = re.compile(
    r"medallion\.registry\.RegistryUnavailable: (.+)"
)  # thrown by readers of framed values

_LEASE_LOST = re.compile(r"MEDALLION_LEASE_LOST (\S+)")  # thrown by the log store of tables on s3a://

_SCHEMA_CHANGED = re.compile(r"\[DELTA_(?:SCHEMA_CHANGED\w*|STREAMING_METADATA_EVOLUTION)\]")

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A query that is ready to start."""

    pipeline: str
    # The table that the query writes, such as ``silver.quakes``; also the name of the query, its checkpoint
    # and its scheduler pool.
    name: str
    frame: DataFrame  # the streaming frame that the query reads
    # Writes one micro-batch; called with the frame and the batch's identity. It must be idempotent by that
    # identity, consume the whole batch, and swallow no exception.
    write: Callable[[DataFrame, MicroBatch], None]
    checkpoint: str  # path or URI of the checkpoint
    # Interval such as ``2 seconds``; empty: the next batch starts when data is there; ``follow``: when a
    # query of the same process has committed to a table that this query reads.
    trigger: str
    output_mode: OutputMode = "append"  # Spark's output mode
    # Whether Spark runs a micro-batch without rows after one that moved the watermark. Such a batch writes
    # the results that the watermark has closed.
    without_rows: bool = False
    # Whether such a batch follows every one, as timers by the clock have it. A run over what is there goes
    # without them: it would not end.
    by_clock: bool = False
    # Which of several watermarks counts, ``min`` or ``max``; its checkpoint keeps it.
    watermark_policy: str = "min"
    needs_rocksdb: bool = False  # whether its state must be in RocksDB, whatever ``spark.state_store`` says
    # The tables that the query reads. A bounded run starts the query after the queries that write them have
    # ended.
    reads: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # the side tables that the query writes
    paths: tuple[str, ...] = ()  # paths or URIs of all tables that the query writes
    # The tables that the query reads as streams, in the order of its checkpoint.
    streamed: tuple[Source, ...] = ()
    source: str = ""  # what a query without source tables reads: ``Kafka at host:port``
    # What the checks of its start have judged; None: the query is not one of a job.
    beginning: Beginning | None = None
    # Judges the query and builds it again, with the current columns of its source: where it goes on is
    # another beginning.
    again: Callable[[], Stream] | None = None
    # Marks of the declaration's meaning, for the metadata of commits.
    declared: Mapping[str, str] = field(default_factory=dict)
    # Whether the first version that the query reads is still to come: the query is built again before it
    # starts.
    is_awaited: bool = False
    # Makes the writes aware of what was written to their tables outside of them, such as rows of a replay;
    # called between two micro-batches.
    refresh: Callable[[], None] = lambda: None
    texts: tuple[AuthorText, ...] = ()  # the SQL texts of the declaration, and where they stand
    declared_at: str = ""  # ``file:line`` of the declaration
    # Whether a micro-batch that has failed at a row is read to the newest versions of its sources, which may
    # have the row corrected.
    heals: bool = False
    changes: str = ""  # what the declaration does with commits of its source that change rows
    # Whether the first micro-batch has no limit, as it takes a source's whole first state: the query is built
    # again after it.
    begins_whole: bool = False

    @property
    def described(self) -> FailedQuery:
        """What is known of the query, for the explanation of an error."""
        return FailedQuery(
            self.name,
            self.reads,
            self.beside,
            self.checkpoint,
            self.source,
            self.texts,
            self.declared_at,
            self.heals,
            self.changes,
        )


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A query that is not started with the others."""

    name: str  # the table that it writes
    reads: tuple[str, ...]  # the tables that it reads
    error: MedallionError | None  # why it cannot be built; None: it reads a table whose query has failed
    build: Callable[[], Stream]  # builds it; raises ``error``, or another one, while it cannot be built
    awaits: str = ""  # the table that another job has yet to create; empty where it waits for none
    is_there: Callable[[], bool] = lambda: True  # whether that table is there


class _Stopped(Exception):  # noqa: N818  # not an error: it ends a query before a micro-batch
    """Raised at the begin of a micro-batch, before any effect, to end the query there."""


@dataclass
class Gate:
    """Admits micro-batches until it is closed; one gate for all queries of a process."""

    # Set once no query may start a micro-batch.
    closed: threading.Event = field(default_factory=threading.Event)
    # Names of queries that may start none, while the others go on.
    closed_for: set[str] = field(default_factory=set)
    # Names of queries that an operator has stopped: they may start none until they are started again.
    held: set[str] = field(default_factory=set)
    # The disks on which space must be free before a micro-batch writes; None: not looked at.
    free_space: FreeSpace | None = None
    # The error for a lease that another process has taken over; None while all are held.
    lost_lease: Callable[[], LeaseLostError | None] = lambda: None

    def close(self) -> None:
        """Admit no further micro-batch."""
        self.closed.set()

    def admits(self, query: str) -> bool:
        """Whether a query may start a micro-batch."""
        return not self.closed.is_set() and not self.keeps_out(query)

    def keeps_out(self, query: str) -> bool:
        """Whether this query may start no micro-batch, while others may."""
        return query in self.closed_for or query in self.held

    def require_leases(self) -> None:
        """Refuse to begin a micro-batch whose tables another process writes by now.

        Raises:
            LeaseLostError: Names the table and the process that holds its lease.
        """
        if (lost := self.lost_lease()) is not None:
            raise lost

    def require_space(self, query: str) -> None:
        """Refuse to begin a micro-batch where too little space is free.

        Raises:
            DiskLowError: Names the folder; the query waits and is restarted.
        """
        shortage = None if self.free_space is None else self.free_space.shortage()
        if shortage is not None:
            raise DiskLowError(query, shortage)


@dataclass
class RunningQuery:
    """A started query."""

    stream: Stream
    query: StreamingQuery
    state: _State
    # Not part of the state: the JVM keeps the state, and a raised failure refers to this query.
    _failure: MedallionError | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The table that the query writes."""
        return self.stream.name

    @property
    def is_active(self) -> bool:
        """Whether the query still runs."""
        return bool(self.query.isActive)

    @property
    def lacks_limit(self) -> bool:
        """Whether a first micro-batch without a limit is written, and the next one has none either."""
        return self.stream.begins_whole and self.state.finished > 0

    @property
    def is_idle(self) -> bool:
        """Whether the query is between two micro-batches."""
        return not self.state.in_batch and not self.query.status["isTriggerActive"]

    def failure(self) -> MedallionError | None:
        """The error that ended the query; ``None`` while it runs and after a requested stop."""
        if self.is_active or self.state.stopped:
            return None
        if self._failure is None:
            error = self.state.error
            exception = None if isinstance(error, MedallionError) else self.query.exception()
            if error is not None or exception is not None:
                # Kept: a query that failed for good is looked at until its process ends.
                self._failure = failure_of(self.name, error, exception, described=self.stream.described)
                _clear_frames(error)
        return self._failure

    def progress(self) -> Iterator[dict[str, Any]]:
        """Spark's recent progress reports, oldest first, as plain values."""
        yield from (dict(report) for report in self.query.recentProgress)

    def leave(self) -> None:
        """Let the query begin no further micro-batch."""
        self.state.leaving = True

    def stop(self) -> None:
        """Stop the query at once; the next start replays the micro-batch that was running."""
        if self.is_active:
            self.state.stopped = True
            self.query.stop()


def _clear_frames(error: BaseException | None) -> None:
    """Clear the local variables of the frames that an error and its causes refer to.

    PySpark keeps the error of a micro-batch in the object that the JVM calls, and the JVM keeps that object
    as long as the query. The frames refer to objects of the JVM that refer to the query: without this, a
    query that has failed would stay in both processes for ever.
    """
    cleared: set[int] = set()
    while error is not None and id(error) not in cleared:
        traceback.clear_frames(error.__traceback__)
        cleared.add(id(error))
        error = error.__cause__ or error.__context__


@dataclass
class _State:
    """State shared by the thread of the micro-batches and the supervising thread."""

    began: bool = False  # whether the next micro-batch is no replay: one has begun, or the checkpoint is new
    in_batch: bool = False
    finished: int = 0
    stopped: bool = False
    leaving: bool = False
    error: BaseException | None = None


def start(  # noqa: PLR0913  # a query and all that it shares with the others
    spark: SparkSession,
    stream: Stream,
    gate: Gate,
    notifier: CommitNotifier | None = None,
    *,
    available_now: bool = False,
    turns: Turns | None = None,
    may_replay: bool = True,
) -> RunningQuery:
    """Start a query in a fair scheduler pool of its own.

    Args:
        gate: Once closed, the query ends before its next micro-batch.
        notifier: Wakes the queries that read what this query writes, and this query; unset: no wake-ups.
        available_now: Whether the query processes the available data and ends.
        turns: Who may write the query's tables; each micro-batch takes the query's turn.
        may_replay: Whether the first micro-batch may be a replay; not so for a checkpoint that the caller
            knows to be new.

    Raises:
        MedallionError: Spark does not start the query, as with a damaged checkpoint.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    state = _State(began=not may_replay)
    notifier = notifier or CommitNotifier()
    turns = turns or Turns()
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", stream.name)
    writer = (
        stream.frame.writeStream.queryName(stream.name)
        .outputMode(stream.output_mode)
        .option("checkpointLocation", stream.checkpoint)
    )
    run_micro_batch = _micro_batch_function(stream, gate, notifier, state)
    writer = writer.foreachBatch(_turn_by_turn(stream.name, turns, run_micro_batch))
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif stream.trigger:
        writer = writer.trigger(processingTime=POLL_INTERVAL if stream.trigger == FOLLOW else stream.trigger)
    with ExitStack() as starting:
        starting.enter_context(_own_settings(spark, stream, available_now=available_now))
        if stream.trigger == FOLLOW and not available_now:
            wake = starting.enter_context(wakeable(stream.frame.sparkSession, stream.name))
            # Registered before the query looks for data the first time, so that no later commit is missed.
            notifier.follow(stream.name, stream.reads, wake)
        try:
            query = writer.start()
        except (PySparkException, Py4JError) as error:
            raise failure_of(stream.name, error, described=stream.described) from error
    return RunningQuery(stream, query, state)


def _turn_by_turn(
    query: str, turns: Turns, run_micro_batch: Callable[[DataFrame, int], None]
) -> Callable[[DataFrame, int], None]:
    """The function; each call takes the turn of the query."""

    def run_in_turn(frame: DataFrame, batch_id: int) -> None:
        with turns.take(query):
            run_micro_batch(frame, batch_id)

    return run_in_turn


def _micro_batch_function(
    stream: Stream, gate: Gate, notifier: CommitNotifier, state: _State
) -> Callable[[DataFrame, int], None]:
    """The function that Spark calls for each micro-batch."""
    checkpoint = Checkpoint(stream.checkpoint)
    tables = TableWatch(stream.name, stream.paths, stream.beginning)
    place = PlaceWatch(stream.name, stream.checkpoint, stream.beginning)
    note = None if stream.paths else SourceNote(stream.checkpoint)
    sources = SourceWatch(stream.name, stream.streamed, note, stream.beginning)
    mark = AttemptMark(stream.checkpoint)

    def run_micro_batch(frame: DataFrame, batch_id: int) -> None:
        if state.leaving or not gate.admits(stream.name):
            state.stopped = True
            raise _Stopped
        state.in_batch, is_first, state.began = True, not state.began, True
        try:
            # With transaction ids that user code left in the session, Delta would skip the engine's writes.
            clear_transaction_ids(frame.sparkSession)
            if event_log.is_json():
                jvm.name_in_log(frame.sparkSession, stream.name, batch_id)
            gate.require_leases()
            gate.require_space(stream.name)
            tables.check()
            identity = _identity(stream, checkpoint, frame, batch_id)
            place.check(identity)
            identity = sources.begin(identity)
            with attempt(mark, replace(identity, is_first=is_first), jvm.answers) as batch:
                stream.write(frame, batch)
            tables.check(identity)
            sources.end(identity)
            place.end(identity)
            notifier.notify((stream.name, *stream.beside))
            state.finished += 1
        except Exception as error:
            state.error = state.error or error
            raise
        except BaseException as error:
            # Such as a panic of a library: py4j answers the JVM only for an ``Exception``, and the JVM would
            # wait for ever.
            state.error = state.error or error
            raise QueryFailedError(stream.name, f"{type(error).__name__}: {told(error)}") from error
        finally:
            state.in_batch = False

    return run_micro_batch


@contextmanager
def _own_settings(spark: SparkSession, stream: Stream, *, available_now: bool) -> Iterator[None]:
    """Within the block a query that starts copies the session's settings as it needs them."""
    never_ends = available_now and stream.by_clock
    wanted = {WITHOUT_ROWS: "true"} if stream.without_rows and not never_ends else {}
    if stream.watermark_policy != spark.conf.get(WATERMARK_POLICY):
        wanted[WATERMARK_POLICY] = stream.watermark_policy
    if stream.needs_rocksdb:
        # Avro: state whose columns are more, fewer or wider than the stored ones can be read.
        wanted |= {STATE_STORE: STATE_STORES["rocksdb"], STATE_ENCODING: "avro"}
    before = {name: str(spark.conf.get(name)) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _identity(stream: Stream, checkpoint: Checkpoint, frame: DataFrame, batch_id: int) -> MicroBatch:
    query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    entry, before = checkpoint.planned_batch(batch_id), checkpoint.planned_batch(batch_id - 1)
    # The query is looked up by its id and never stored: py4j keeps every object that a callback refers to for
    # as long as Spark keeps the query. A callback that refers to its query would keep the query and its
    # session for ever.
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
        closing_watermark_ms=dropped.closing_watermark_ms,
    )


def _running(spark: SparkSession, query_id: str) -> StreamingQuery:
    """The active query of this id. Spark lists a query before the query's first micro-batch begins."""
    query = spark.streams.get(query_id)
    if query is None:
        raise RuntimeError(f"Spark lists no active query {query_id}")
    return query


def failure_of(
    query: str, *errors: BaseException | None, described: FailedQuery | None = None
) -> MedallionError:
    """The engine's error for what ended a query, or kept it from starting.

    Args:
        errors: What the micro-batch raised, and what Spark says of the query; each None if there is none.
        described: What is known of the query, for the explanation; unset: its name only.
    """
    first = next((error for error in errors if error is not None), None)
    if isinstance(first, MedallionError):
        return first
    text = "\n".join(map(str, errors))
    if (own := _own_error(query, text)) is not None:
        return own
    line = without_values(one_line(str(first)), text)
    if _SCHEMA_CHANGED.search(text) is not None:
        return SourceChangedError(query, line)
    return _explained(described or FailedQuery(query), line, text, errors)


def _explained(
    query: FailedQuery, line: str, text: str, errors: Sequence[BaseException | None]
) -> MedallionError:
    if (known := explain(query, text)) is not None:
        return known
    cause = cause_of(*errors)
    if cause.kind == "transient":
        return TransientFailureError(query.name, cause.subject, line)
    if (known := explain(query, causes_text(*errors))) is not None:
        return known
    if (said := sql_failure(*errors)) is not None:
        return explain_sql(query, said)
    failure = QueryFailedError(query.name, line)
    failure.cause_kind = cause.kind
    return failure


def _own_error(query: str, text: str) -> MedallionError | None:
    """The error that a Java class of the engine has thrown; ``None`` for all others."""
    if (lost := _LEASE_LOST.search(text)) is not None:
        return LeaseLostError(lost[1], "another process")
    outage = registry_failure(text)
    return None if outage is None else RegistryError(f"{query}: {outage}")


def told(error: BaseException) -> str:
    """An error in one line for people: the engine's own as it is, others without values of records."""
    text = str(error)
    return one_line(text) if isinstance(error, MedallionError) else without_values(one_line(text), text)


def registry_failure(text: str) -> str | None:
    """The schema registry's failure in an error's text; ``None`` if the error has another cause."""
    found = _REGISTRY.search(text)
    return found[1].strip() if found is not None else None
