"""``medallion restate silver.x``: judges a range of records again and puts their rows in place of the former.

1. The records are read from bronze and judged by today's declaration; what differs from the tables is staged
   in a folder beside the checkpoint. Nothing else is written so far.
2. The record of the restatement is written. From here on a start of the query is refused until the end.
3. Quarantine and late table get what differs, each by one commit; then silver by one MERGE by Kafka's
   coordinates. A table that has the commit of this restatement already is left as it is.

The checkpoint of the query stays: it has read these records, and its state goes on. The caller holds the
leases of ``followers.written_tables``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from common.config.paths import Layout, is_local
from common.config.settings import Settings
from common.declare import Gold, Pipeline, Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position
from common.delta.commit import DataFile
from common.delta.delta_rs import ACTION, DELETED, UPDATED
from common.delta.log import LogReader
from common.errors import CheckpointMismatchError, UsageError
from common.rows.spark_rows import SparkRows
from orchestration.access.progress.record_range import BRONZE, RecordRange
from orchestration.access.progress.switch_record import (
    Restatement,
    read_restatement,
    refuse_unfinished_switch,
    write_restatement,
)
from orchestration.records.audit.offset_places import read_files
from orchestration.records.rejudge.decide import RestatedRows, Say
from orchestration.records.rejudge.followers import (
    can_be_filled_again,
    cannot_follow,
    fill_again,
    filled_again,
)
from silver.query import Builder, builder_of
from silver.read.column_names import COORDINATES, PLACE
from silver.write import first_load, past_conditions
from silver.write.known_keys import REPLAYED, replayed_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Restated:
    """What a restatement has done.

    Attributes:
        records: Records of bronze that were judged again; those outside the range are among them that were
            duplicates of a row that has left silver.
        changes: Per table, how many rows were ``inserted``, ``updated`` and ``deleted``; empty: none.
        again: Gold tables that the next start of the gold job fills again, because they cannot follow.
        by_hand: Gold tables that keep what they have made of the former rows.
    """

    records: int = 0
    changes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()

    @property
    def has_changed(self) -> bool:
        """Whether a row of any table has changed."""
        return any(self.changes.values())


def restate(  # noqa: PLR0913, PLR0917  # the options of the command
    spark: SparkSession,
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    silver: Silver,
    records: RecordRange,
    say: Say,
) -> Restated:
    """Judge a range of records again, and put their rows in the place of the former ones.

    Args:
        spark: The session.
        pipeline: The pipeline with the declaration of today.
        settings: Its settings.
        layout: Where its tables are.
        silver: The table.
        records: The range.
        say: Called with what is done, as sentences.

    Raises:
        CheckpointMismatchError: A rebuild of the table was cut off.
        RuleFailedError: A record breaks a rule that is declared to stop the query.
        TableShapeError: The declaration removes a column, or gives it another type.
        UsageError: The query has yet to read records of the range; or whether a record is a duplicate
            cannot be known any more.
    """
    refuse_unfinished_switch(layout, silver.table)
    work = _Restatement(spark, pipeline, settings, layout, silver, say)
    unfinished = read_restatement(layout, silver.table)
    if unfinished is not None and not unfinished.is_done:
        say(f"{silver.table}: a restatement that was cut off is finished ({unfinished.options})")
        work.apply(unfinished)
    judged = work.stage(records)
    if judged is None:
        return Restated()
    count, run_id = judged
    return replace(work.apply(work.record(records, run_id)), records=count)


def unread_files(layout: Layout, silver: Silver) -> tuple[DataFile, ...]:
    """The files of bronze that the query of a silver table has yet to read.

    Raises:
        UsageError: The query has a micro-batch or a first load to finish, or has not begun.
    """
    checkpoint = Checkpoint(layout.checkpoint_path(silver.table))
    committed = checkpoint.last_committed()
    loaded = first_load.mark(layout.table_path(silver.table))
    is_loading = loaded is not None and not loaded.is_done
    if is_loading or checkpoint.last_planned() != committed:
        what = "first load" if is_loading else "newest micro-batch"
        raise UsageError(
            f"{silver.table}: its {what} was cut off. Finish it first: medallion run silver --available-now"
        )
    entry = checkpoint.planned_batch(committed)
    position = None if entry is None else delta_position(entry)
    if position is None and loaded is not None:
        position = DeltaPosition(loaded.begins, -1, "", in_snapshot=False)
    if position is None:
        raise UsageError(
            f"{silver.table} has read nothing yet: the next start of the silver job fills it by the "
            "declaration of today"
        )
    return LogReader(layout.table_path(silver.reads)).files_between(position, None)


@dataclass(frozen=True, slots=True)
class _Restatement:
    spark: SparkSession
    pipeline: Pipeline
    settings: Settings
    layout: Layout
    silver: Silver
    say: Say

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables in the order of writing."""
        return (*self.silver.side_tables, self.silver.table)

    def staging(self, table: str) -> str:
        """The folder of a table's staged changes."""
        own = self.layout.checkpoint_path(self.silver.table)
        return f"{own}.restate/{table.rpartition('.')[2]}"

    def key(self, table: str) -> tuple[str, ...]:
        """The columns of a table with the coordinates of its records."""
        return PLACE if table == self.silver.quarantine else COORDINATES

    def stage(self, records: RecordRange) -> tuple[int, str] | None:
        """Stage what differs: the number of judged records, and the id of the run; None without a record."""
        silver, path = self.silver, self.layout.table_path
        bronze = self.pinned(silver.reads)
        unread = self.unread(bronze, records)
        in_range = bronze.where(records.holds(BRONZE))
        if in_range.isEmpty():
            self.say(f"{silver.reads} has no record {records}")
            return None
        builder = self.builder()
        builder.ensure_tables(builder.judged(bronze.limit(0)))
        past_conditions.remember(self.spark, self.pipeline.name, silver, path(silver.table))
        checkpoint = Checkpoint(self.layout.checkpoint_path(silver.table))
        entry = checkpoint.planned_batch(checkpoint.last_committed())
        self.say(f"{silver.table}: judging the records of {silver.reads} {records}")
        with ExitStack() as stack:
            rows = RestatedRows(
                builder=builder,
                records=records,
                bronze=bronze,
                tables={name: self.pinned(name) for name in self.tables},
                unread=unread,
                watermark_ms=None if entry is None else entry.watermark_ms,
                stack=stack,
                say=self.say,
            )
            run_id = uuid.uuid4().hex
            for table, frame in rows.changes().items():
                writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
                writer.option("userMetadata", self.metadata(table, run_id)).save(self.staging(table))
            return rows.tally.rows, run_id

    def builder(self) -> Builder:
        """The builder of the query, which judges records as the query does."""
        readers = [one for one in self.pipeline.silver if one.reads == self.silver.reads]
        return builder_of(
            self.spark,
            self.pipeline.name,
            self.silver,
            settings=self.settings,
            layout=self.layout,
            readers=readers,
        )

    def pinned(self, table: str) -> DataFrame:
        """A table, pinned to its newest version."""
        path = self.layout.table_path(table)
        reader = self.spark.read.format("delta").option("versionAsOf", LogReader(path).latest_version())
        return reader.load(path)

    def unread(self, bronze: DataFrame, records: RecordRange) -> DataFrame | None:
        """The coordinates of the records that the query has yet to read; none of them is in the range."""
        files = unread_files(self.layout, self.silver)
        if not files:
            return None
        rows = read_files(self.spark, self.layout.table_path(self.silver.reads), files, bronze)
        count = rows.where(records.holds(BRONZE)).count()
        if count:
            raise UsageError(
                f"{self.silver.table} has yet to read {count:,} records of the range, and would write their "
                "rows a second time. Have it read them first: medallion run silver --available-now; or take "
                "an earlier --to"
            )
        return rows.select(*PLACE)

    def record(self, records: RecordRange, run_id: str) -> Restatement:
        """The record of a restatement whose changes are staged, written before its first write."""
        versions = {
            name: LogReader(self.layout.table_path(name)).latest_version() or 0 for name in self.tables
        }
        found = Restatement(run_id, records.options, versions)
        write_restatement(self.layout, self.silver.table, found)
        return found

    def apply(self, restatement: Restatement) -> Restated:
        """Write the staged changes that the tables lack."""
        changes: dict[str, Mapping[str, int]] = {}
        stay: tuple[Gold, ...] = ()
        for table in self.tables:
            staged = self.staged(table, restatement)
            numbers = {row[0]: int(row[1]) for row in staged.groupBy(ACTION).count().collect()}
            changes[table] = numbers
            has_gone = bool(numbers.get(UPDATED) or numbers.get(DELETED))
            if table == self.silver.table and has_gone:
                stay = cannot_follow(self.pipeline, self.layout, self.silver)
            if numbers and not self.is_written(table, restatement):
                self.write(table, staged, numbers, restatement, stay)
        write_restatement(self.layout, self.silver.table, replace(restatement, is_done=True))
        for table in self.tables:
            first_load.discard(self.spark, self.staging(table))
        return Restated(0, changes, *filled_again(stay))

    def staged(self, table: str, restatement: Restatement) -> DataFrame:
        """The staged changes of a table.

        Raises:
            CheckpointMismatchError: They are gone.
        """
        path = self.staging(table)
        log = LogReader(path)
        commit = log.commit(log.latest_version() or 0)
        if commit is None or commit.metadata.get("run_id") != restatement.run_id:
            raise CheckpointMismatchError(
                f"{self.silver.table}: a restatement was cut off, and the rows that it has yet to write are "
                f"gone from {path}. Restore that folder, or fill the table again under a new name."
            )
        return self.spark.read.format("delta").load(path)

    def write(
        self,
        table: str,
        staged: DataFrame,
        numbers: Mapping[str, int],
        restatement: Restatement,
        stay: tuple[Gold, ...],
    ) -> None:
        """Write the changes of one table by one commit."""
        path = self.layout.table_path(table)
        if table == self.silver.table:
            if any(can_be_filled_again(one) for one in stay) and not is_local(self.layout.checkpoints):
                names = ", ".join(filled_again(stay)[0])
                raise UsageError(
                    f"{names} cannot follow rows that are replaced, and an object store cannot rename their "
                    "checkpoints. Move each checkpoint elsewhere, and repeat the command."
                )
            fill_again(self.layout, stay)
            self.remember_keys(staged)
        self.say(f"{table}: writing {sum(numbers.values()):,} rows that differ")
        metadata = self.metadata(table, restatement.run_id, counts=dict(numbers), records=restatement.options)
        rows = SparkRows(staged, sum(numbers.values()))
        delta_merge.write_changes(rows, path, metadata, key=self.key(table), numbers=numbers)

    def remember_keys(self, staged: DataFrame) -> None:
        """Have the live query look up the keys that its state does not know: those of rows that come now."""
        if self.silver.dedupe == "exact":
            return
        path = self.layout.table_path(self.silver.table)
        at = F.ceil(F.unix_micros(self.silver.event_time) / 1000)
        newest = staged.where(F.col(ACTION) != DELETED).agg(F.max(at)).collect()[0][0]
        if newest is not None and newest > (replayed_ms(path) or 0):
            metadata = delta_table.maintenance_metadata(self.pipeline.name, self.silver.table, "evolution")
            delta_table.set_property(self.spark, path, metadata, REPLAYED, str(int(newest)))

    def is_written(self, table: str, restatement: Restatement) -> bool:
        """Whether a table has the commit of a restatement."""
        since = restatement.versions[table] + 1
        commits = LogReader(self.layout.table_path(table)).commits(since)
        return any(one.metadata.get("run_id") == restatement.run_id for one in commits)

    def metadata(self, table: str, run_id: str, **facts: Any) -> str:
        """The metadata of the restatement's commit in a table."""
        return delta_table.maintenance_metadata(
            self.pipeline.name, table, "restatement", run_id=run_id, **facts
        )
