"""Computes the model of a pipeline from tables, checkpoints, leases, job states and the broker.

Starts no Spark, writes and prints nothing. A missing fact (a broker that is down, a checkpoint of another
table) becomes a note, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from common.config.pace import trigger_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import (
    Aggregate,
    Bronze,
    DeltaTable,
    Files,
    Gold,
    Join,
    Pipeline,
    Publish,
    Silver,
    Stream,
    Table,
    Topic,
)
from common.delta.checkpoint import Checkpoint, PlannedBatch, delta_position, kafka_position
from common.delta.commit import from_epoch_ms
from common.delta.lease.lease_holder import Holder, Holders, find_standbys
from common.delta.log import LogReader, Snapshot
from common.delta.maintenance.retention import expired_text, expired_topics
from common.errors import HistoryGoneError, TableError
from common.streaming.file_list import FileList
from orchestration.access.declaration.context import Context
from orchestration.access.declaration.field_use import FieldSampler
from orchestration.access.declaration.lineage import read_tables
from orchestration.access.history.alert_state import read_alerts
from orchestration.access.history.catalog_state import CatalogEntry, read_entries
from orchestration.access.history.job_state import JobState, read_states
from orchestration.access.history.receipts_state import receipts_state
from orchestration.access.history.stopped_queries import stopped_since
from orchestration.access.progress.query_states import QueryState, read_state
from orchestration.access.progress.rows_read import begins_later, rows_between
from orchestration.access.progress.unread_commits import UnreadCommits, UnreadCounter
from orchestration.observe.status import time_to_loss
from orchestration.observe.status.freshness import TIMESTAMP, UNKNOWN, RecordTrail
from orchestration.observe.status.late_counts import Late, LateCounter, OtherRecords, counts_late_rows
from orchestration.observe.status.model import (
    Freshness,
    Kept,
    Lag,
    Quarantine,
    QueryNow,
    SourceFiles,
    Status,
    TableStatus,
    TimeToLoss,
)
from orchestration.observe.status.query_state import Planned, StallWatch, held, query_now
from orchestration.observe.status.reason_counts import ReasonCounter
from orchestration.observe.status.recent_rows import RecentCounter, RecentRows
from orchestration.observe.status.throughput import rate_per_second
from orchestration.observe.status.topic_offsets import (
    BrokerOffsets,
    Offsets,
    TopicOffsets,
    kept_before,
    of_files,
    records_behind,
    uncommitted,
    unread_since,
)
from orchestration.observe.status.words.state import doing

_KEPT_COMMITS = 2_000
"""The newest commits of each table that stay in memory."""

_NEAR_COMMITS = 30
"""Commits that stay in memory at the place where a query reads on."""


def collect(context: Context) -> Status:
    """The status of every table now."""
    broker = BrokerOffsets(context.pipeline, context.settings)
    return Collector(context.pipeline, context.layout, broker, context.settings).collect()


@dataclass(frozen=True, slots=True)
class _Progress:
    """What a checkpoint says; ``entry`` is the newest finished micro-batch, if its file is there."""

    entry: PlannedBatch | None
    planned: Planned
    note: str = ""  # the reason why the checkpoint cannot be used; empty if it can
    # The offsets at which a Kafka source begins, before its first micro-batch.
    beginning: Offsets | None = None

    @property
    def watermark(self) -> datetime | None:
        newest = self.planned.newest
        return from_epoch_ms(newest.watermark_ms) if newest and newest.watermark_ms else None


class Collector:
    """Computes the model repeatedly; reads only the commits that are new since the last time."""

    def __init__(
        self, pipeline: Pipeline, layout: Layout, broker: BrokerOffsets, settings: Settings | None = None
    ) -> None:
        self._stalls = StallWatch(
            lambda name: "" if settings is None else trigger_of(pipeline.query(name), settings)
        )
        self._goal = None if settings is None else settings.http.goal_seconds
        self._pipeline, self._layout, self._broker = pipeline, layout, broker
        self._holders = Holders(layout)
        self._logs: dict[str, LogReader] = {}
        self._fields = FieldSampler(pipeline, layout)
        self._late: dict[str, LateCounter] = {}
        self._recent: dict[str, RecentCounter] = {}
        self._reasons: dict[str, ReasonCounter] = {}
        self._unread: dict[str, UnreadCounter] = {}
        self._needed: dict[str, list[int]] = {}
        """The versions of each table at which queries read on, as of the last time."""
        self._file_lists: dict[str, FileList] = {}
        self._unknown_since: dict[str, datetime] = {}
        self._trail = RecordTrail(pipeline.tables, self.log, self._checkpoint)

    def collect(self) -> Status:
        """The status of every table now."""
        queries = (*self._pipeline.tables, *self._pipeline.publish)
        progress = {declared.table: self._progress(declared.table) for declared in queries}
        topics = {topic.table: _position(progress[topic.table]) for topic in self._pipeline.topics}
        offsets = self._broker.read(topics) if topics else TopicOffsets()
        at = datetime.now(UTC)
        jobs = read_states(self._layout.jobs)
        tables = tuple(self._seen(one, progress[one.table], at, offsets, jobs) for one in queries)
        self._release_commits()
        if entries := read_entries(self._layout.catalog):
            tables = tuple(
                replace(seen, catalog=_catalog(one, entries))
                for seen, one in zip(tables, queries, strict=True)
            )
        alerts = read_alerts(self._layout.alerts)
        return Status(
            self._pipeline.name,
            at,
            offsets.address,
            offsets.note,
            tables,
            alerts,
            freshness_goal=self._goal,
            standbys=find_standbys(self._layout.leases),
            jobs=jobs,
        )

    def _seen(
        self,
        declared: Table | Publish,
        progress: _Progress,
        at: datetime,
        offsets: TopicOffsets,
        jobs: tuple[JobState, ...],
    ) -> TableStatus:
        """The status of a table; a table that cannot be read must not hide the others."""
        try:
            return self._table(declared, progress, at, offsets, jobs)
        except TableError as error:
            fault = str(error).partition(". ")[0]
        name = declared.table
        holder = self._holders.find(name)
        lag = Lag("records" if isinstance(declared, Topic | Files) else "rows", note=fault)
        query = self._query(name, jobs, holder, progress.planned, at)
        return TableStatus(
            table=name,
            kind=type(declared).__name__.lower(),
            reads=_reads(declared),
            path=self.log(name).path,
            now=None,
            lag=lag,
            rows_per_second=None,
            last_batch_id=progress.planned.committed,
            watermark=progress.watermark,
            quarantine=None,
            late=None,
            other=None,
            fields=None,
            holder=holder,
            query=replace(query, phase=doing(query, lag)),
            failures=self._failures(name, holder),
            freshness=None if isinstance(declared, Publish) else self._dated(name, UNKNOWN, at),
            loss=time_to_loss.UNKNOWN,
            fault=fault,
        )

    def log(self, table: str) -> LogReader:
        """The log of a table of the pipeline; it keeps what it has read."""
        if table not in self._logs:
            bounds_of = TIMESTAMP if table.startswith("bronze.") else ""
            self._logs[table] = LogReader(self._layout.table_path(table), bounds_of)
        return self._logs[table]

    def _table(
        self,
        declared: Table | Publish,
        progress: _Progress,
        at: datetime,
        offsets: TopicOffsets,
        jobs: tuple[JobState, ...],
    ) -> TableStatus:
        name = declared.table
        log = self.log(name)
        now = log.snapshot()
        if isinstance(declared, Files):
            offsets = of_files(declared, self._listed(declared), _position(progress))
        rate = self._rate(declared, progress, at, offsets)
        lag, loss = self._lag_and_loss(declared, progress, at, offsets, rate)
        holder = self._holders.find(name)
        query = self._query(name, jobs, holder, progress.planned, at)
        topic = declared if isinstance(declared, Topic | Files) else None
        first = "" if isinstance(declared, Bronze) else _reads(declared)[0]
        return TableStatus(
            table=name,
            kind=type(declared).__name__.lower(),
            reads=_reads(declared),
            path=log.path,
            now=now,
            lag=lag,
            rows_per_second=rate if lag.count is not None or lag.unit == "records" else None,
            last_batch_id=progress.planned.committed,
            watermark=progress.watermark,
            quarantine=self._quarantine(declared, log, now, at) if isinstance(declared, Silver) else None,
            late=self._count_late(declared, log, now) if now is not None else None,
            other=self._count_other(declared, log, now) if now is not None else None,
            fields=self._fields.use(name),
            holder=holder,
            query=self._stalls.judged(name, query, lag, progress.planned, at, first),
            failures=self._failures(name, holder),
            freshness=None if isinstance(declared, Publish) else self._freshness(name, offsets, at),
            loss=loss,
            uncommitted=None if topic is None else uncommitted(topic, offsets, _position(progress)),
            kept=_kept(declared, log) if isinstance(declared, Bronze) and now is not None else None,
            source_files=self._source_files(declared) if isinstance(declared, Files) else None,
            receipts=receipts_state(self._layout, name)
            if isinstance(declared, Topic) and declared.receipts
            else None,
        )

    def _query(
        self, name: str, jobs: tuple[JobState, ...], holder: Holder | None, planned: Planned, at: datetime
    ) -> QueryNow:
        found = query_now(name, jobs, holder, planned, at, self._holders.lapsed(name))
        return held(found, name, stopped_since(self._layout, name))

    def _failures(self, query: str, holder: Holder | None) -> QueryState | None:
        """A query's failures; of a job that has ended only a failure for good, until the next start."""
        found = read_state(self._layout.query_states, query)
        return found if holder is not None or (found is not None and found.state == "failed") else None

    def _progress(self, table: str) -> _Progress:
        checkpoint = self._checkpoint(table)
        try:
            batch = checkpoint.last_committed()
            entry = checkpoint.planned_batch(batch)
            planned = Planned(checkpoint.planned_batch(checkpoint.last_planned()), batch)
        except TableError as error:
            return _Progress(None, Planned(), str(error).partition(". ")[0])
        note = "" if batch is None or entry is not None else f"its checkpoint lacks offsets/{batch}"
        is_idle = batch is None and planned.newest is None and table.startswith("bronze.")
        return _Progress(entry, planned, note, checkpoint.kafka_beginning() if is_idle else None)

    def _lag_and_loss(
        self,
        declared: Table | Publish,
        progress: _Progress,
        at: datetime,
        offsets: TopicOffsets,
        rate: float | None,
    ) -> tuple[Lag, TimeToLoss]:
        unit = "records" if isinstance(declared, Topic | Files) else "rows"
        if progress.note:
            return Lag(unit, note=progress.note), time_to_loss.UNKNOWN
        if isinstance(declared, Stream):
            note = f"the source {declared.format} does not say what is unread"
            note += "" if declared.replayable else ", and gives no row again after a kill"
            return Lag(unit, note=note), time_to_loss.UNKNOWN
        if isinstance(declared, Topic | Files):
            return _kafka_lag(declared, _position(progress), at, offsets, rate)
        try:
            return self._delta_lag(declared, progress.entry, at, rate)
        except HistoryGoneError as error:
            note = str(error).partition(". ")[0]
            read = declared.read_text if isinstance(declared, Silver) else declared.reads
            lost = TimeToLoss(0.0, f"the log of {read}: commits are lost already")
            return Lag(unit, note=note), lost
        except TableError as error:
            return Lag(unit, note=str(error).partition(". ")[0]), time_to_loss.UNKNOWN

    def _delta_lag(
        self,
        declared: DeltaTable | Silver | Gold | Publish,
        entry: PlannedBatch | None,
        at: datetime,
        rate: float | None,
    ) -> tuple[Lag, TimeToLoss]:
        read = declared.sources if isinstance(declared, Silver) else (declared.reads,)
        found = [self._source_lag(declared, one, n, entry, at, rate) for n, one in enumerate(read)]
        if len(found) == 1:
            return found[0]
        return _summed([lag for lag, _ in found]), time_to_loss.soonest(loss for _, loss in found)

    def _source_lag(  # noqa: PLR0913, PLR0917  # the reader, its source, and how far it is
        self,
        declared: DeltaTable | Silver | Gold | Publish,
        source: str,
        place: int,
        entry: PlannedBatch | None,
        at: datetime,
        rate: float | None,
    ) -> tuple[Lag, TimeToLoss]:
        log = self.log(source)
        position = None if entry is None else delta_position(entry, place)
        now = log.snapshot()
        if now is None:
            return Lag("rows", 0, 0, 0, 0, note=f"waits for {source}", seconds=0.0), time_to_loss.NEVER
        if position is not None and position.table_id != now.table_id:
            return Lag("rows", note=f"its checkpoint belongs to another {source}"), time_to_loss.UNKNOWN
        if position is None and begins_later(declared):
            return Lag("rows", note="not started; begins where declared"), time_to_loss.UNKNOWN
        unread = self._unread.setdefault(source, UnreadCounter(log)).count(position, declared.table)
        self._needed.setdefault(source, []).append(unread.begin)
        left = unread.backlog
        note = "" if left.rows is not None else f"files of {source} lack statistics"
        if not left.files:
            return _unread_lag(unread, note, 0.0), time_to_loss.NEVER
        seconds = max(0.0, (at - (unread.oldest_at or now.timestamp)).total_seconds())
        lag = _unread_lag(unread, note, seconds)
        if left.rows is None or rate is None:
            return lag, time_to_loss.UNKNOWN
        rows = time_to_loss.Unread(left.rows, seconds, rate)
        return lag, time_to_loss.in_delta(rows, unread.removed_at, log.properties(), source, at)

    def _rate(
        self, declared: Table | Publish, progress: _Progress, at: datetime, offsets: TopicOffsets
    ) -> float | None:
        if progress.note:
            return None

        def read(start: PlannedBatch | None, end: PlannedBatch) -> int | None:
            if start is None and isinstance(declared, Bronze):
                # The checkpoint does not hold the first offsets, but the table holds every row.
                now = self.log(declared.table).snapshot()
                return now.rows if now else None
            return rows_between(declared, start, end, self.log, offsets.first)

        try:
            return rate_per_second(self._checkpoint(declared.table), progress.planned.committed, at, read)
        except TableError:
            return None

    def _freshness(self, table: str, offsets: TopicOffsets, at: datetime) -> Freshness:
        """From Kafka to a table; of several bronze tables, the one that the table reads counts."""
        source = self._trail.bronze_of(table)
        topic = next((one for one in self._pipeline.bronze if one.table == source), None)
        if topic is None:  # a view of tables of other programs alone
            return self._dated(table, UNKNOWN, at)
        progress = self._progress(source)
        if isinstance(topic, DeltaTable):
            return self._dated(table, self._from_delta(topic, table, progress, at), at)
        if isinstance(topic, Stream):  # what its source has is not known: from bronze on
            return self._dated(table, self._trail.freshness(table, None, is_unread_known=True), at)
        position = _position(progress)
        if isinstance(topic, Files):
            offsets = of_files(topic, self._listed(topic), position)
        behind = None if offsets.note else records_behind(topic, offsets, position)
        since = unread_since(topic, offsets, position)
        found = self._trail.freshness(table, since, is_unread_known=behind == 0 or since is not None)
        return self._dated(table, found, at)

    def _from_delta(self, source: DeltaTable, table: str, progress: _Progress, at: datetime) -> Freshness:
        """From a Delta table that bronze reads to a table."""
        lag, _ = self._lag_and_loss(source, progress, at, TopicOffsets(), None)
        since = at - timedelta(seconds=lag.seconds) if lag.seconds else None
        return self._trail.freshness(table, since, is_unread_known=lag.count == 0 or since is not None)

    def _dated(self, table: str, found: Freshness, at: datetime) -> Freshness:
        """A freshness with the time since which it is not known."""
        if found.is_known:
            self._unknown_since.pop(table, None)
            return found
        since = self._unknown_since[table] = min(at, self._unknown_since.get(table, at))
        return replace(found, unknown_since=since)

    def _quarantine(
        self, silver: Silver, accepted: LogReader, newest: Snapshot | None, at: datetime
    ) -> Quarantine:
        recent: RecentRows | None = None
        if newest is not None:
            counter = self._recent.setdefault(silver.table, RecentCounter())
            recent = counter.count(accepted, newest.version, newest.table_id, at)
        log = self.log(silver.quarantine)
        now = log.snapshot()
        if now is None or now.files == 0:
            return Quarantine(silver.quarantine, 0, (), recent)
        reasons = self._reasons.setdefault(silver.quarantine, ReasonCounter()).count(log, now)
        return Quarantine(silver.quarantine, now.rows, reasons, recent)

    def _count_late(self, declared: Table | Publish, log: LogReader, now: Snapshot) -> Late | None:
        if not (isinstance(declared, (Silver, Aggregate, Join)) and counts_late_rows(declared)):
            return None
        counter = self._late.setdefault(declared.table, LateCounter(declared))
        return counter.count(log, now.version, now.table_id)

    def _listed(self, files: Files) -> FileList:
        path = self._layout.file_list_path(files.table)
        return self._file_lists.setdefault(files.table, FileList(path))

    def _source_files(self, files: Files) -> SourceFiles:
        listed = self._listed(files)
        skipped = {path: one.why for path, one in listed.skipped.items()}
        return SourceFiles(
            listed.files, tuple(listed.changed), dict(listed.faults), skipped, dict(listed.left_out)
        )

    def _checkpoint(self, table: str) -> Checkpoint:
        return Checkpoint(self._layout.checkpoint_path(table))

    def _count_other(self, declared: Table | Publish, log: LogReader, now: Snapshot) -> OtherRecords | None:
        if not isinstance(declared, Silver) or declared.where is None:
            return None
        counter = self._late.setdefault(declared.table, LateCounter(declared))
        return counter.count_other(log, now.version, now.table_id)

    def _release_commits(self) -> None:
        """Release commits that nothing needs: the model is computed every second, in jobs of a year."""
        for table, log in self._logs.items():
            if (latest := log.latest_version()) is not None:
                begins = self._needed.get(table, [latest])
                near = [range(begin, begin + _NEAR_COMMITS) for begin in begins]
                log.forget_before(latest - _KEPT_COMMITS, near)
                if table in self._unread:
                    self._unread[table].forget_before(min(begins))
        self._needed.clear()


def _catalog(declared: Table | Publish, entries: Mapping[str, CatalogEntry]) -> CatalogEntry | None:
    """A table's entry in a catalog; with the error of one of its side tables if it has none itself."""
    own = entries.get(declared.table)
    if own is None or own.error or isinstance(declared, Publish):
        return own
    sides = (entries[table] for table in declared.side_tables if table in entries)
    fault = next((f"{side.name}: {side.error}" for side in sides if side.error), "")
    return replace(own, error=fault)


def _summed(lags: Sequence[Lag]) -> Lag:
    """What a query has yet to read of several tables."""

    def total(name: str) -> int | None:
        found = [getattr(lag, name) for lag in lags]
        return None if None in found else sum(found)

    seconds = [lag.seconds for lag in lags if lag.seconds is not None]
    return Lag(
        lags[0].unit,
        count=total("count"),
        versions=total("versions"),
        files=total("files"),
        bytes=total("bytes"),
        note="; ".join(dict.fromkeys(lag.note for lag in lags if lag.note)),
        seconds=max(seconds) if len(seconds) == len(lags) else None,
        listed=total("listed"),
    )


def _unread_lag(unread: UnreadCommits, note: str, seconds: float) -> Lag:
    left = unread.backlog
    return Lag(
        "rows", left.rows, left.versions, left.files, left.bytes, note, seconds, unread.listed, unread.end
    )


def _kafka_lag(
    topic: Topic | Files, position: Offsets | None, at: datetime, offsets: TopicOffsets, rate: float | None
) -> tuple[Lag, TimeToLoss]:
    if offsets.note:
        return Lag("records", note=offsets.note), time_to_loss.UNKNOWN
    behind = records_behind(topic, offsets, position)
    if behind is None:
        return Lag("records", note="not started; begins where declared"), time_to_loss.UNKNOWN
    since = unread_since(topic, offsets, position)
    seconds = 0.0 if not behind else None if since is None else max(0.0, (at - since).total_seconds())
    lag = Lag("records", behind, seconds=seconds)
    kept, name = kept_before(topic, offsets, position)
    if behind and (seconds is None or rate is None):
        return lag, time_to_loss.UNKNOWN
    unread = time_to_loss.Unread(behind, seconds or 0.0, rate or 0.0)
    return lag, time_to_loss.in_kafka(unread, offsets.retention.get(name, {}), kept, name)


def _kept(topic: Bronze, log: LogReader) -> Kept:
    """How long a bronze table keeps records, and what it no longer has."""
    topics = expired_topics(log.properties())
    expired = sum(end - first for one in topics.values() for first, end in one.offsets.values())
    return Kept(topic.keep, expired, expired_text(topics))


def _reads(declared: Table | Publish) -> tuple[str, ...]:
    """The topics, or their pattern, or the tables that a query reads."""
    if isinstance(declared, Bronze):
        return declared.topic_names or (declared.pattern or "",)
    return read_tables(declared)


def _position(progress: _Progress) -> Offsets | None:
    return progress.beginning if progress.entry is None else kafka_position(progress.entry)
