"""What is happening in a pipeline: the one model that ``status``, the page, metrics and alerts read.

Every number exists here once. ``orchestration.observe.status.collect`` computes the model; its readers only
choose what they show. Times are UTC; a number that is not known is None, and the nearest ``note`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from common.delta.lease.lease_holder import Holder, Standby
from common.delta.log import Snapshot
from orchestration.access.declaration.field_use import FieldUse
from orchestration.access.history.alert_state import AlertsFile
from orchestration.access.history.catalog_state import CatalogEntry
from orchestration.access.history.job_state import BatchFacts, JobState
from orchestration.access.history.receipts_state import ReceiptsState
from orchestration.access.progress.query_states import QueryState
from orchestration.observe.status.late_counts import Late, OtherRecords
from orchestration.observe.status.recent_rows import RecentRows

State = Literal["working", "waiting", "starting", "restarting", "stalled", "stopped", "failed", "dead"]
"""What a query does: it processes a micro-batch; it waits for data; its job has not started it yet; it failed
for a temporary reason and is restarted; it has rows to read, and reads none; its job was stopped; it failed
for good; its process has vanished or does not answer."""

NEEDS_A_PERSON: frozenset[State] = frozenset({"failed", "dead", "stalled"})
"""States that do not pass by themselves."""

FAULTY: frozenset[State] = NEEDS_A_PERSON | {"restarting"}
"""States in which a query needs a person, or may soon."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What a table's query has yet to read of its source."""

    unit: str  # ``records`` of Kafka, or ``rows`` of a table
    count: int | None = None  # number of records or rows; None if it is not known
    versions: int | None = None  # number of commits of the source table that hold the rows; None for Kafka
    files: int | None = None  # number of files that hold the rows (``numFilesOutstanding``); None for Kafka
    bytes: int | None = None  # size of these files (``numBytesOutstanding``); None for Kafka
    note: str = ""  # the reason why a number is not known; empty if all are
    # Age of the oldest unread record (by Kafka's timestamp) or commit; 0 if nothing is unread
    seconds: float | None = None
    # Number of the source's files that this look listed (``numNewListedFiles``); None for Kafka
    listed: int | None = None
    # The source's version up to which rows are counted (``backlogEndOffset``); None for Kafka
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """How fresh a table is, from Kafka to the table, by the Kafka timestamps of records.

    A record counts as in the table once the table's query has processed it, also if it was rejected, a
    duplicate, or changed nothing.
    """

    # Kafka timestamp of the newest record that is in the table; None before the first
    newest_at: datetime | None
    # Kafka timestamp of the oldest record that is not; None if no record waits
    waiting_since: datetime | None
    is_known: bool  # whether ``waiting_since`` is known; if not, records may wait
    # Since when it is not known, as far as this process has looked; None if it is
    unknown_since: datetime | None = None

    def unknown_seconds(self, at: datetime) -> float:
        """For how long it has not been known whether a record waits; 0 while it is known."""
        since = self.unknown_since
        return 0.0 if self.is_known or since is None else max(0.0, (at - since).total_seconds())

    def newest_seconds(self, at: datetime) -> float | None:
        """Age of the newest record that is in the table; grows also while producers send nothing."""
        return None if self.newest_at is None else max(0.0, (at - self.newest_at).total_seconds())

    def waiting_seconds(self, at: datetime) -> float | None:
        """Age of the oldest record that is not in the table; 0 if none waits, None if it is not known."""
        if not self.is_known:
            return None
        return 0.0 if self.waiting_since is None else max(0.0, (at - self.waiting_since).total_seconds())


UNKNOWN_SECONDS = 30.0
"""Whether a record waits may be unknown for so long before a person should look: a broker restarts faster."""


@dataclass(frozen=True, slots=True)
class TimeToLoss:
    """When, at the present rates, unread data is deleted before the query reads it."""

    # Seconds until then; infinite (``never``) if the reader gains or nothing limits it; 0 if data is lost
    # already; None if it is not known
    seconds: float | None
    cause: str = ""  # what deletes the data, such as ``retention.ms of topic quakes``; empty for never

    @property
    def is_never(self) -> bool:
        """Whether nothing unread will be deleted."""
        return self.seconds == math.inf


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """Records of open transactions: behind them a reader of committed ones sees an end that is too early."""

    records: int  # records between the last stable offset and the end of the topic
    seconds: float  # how long the last stable offset has not moved, as far as this process has seen it
    # Whether the offset stood there at the first look of this process already, so that it may have stood for
    # longer
    is_at_least: bool = False


@dataclass(frozen=True, slots=True)
class QueryNow:
    """What the query of a table does now."""

    state: State  # see ``State``
    phase: str  # the same in words for people, such as ``micro-batch 17 for 3 s``
    since: datetime | None = None  # start of the state; None if it is not known
    error: str = ""  # the cause of a failure, in one line; contains nothing of a record
    restarts: int = 0  # restarts of the query since its job started
    # Facts of the newest finished micro-batch; None if its job recorded none
    last_batch: BatchFacts | None = None
    is_opening: bool = False  # whether its job still starts Spark, or waits for the broker
    # Whether it processes the available data and ends; its start waits for its source's end
    has_end: bool = False
    is_held: bool = False  # whether an operator has stopped it
    # The query that has failed, and that this one hangs on; empty where it waits for none
    waits_for: str = ""

    @property
    def is_faulty(self) -> bool:
        """Whether the query has failed, or its process is gone."""
        return self.state in FAULTY


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Rows in quarantine, per reason; a row with two reasons counts for both."""

    table: str
    rows: int | None
    reasons: tuple[tuple[str, int], ...]
    # What silver has read and quarantined in the last minutes; None before its first commit
    recent: RecentRows | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """The retention of a bronze table."""

    keep: str | None  # how long it keeps a record, as declared; None: for ever
    expired: int = 0  # number of offsets in the ranges from which retention has deleted records
    # The expired records in one line: topics, partitions, offsets, times; empty if there are none
    text: str = ""


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of a bronze table of files."""

    count: int  # files that were found, those that cannot be read included
    changed: tuple[str, ...]  # files that changed after they were found, and are not read again
    faults: Mapping[str, str]  # why files cannot be read, by path
    skipped: Mapping[str, str]  # why files were given up by ``medallion files skip``, by path
    # Why the declaration leaves files out, by path
    left_out: Mapping[str, str] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """What a person should look at."""
        if self.changed:
            yield (
                f"{_files(len(self.changed))} changed after being read ({self.changed[-1]}); "
                "what is new there is not read"
            )
        for path, fault in tuple(self.faults.items())[-1:]:
            yield f"{_files(len(self.faults))} cannot be read: {path}: {fault}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The status of one table."""

    table: str  # the full name
    kind: str  # ``topic``, ``files``, ``silver``, a kind of gold table such as ``upsert``, or ``publish``
    reads: tuple[str, ...]  # the topics or tables that the table's query reads
    path: str  # the table's path
    now: Snapshot | None  # rows, files, bytes, version and newest commit; None before the first write
    lag: Lag  # what the table's query has yet to read
    # The query's reading rate over the micro-batches that ended in the last 60 s; 0 if the query is idle,
    # None if the rate is not known
    rows_per_second: float | None
    last_batch_id: int | None  # the newest finished micro-batch
    watermark: datetime | None  # the event-time watermark; None if there is none yet
    quarantine: Quarantine | None  # the quarantine of a silver table; None for other tables
    # Late rows of a table with a watermark; None for other tables and before the first write
    late: Late | None
    # Other tables' records that a silver table with a condition ``where`` has read; None for other tables and
    # before the first write
    other: OtherRecords | None
    # Fields of bronze's newest records, compared with silver's schema; None if they are not compared
    # (``orchestration.access.declaration.field_use``)
    fields: FieldUse | None
    holder: Holder | None  # the process that writes the table; None if its job is stopped
    query: QueryNow  # what the query does now
    freshness: Freshness | None  # from Kafka to this table; None for a publication
    loss: TimeToLoss  # when unread data is deleted
    # Records of open transactions in the topics of a bronze table; None for other tables and if the broker
    # does not answer
    uncommitted: Uncommitted | None = None
    # Failures and restarts of the query since its job started; None if there are none
    failures: QueryState | None = None
    # How long a bronze table keeps records; None for other tables and before the first write
    kept: Kept | None = None
    fault: str = ""  # why the table cannot be read; its numbers are not known then. Empty if it can
    # The table in a catalog, with the error of a side table if it has none itself; None if no catalog is in
    # use
    catalog: CatalogEntry | None = None
    # The files that a bronze table of files reads; None for other tables
    source_files: SourceFiles | None = None
    # What the newest audit has found of its topic's receipts; None where none has, or for others
    receipts: ReceiptsState | None = None

    @property
    def layer(self) -> str:
        """``bronze``, ``silver``, ``gold``, or ``publish`` for a query that writes no table."""
        return self.table.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a pipeline."""

    pipeline: str
    at: datetime
    broker: str | None
    broker_note: str  # the reason if the broker's offsets are not known
    tables: tuple[TableStatus, ...]
    # The alerts, as the process that watches them has written them; None if none has
    alerts: AlertsFile | None = None
    # Seconds for which a record may wait before a person should look; None: any time
    freshness_goal: float | None = None
    standbys: tuple[Standby, ...] = ()  # processes of this host that wait to go on with a job of the pipeline
    jobs: tuple[JobState, ...] = ()  # the states of the jobs of this host, those that run first

    @property
    def awaited(self) -> frozenset[str]:
        """The jobs that have a standby."""
        return frozenset(one.job for one in self.standbys)

    @property
    def is_unanswered(self) -> bool:
        """Whether the process of a query was killed, or does not answer, and no other goes on."""
        return any(table.query.state == "dead" for table in self.tables)

    @property
    def waiting_seconds(self) -> float | None:
        """Age of the oldest record that a gold table lacks (of silver or bronze where none is declared).

        None if it is not known of a table; 0 if no record waits.
        """
        ages = [found.waiting_seconds(self.at) for found in self.last_freshness]
        known = [age for age in ages if age is not None]
        return max(known, default=0.0) if len(known) == len(ages) else None

    @property
    def last_freshness(self) -> tuple[Freshness, ...]:
        """The freshness of each gold table; of silver or bronze where no gold is declared."""
        layers = {table.layer for table in self.tables if table.freshness is not None}
        last = next((layer for layer in ("gold", "silver", "bronze") if layer in layers), "")
        return tuple(
            table.freshness for table in self.tables if table.layer == last and table.freshness is not None
        )
