"""Maintenance by the job that writes a table: compacts small files, and deletes files that nothing needs.

One thread per process looks at the tables of the process's queries. A compaction takes the query's turn
(``common.streaming.turns``), so it happens between two micro-batches and under the job's own lease. Streams
that read the table skip its commit, which changes no row. After a piece of work that took a second, the
thread pauses for as long as the setting ``maintenance.cpu_share`` demands: nine seconds with a share of 10 %.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from common.config.driver_limits import DriverLimits
from common.config.paths import Layout
from common.config.settings import MaintenanceSettings
from common.declare import Gold, Pipeline, Table
from common.declare.intervals import parse_duration
from common.delta import delta_rs
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.maintenance import compaction
from common.delta.maintenance.retention import FILES, retention
from common.errors import MedallionError, first_line
from common.machine.console import say
from common.streaming.turns import Turns
from gold.table.compact_every import clustered_by
from orchestration.access.declaration.lineage import written_by
from orchestration.run.maintenance import reason_to_keep_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS, _SHORTEST_SWEEP_SECONDS = 5.0, 3_600.0

_log = logging.getLogger("medallion.maintenance")


@dataclass
class Budget:
    """Keeps work within a share of the time."""

    share: float  # the largest share, above 0
    clock: Callable[[], float] = time.monotonic  # the time, in seconds
    spent: float = 0.0  # seconds of work so far
    _free_at: float = 0.0

    def has_room(self) -> bool:
        """Whether work may begin now."""
        return self.clock() >= self._free_at

    @contextmanager
    def work(self) -> Iterator[None]:
        """The work inside the block; the next one may begin after a pause in proportion to its time."""
        began = self.clock()
        try:
            yield
        finally:
            ended = self.clock()
            self.spent += ended - began
            self._free_at = ended + (ended - began) * (1 / self.share - 1)


@dataclass
class _Kept:
    """A table under maintenance."""

    table: str  # its name
    query: str  # the query that writes it
    path: str
    log: LogReader  # its log
    is_compacted_by_query: bool  # whether the query compacts it itself: a gold table with clustering columns
    cluster_by: Sequence[str]  # the clustering columns of a bronze or silver table
    looked_at: int = -1  # the version up to which its files were counted
    # Number of files from which on a compaction is tried again; after one that did little.
    least_files: int = 0
    # When its old files were deleted last, or when the job started; on the clock of the budget.
    swept_at: float = 0.0
    has_swept: bool = False  # whether the job has deleted its old files
    # Time from one deletion of old files to the next; None: not looked up yet.
    sweep_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    """A compaction that is due."""

    kept: _Kept  # the table
    files: int  # its live files
    tier: int  # the tier that has many of them


class BackgroundMaintenance:
    """Compacts the tables of a process and deletes their old files, until it is stopped."""

    def __init__(  # noqa: PLR0913  # where, with what, and how much
        self,
        pipeline: Pipeline,
        layout: Layout,
        tables: Sequence[Table],
        *,
        turns: Turns,
        settings: MaintenanceSettings,
        limits: DriverLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline, self._layout, self._turns, self._limits = pipeline, layout, turns, limits
        self._settings, self._clock, self.tables = settings, clock, tables
        self.budget = Budget(settings.cpu_share or 1.0, clock)
        self.compactions = 0
        now = clock()
        self._kept = [
            _Kept(
                table=table,
                query=declared.table,
                path=layout.table_path(table),
                log=LogReader(layout.table_path(table)),
                is_compacted_by_query=_is_compacted_by_query(pipeline, table),
                cluster_by=() if isinstance(declared, Gold) else clustered_by(declared, table),
                swept_at=now,
            )
            for declared in tables
            if declared.table not in layout.shared
            for table in (declared.table, *declared.side_tables)
        ]
        every = parse_duration(settings.delete_every)
        self._sweep_seconds = every.seconds if every is not None else 0.0

    def look(self, spark: SparkSession) -> None:
        """Do what is due at every table, as far as the budget has room: first where the most files are."""
        due: list[_Due] = []
        for kept in self._kept if self.budget.has_room() else ():
            if not kept.is_compacted_by_query:
                self._guarded(kept, lambda: due.extend(self._due(kept)))  # noqa: B023  # called at once
        for one in sorted(due, key=lambda each: -each.files):
            if self.budget.has_room():
                self._guarded(one.kept, lambda: self._compact(spark, one))  # noqa: B023  # called at once
        for kept in self._kept:
            if self.budget.has_room() and self._is_sweep_due(kept):
                kept.swept_at, kept.sweep_seconds, kept.has_swept = self._clock(), None, True
                self._guarded(kept, lambda: self._sweep(spark, kept))  # noqa: B023  # called at once

    def _guarded(self, kept: _Kept, work: Callable[[], None]) -> None:
        """Maintenance that fails is tried again later; the query goes on."""
        from deltalake.exceptions import DeltaError

        try:
            work()
        except (PySparkException, Py4JError, DeltaError, MedallionError, OSError) as error:
            _log.warning("%s: no maintenance this time: %s", kept.table, first_line(error))

    def _due(self, kept: _Kept) -> Iterator[_Due]:
        """The compaction that a table needs, if it needs one."""
        version = kept.log.latest_version()
        # A commit adds a file or more; fewer commits than that cannot have filled a tier, or seldom.
        if version is None or version - kept.looked_at < self._settings.small_files // 2:
            return
        sizes = self._file_sizes(kept.path)
        tier = compaction.due_tier(sizes, self._settings.small_files)
        if tier is None or len(sizes) < kept.least_files:
            kept.looked_at = version
        else:
            yield _Due(kept, len(sizes), tier)

    def _compact(self, spark: SparkSession, due: _Due) -> None:
        kept = due.kept
        kept.looked_at = kept.log.latest_version() or 0
        metadata = delta_table.maintenance_metadata(self._pipeline.name, kept.table, "compaction")
        self.compactions += 1
        with self._turns.take(kept.query), self.budget.work():
            if kept.cluster_by:
                compaction.compact(spark, kept.path, metadata, cluster_by=kept.cluster_by)
            else:
                compaction.compact_tier(spark, kept.path, metadata, due.tier, self._limits)
        kept.looked_at = kept.log.latest_version() or kept.looked_at
        # Small files of many partitions stay as they are until there are many more of them.
        left, many = len(self._file_sizes(kept.path)), self._settings.small_files
        kept.least_files = left + many if left > due.files - many // 2 else 0

    def _is_sweep_due(self, kept: _Kept) -> bool:
        """Whether old files are to be deleted: seldom, but more often where the table keeps them shortly."""
        waited = self._clock() - kept.swept_at
        if waited < min(self._sweep_seconds, _SHORTEST_SWEEP_SECONDS):
            return False
        if not kept.has_swept:
            return True  # a job that is restarted every day deletes files too
        if kept.sweep_seconds is None:
            keeps = max(_SHORTEST_SWEEP_SECONDS, retention(kept.log.properties(), FILES).total_seconds())
            kept.sweep_seconds = min(self._sweep_seconds, keeps)
        return waited >= kept.sweep_seconds

    def _sweep(self, spark: SparkSession, kept: _Kept) -> None:
        """Delete old files, behind the slowest query that reads the table."""
        if not delta_table.exists(kept.path):
            return
        reason = reason_to_keep_files(self._pipeline, self._layout, kept.table)
        if reason:
            _log.warning("%s keeps its old files: %s", kept.table, reason)
            return
        with self.budget.work():
            compaction.delete_old_files(spark, kept.path)

    def _file_sizes(self, path: str) -> list[int]:
        table = delta_rs.open_table(path, self._limits)
        return LogReader(path).file_sizes() if table is None else table.file_sizes()


@contextmanager
def running(maintenance: BackgroundMaintenance, spark: SparkSession) -> Iterator[None]:
    """Maintenance in a thread of its own inside the block, whose end waits for work that has begun."""
    ending = threading.Event()

    def loop() -> None:
        # A session of its own: a compaction sets the metadata of its commits in the session.
        session = spark.newSession()
        while not ending.wait(_LOOK_SECONDS):
            maintenance.look(session)

    thread = threading.Thread(target=loop, name="maintenance")
    thread.start()
    began = time.monotonic()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        if maintenance.compactions:
            seconds = time.monotonic() - began
            say(
                f"maintenance: {maintenance.compactions} compactions, "
                f"{maintenance.budget.spent:.1f} s of {seconds:.0f} s"
            )


def _is_compacted_by_query(pipeline: Pipeline, table: str) -> bool:
    gold = next((one for one in pipeline.gold if table in written_by(one)), None)
    return gold is not None and bool(clustered_by(gold, table))
