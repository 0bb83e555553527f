"""Where every table of a pipeline stands, from tables, checkpoints, leases and broker; without Spark.

``collect`` reads; ``orchestration.cli.status_output`` shows. Nothing here writes, and what cannot be known
(a broker that is down, a checkpoint of another table) is said in a note, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from common.config.paths import Layout
from common.declare import Pipeline, Publish, Silver, Table, Topic
from common.delta.checkpoint import Checkpoint, DeltaPosition, PlannedBatch, delta_position, kafka_position
from common.delta.log import LogReader, Snapshot
from common.errors import TableError
from orchestration.cli.options import Context
from orchestration.pipeline.lineage import sources
from orchestration.query.duckdb_views import Database, quarantined
from orchestration.status.lease_holder import Holder, holder
from orchestration.status.throughput import rate_per_second
from orchestration.status.topic_offsets import BrokerOffsets, Reach, records_behind

Between = Callable[[PlannedBatch | None, PlannedBatch], int | None]


@dataclass(frozen=True, slots=True)
class Lag:
    """What a table's query has yet to read of its source.

    Attributes:
        unit: ``records`` of Kafka, or ``rows`` of a table.
        count: How many of them; None when that cannot be known.
        versions: Commits of the table it reads that hold them; None for Kafka.
        files: Files that hold them; None for Kafka.
        bytes: Size of these files; None for Kafka.
        note: Why something is not known; else empty.
    """

    unit: str
    count: int | None = None
    versions: int | None = None
    files: int | None = None
    bytes: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Rows that a silver table rejected; a row with two reasons counts for both of them."""

    table: str
    rows: int | None
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table.

    Attributes:
        table: Its full name.
        kind: ``topic``, ``silver``, a kind of gold table such as ``upsert``, or ``publish``.
        reads: Topics, or the table, that it is made from.
        path: Where it lies.
        now: Rows, files, bytes, version and newest commit; None while it is not written.
        lag: What its query has yet to read.
        rows_per_second: Rows its query read, over the micro-batches that ended in the last 60 s;
            0 when idle, None when that cannot be known.
        last_batch_id: Its newest micro-batch that is done.
        watermark: Its event-time watermark; None where there is none (yet).
        quarantine: What it rejected; None except for silver tables.
        holder: The process that writes it; None when it is stopped.
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
    holder: Holder | None

    @property
    def layer(self) -> str:
        """``bronze``, ``silver``, ``gold``, or ``publish`` for a query that writes no table."""
        return self.table.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Status:
    """A pipeline at a moment; ``broker_note`` says why nothing is known of the broker, if so."""

    pipeline: str
    at: datetime
    broker: str | None
    broker_note: str
    tables: tuple[TableStatus, ...]


def collect(context: Context) -> Status:
    """Where every table stands now."""
    return Collector(
        context.pipeline, context.layout, BrokerOffsets(context.pipeline, context.settings)
    ).collect()


class Collector:
    """Collects again and again; each time it reads only what is new since the last."""

    def __init__(self, pipeline: Pipeline, layout: Layout, broker: BrokerOffsets) -> None:
        self._pipeline, self._layout, self._broker = pipeline, layout, broker
        self._logs: dict[str, LogReader] = {}
        self._database: Database | None = None
        self._reasons: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {}

    def collect(self) -> Status:
        """Where every table stands now."""
        reach = self._broker.ask(self._topics())
        at = datetime.now(UTC)
        queries = (*self._pipeline.tables, *self._pipeline.publish)
        tables = tuple(self._table(declared, at, reach) for declared in queries)
        return Status(self._pipeline.name, at, reach.address, reach.note, tables)

    def _table(self, declared: Table | Publish, at: datetime, reach: Reach) -> TableStatus:
        name = declared.table
        checkpoint = Checkpoint(self._layout.checkpoint_path(name))
        log = self._log(name)
        lag, rate, batch, watermark = self._progress(declared, checkpoint, at, reach)
        return TableStatus(
            table=name,
            kind=type(declared).__name__.lower(),
            reads=declared.topic_names or (declared.pattern or "",)
            if isinstance(declared, Topic)
            else sources(declared),
            path=log.path,
            now=log.snapshot(),
            lag=lag,
            rows_per_second=rate,
            last_batch_id=batch,
            watermark=watermark,
            quarantine=self._quarantine(declared) if isinstance(declared, Silver) else None,
            holder=holder(self._layout.leases, name),
        )

    def _progress(
        self, declared: Table | Publish, checkpoint: Checkpoint, at: datetime, reach: Reach
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
                lag, read = self._kafka_lag(declared, entry, reach), self._kafka_read(declared)
            else:
                lag, read = self._delta_lag(declared.reads, entry), self._delta_read(declared.reads)
            rate = (
                None if lag.count is None and unit == "rows" else rate_per_second(checkpoint, batch, at, read)
            )
        except TableError as error:
            return Lag(unit, note=str(error).partition(". ")[0]), None, None, None
        return lag, rate, batch, watermark

    def _kafka_lag(self, topic: Topic, entry: PlannedBatch | None, reach: Reach) -> Lag:
        if reach.note:
            return Lag("records", note=reach.note)
        behind = records_behind(topic, reach, None if entry is None else kafka_position(entry))
        return Lag(
            "records", behind, note="" if behind is not None else "not started; begins where it is told to"
        )

    def _kafka_read(self, topic: Topic) -> Between:
        def read(start: PlannedBatch | None, end: PlannedBatch) -> int | None:
            if start is None:  # where it began to read is not in the checkpoint: all it read is in the table
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
            known = (now.version, quarantined(self._database, log.path))
            self._reasons[silver.quarantine] = known
        return Quarantine(silver.quarantine, now.rows, known[1])

    def _topics(self) -> Mapping[str, frozenset[str]]:
        """Topic names per bronze table; those of a pattern are known once a micro-batch has read them."""
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
