"""Collects the status of every table from tables, checkpoints, leases and the broker; without Spark.

Nothing here writes or prints; ``orchestration.cli.status_output`` prints. A missing fact (a broker that is
down, a checkpoint of another table) becomes a note, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from common.config.paths import Layout
from common.declare import Aggregate, Join, Pipeline, Publish, Silver, Table, Topic
from common.delta.checkpoint import Checkpoint, DeltaPosition, PlannedBatch, delta_position, kafka_position
from common.delta.log import LogReader, Snapshot
from common.errors import TableError
from orchestration.pipeline.context import Context
from orchestration.pipeline.field_use import FieldSampler, FieldUse
from orchestration.pipeline.lineage import sources
from orchestration.pipeline.query_states import QueryState, read_state
from orchestration.query.duckdb_views import Database, count_reasons
from orchestration.status.late_rows import Late, LateCounter, OtherRecords, counts_late_rows
from orchestration.status.lease_holder import Holder, find_holder
from orchestration.status.throughput import rate_per_second
from orchestration.status.topic_offsets import BrokerOffsets, TopicOffsets, records_behind

Between = Callable[[PlannedBatch | None, PlannedBatch], int | None]


@dataclass(frozen=True, slots=True)
class Lag:
    """What a table's query has yet to read of its source.

    Attributes:
        unit: ``records`` of Kafka, or ``rows`` of a table.
        count: Number of records or rows; None if it is not known.
        versions: Number of commits of the source table that hold the rows; None for Kafka.
        files: Number of files that hold the rows; None for Kafka.
        bytes: Size of these files; None for Kafka.
        note: The reason why a number is not known; empty if all are.
    """

    unit: str
    count: int | None = None
    versions: int | None = None
    files: int | None = None
    bytes: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Rows in quarantine, per reason; a row with two reasons counts for both."""

    table: str
    rows: int | None
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The status of one table.

    Attributes:
        table: The full name.
        kind: ``topic``, ``silver``, a kind of gold table such as ``upsert``, or ``publish``.
        reads: The topics or tables that the table's query reads.
        path: The table's path.
        now: Rows, files, bytes, version and newest commit; None before the first write.
        lag: What the table's query has yet to read.
        rows_per_second: The query's reading rate over the micro-batches that ended in the last 60 s; 0 if
            the query is idle, None if the rate is not known.
        last_batch_id: The newest finished micro-batch.
        watermark: The event-time watermark; None if there is none yet.
        quarantine: The quarantine of a silver table; None for other tables.
        late: Late rows of a table with a watermark; None for other tables and before the first write.
        other: Other tables' records that a silver table with a condition ``where`` has read; None for other
            tables and before the first write.
        fields: Fields of bronze's newest records, compared with silver's schema; None if they are not
            compared (``orchestration.pipeline.field_use``).
        holder: The process that writes the table; None if its job is stopped.
        failures: Failures and restarts of the query since its job started; None if there are none.
    """

    table: str
    kind: str
    reads: tuple[str, ...]
    path: str
    now: Snapshot | None
    lag: Lag
    rows_per_second: float | None
    last_batch_id: int | None
    watermark: datetime | None
    quarantine: Quarantine | None
    late: Late | None
    other: OtherRecords | None
    fields: FieldUse | None
    holder: Holder | None
    failures: QueryState | None = None

    @property
    def layer(self) -> str:
        """``bronze``, ``silver``, ``gold``, or ``publish`` for a query that writes no table."""
        return self.table.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a pipeline; ``broker_note`` is the reason if the broker's offsets are not known."""

    pipeline: str
    at: datetime
    broker: str | None
    broker_note: str
    tables: tuple[TableStatus, ...]


def collect(context: Context) -> Status:
    """The status of every table now."""
    return Collector(
        context.pipeline, context.layout, BrokerOffsets(context.pipeline, context.settings)
    ).collect()


class Collector:
    """Collects the status repeatedly; reads only the commits that are new since the last time."""

    def __init__(self, pipeline: Pipeline, layout: Layout, broker: BrokerOffsets) -> None:
        self._pipeline, self._layout, self._broker = pipeline, layout, broker
        self._logs: dict[str, LogReader] = {}
        self._database: Database | None = None
        self._fields = FieldSampler(pipeline, layout)
        self._late: dict[str, LateCounter] = {}
        self._reasons: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {}

    def collect(self) -> Status:
        """The status of every table now."""
        offsets = self._broker.read(self._topics())
        at = datetime.now(UTC)
        queries = (*self._pipeline.tables, *self._pipeline.publish)
        tables = tuple(self._table(declared, at, offsets) for declared in queries)
        return Status(self._pipeline.name, at, offsets.address, offsets.note, tables)

    def _table(self, declared: Table | Publish, at: datetime, offsets: TopicOffsets) -> TableStatus:
        name = declared.table
        checkpoint = Checkpoint(self._layout.checkpoint_path(name))
        log = self._log(name)
        now = log.snapshot()
        lag, rate, batch, watermark = self._query_progress(declared, checkpoint, at, offsets)
        holder = find_holder(self._layout.leases, name)
        return TableStatus(
            table=name,
            kind=type(declared).__name__.lower(),
            reads=declared.topic_names or (declared.pattern or "",)
            if isinstance(declared, Topic)
            else sources(declared),
            path=log.path,
            now=now,
            lag=lag,
            rows_per_second=rate,
            last_batch_id=batch,
            watermark=watermark,
            quarantine=self._quarantine(declared) if isinstance(declared, Silver) else None,
            late=self._count_late(declared, log, now) if now is not None else None,
            other=self._count_other(declared, log, now) if now is not None else None,
            fields=self._fields.use(name),
            holder=holder,
            failures=self._failures(name, holder),
        )

    def _failures(self, query: str, holder: Holder | None) -> QueryState | None:
        """A query's failures; of a job that has ended only a failure for good, until the next start."""
        found = read_state(self._layout.query_states, query)
        return found if holder is not None or (found is not None and found.state == "failed") else None

    def _query_progress(
        self, declared: Table | Publish, checkpoint: Checkpoint, at: datetime, offsets: TopicOffsets
    ) -> tuple[Lag, float | None, int | None, datetime | None]:
        unit = "records" if isinstance(declared, Topic) else "rows"
        try:
            batch = checkpoint.last_committed()
            entry = checkpoint.planned_batch(batch)
            newest = checkpoint.planned_batch(checkpoint.last_planned())
            watermark = (
                datetime.fromtimestamp(newest.watermark_ms / 1000, UTC)
                if newest and newest.watermark_ms
                else None
            )
            if batch is not None and entry is None:
                return Lag(unit, note=f"its checkpoint lacks offsets/{batch}"), None, batch, watermark
            if isinstance(declared, Topic):
                lag, read = self._kafka_lag(declared, entry, offsets), self._kafka_read(declared)
            else:
                lag, read = self._delta_lag(declared.reads, entry), self._delta_read(declared.reads)
            rate = (
                None if lag.count is None and unit == "rows" else rate_per_second(checkpoint, batch, at, read)
            )
        except TableError as error:
            return Lag(unit, note=str(error).partition(". ")[0]), None, None, None
        return lag, rate, batch, watermark

    def _kafka_lag(self, topic: Topic, entry: PlannedBatch | None, offsets: TopicOffsets) -> Lag:
        if offsets.note:
            return Lag("records", note=offsets.note)
        behind = records_behind(topic, offsets, None if entry is None else kafka_position(entry))
        return Lag("records", behind, note="" if behind is not None else "not started; begins where declared")

    def _kafka_read(self, topic: Topic) -> Between:
        def read(start: PlannedBatch | None, end: PlannedBatch) -> int | None:
            if start is None:  # the checkpoint does not hold the first offsets, but the table holds every row
                now = self._log(topic.table).snapshot()
                return now.rows if now else None
            before = kafka_position(start)
            return sum(
                max(0, last - before.get(name, {}).get(partition, 0))
                for name, partitions in kafka_position(end).items()
                for partition, last in partitions.items()
            )

        return read

    def _delta_lag(self, source: str, entry: PlannedBatch | None) -> Lag:
        log = self._log(source)
        position = None if entry is None else delta_position(entry)
        now = log.snapshot()
        if now is None:
            return Lag("rows", 0, 0, 0, 0, note=f"waits for {source}")
        if position is not None and position.table_id != now.table_id:
            return Lag("rows", note=f"its checkpoint belongs to another {source}")
        left = log.backlog(position)
        note = "" if left.rows is not None else f"files of {source} lack statistics"
        return Lag("rows", left.rows, left.versions, left.files, left.bytes, note)

    def _delta_read(self, source: str) -> Between:
        def position(entry: PlannedBatch | None) -> DeltaPosition | None:
            return None if entry is None else delta_position(entry)

        def read(start: PlannedBatch | None, end: PlannedBatch) -> int | None:
            last = position(end)
            return 0 if last is None else self._log(source).backlog_between(position(start), last).rows

        return read

    def _quarantine(self, silver: Silver) -> Quarantine:
        log = self._log(silver.quarantine)
        now = log.snapshot()
        if now is None or now.files == 0:
            return Quarantine(silver.quarantine, 0, ())
        known = self._reasons.get(silver.quarantine)
        if known is None or known[0] != now.version:
            if self._database is None:
                self._database = Database()
            known = (now.version, count_reasons(self._database, log.path))
            self._reasons[silver.quarantine] = known
        return Quarantine(silver.quarantine, now.rows, known[1])

    def _count_late(self, declared: Table | Publish, log: LogReader, now: Snapshot) -> Late | None:
        if not (isinstance(declared, (Silver, Aggregate, Join)) and counts_late_rows(declared)):
            return None
        counter = self._late.setdefault(declared.table, LateCounter(declared))
        return counter.count(log, now.version, now.table_id)

    def _count_other(self, declared: Table | Publish, log: LogReader, now: Snapshot) -> OtherRecords | None:
        if not isinstance(declared, Silver) or declared.where is None:
            return None
        counter = self._late.setdefault(declared.table, LateCounter(declared))
        return counter.count_other(log, now.version, now.table_id)

    def _topics(self) -> Mapping[str, frozenset[str]]:
        """Topic names per bronze table; names that match a pattern are known after the first micro-batch."""
        found: dict[str, frozenset[str]] = {}
        for topic in self._pipeline.bronze:
            checkpoint = Checkpoint(self._layout.checkpoint_path(topic.table))
            try:
                entry = checkpoint.planned_batch(checkpoint.last_committed())
            except TableError:
                entry = None
            found[topic.table] = frozenset(topic.topic_names) | frozenset(
                kafka_position(entry) if entry else ()
            )
        return found

    def _log(self, table: str) -> LogReader:
        if table not in self._logs:
            self._logs[table] = LogReader(self._layout.table_path(table))
        return self._logs[table]
