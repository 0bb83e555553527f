"""``medallion restate silver.x``: judges a range of records again and puts their rows in place of the former.

1. The records are read from bronze and judged by today's declaration; what differs from the tables is staged
   in a folder beside the checkpoint. Nothing else is written so far.
2. The record of the restatement is written. From here on a start of the query is refused until the end.
3. Quarantine and late table get what differs, each by one commit; then silver by one MERGE by Kafka's
   coordinates. A table that has the commit of this restatement already is left as it is.

Rows in quarantine are judged again by ``orchestration.records.quarantine.replay``.

The checkpoint of the query stays: it has read these records, and its state goes on. The caller holds the
leases of ``followers.written_tables``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.config.paths import Layout, is_local
from common.config.settings import Settings
from common.declare import Gold, Pipeline, Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint, DeltaPosition
from common.delta.commit import DataFile
from common.delta.delta_rs import ACTION, DELETED, UPDATED
from common.delta.log import LogReader
from common.errors import CheckpointMismatchError, UsageError
from common.machine.terminal import count_of
from common.rows.spark_rows import SparkRows
from orchestration.access.declaration.lineage import readers_of
from orchestration.access.progress.record_range import BRONZE, RecordRange
from orchestration.records.audit.offset_places import read_files
from orchestration.records.rejudge.apply import ReplacedTable, has_run
from orchestration.records.rejudge.followers import (
    can_be_filled_again,
    cannot_follow,
    fill_again,
    filled_again,
)
from orchestration.records.rejudge.judge_again import RestatedRows
from orchestration.records.rejudge.select import (
    ReadUntil,
    Say,
    coordinates_of,
    read_until,
    refuse_elements,
)
from orchestration.records.rejudge.stage import (
    Restatement,
    StagedRows,
    Switch,
    keep_record,
    refuse_unfinished,
    unfinished,
)
from silver.query import builder_of
from silver.read.column_names import PLACE
from silver.write import past_conditions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Restated:
    """What a restatement has done."""

    # Records of bronze that were judged again; those outside the range are among them that were duplicates of
    # a row that has left silver.
    records: int = 0
    # Per table, how many rows were ``inserted``, ``updated`` and ``deleted``; empty: none.
    changes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Gold tables that the next start of the gold job fills again, because they cannot follow.
    again: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()  # gold tables that keep what they have made of the former rows

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
        pipeline: The pipeline with the declaration of today.

    Raises:
        CheckpointMismatchError: A rebuild of the table was cut off.
        RuleFailedError: A record breaks a rule that is declared to stop the query.
        TableShapeError: The declaration removes a column, or gives it another type.
        UsageError: The query has yet to read records of the range; or whether a record is a duplicate
            cannot be known any more.
    """
    _refuse_elements(silver)
    refuse_unfinished(layout, silver.table, Switch)
    work = _Restatement(spark, pipeline, settings, layout, silver, say)
    if (begun := unfinished(layout, silver.table, Restatement)) is not None:
        say(f"{silver.table}: a restatement that was cut off is finished ({begun.options})")
        work.apply(begun)
    judged = work.stage(records)
    if judged is None:
        return Restated()
    count, run_id = judged
    record = Restatement(run_id, records.options, work.versions())
    keep_record(layout, silver.table, record)
    return replace(work.apply(record), records=count)


def require_restatable(layout: Layout, silver: Silver) -> None:
    """Refuse what cannot be restated now. Call it before Spark's start, to refuse early.

    Raises:
        CheckpointMismatchError: A rebuild of the table was cut off.
        UsageError: The query has work to finish, or has not begun; or a record has several rows.
    """
    _refuse_elements(silver)
    refuse_unfinished(layout, silver.table, Switch)
    if unfinished(layout, silver.table, Restatement) is None:
        _refuse_unread(silver, read_until(layout, silver))


def _refuse_elements(silver: Silver) -> None:
    instead = f"To judge all records again: medallion rebuild {silver.table}"
    refuse_elements(silver, "a restatement", instead)


def _refuse_unread(silver: Silver, now: ReadUntil) -> Sequence[DeltaPosition]:
    if now.unfinished:
        raise UsageError(
            f"{silver.table}: its {now.unfinished} was cut off. Finish it first: "
            "medallion run silver --available-now"
        )
    if not now.positions:
        raise UsageError(
            f"{silver.table} has read nothing yet: the next start of the silver job fills it by the "
            "declaration of today"
        )
    return now.positions


@dataclass(frozen=True, slots=True)
class _Restatement(ReplacedTable):
    def staged(self, table: str) -> StagedRows:
        """A table's staged changes."""
        own = self.layout.checkpoint_path(self.silver.table)
        return StagedRows(f"{own}.restate/{table.rpartition('.')[2]}")

    def stage(self, records: RecordRange) -> tuple[int, str] | None:
        """Stage what differs: the number of judged records, and the id of the run; None without a record."""
        silver = self.silver
        files = self.unread_files()
        of_each = {path: delta_table.newest(self.spark, path) for path in files}
        bronze = reduce(DataFrame.unionByName, of_each.values())
        unread = self.unread(files, of_each, records)
        if bronze.where(records.holds(BRONZE)).isEmpty():
            self.say(f"{silver.read_text} has no record {records}")
            return None
        readers = readers_of(self.pipeline, silver)
        builder = builder_of(
            self.spark,
            self.pipeline.name,
            silver,
            settings=self.settings,
            layout=self.layout,
            readers=readers,
        )
        builder.ensure_tables(builder.judged(bronze.limit(0)))
        past_conditions.remember(self.spark, self.pipeline.name, silver, self.path)
        checkpoint = Checkpoint(self.layout.checkpoint_path(silver.table))
        entry = checkpoint.planned_batch(checkpoint.last_committed())
        self.say(f"{silver.table}: judging the records of {silver.read_text} {records}")
        with ExitStack() as stack:
            rows = RestatedRows(
                builder=builder,
                records=records,
                bronze=bronze,
                tables={name: delta_table.newest(self.spark, path) for name, path in self.tables.items()},
                unread=unread,
                watermark_ms=None if entry is None else entry.watermark_ms,
                stack=stack,
                say=self.say,
            )
            run_id = uuid.uuid4().hex
            for table, frame in rows.changes().items():
                self.staged(table).write(frame, self.metadata(table, run_id))
            return rows.tally.rows, run_id

    def unread_files(self) -> dict[str, tuple[DataFile, ...]]:
        """By the path of a bronze table, the files that the query has yet to read.

        Raises:
            UsageError: The query has work to finish, or has not begun.
        """
        positions = _refuse_unread(self.silver, read_until(self.layout, self.silver))
        paths = map(self.layout.table_path, self.silver.sources)
        return {
            path: LogReader(path).files_between(position, None)
            for path, position in zip(paths, positions, strict=True)
        }

    def unread(
        self,
        files: Mapping[str, Sequence[DataFile]],
        bronze: Mapping[str, DataFrame],
        records: RecordRange,
    ) -> DataFrame | None:
        """The coordinates of the records in these files; none of them may be in the range."""
        found = [read_files(self.spark, path, some, bronze[path]) for path, some in files.items() if some]
        if not found:
            return None
        rows = reduce(DataFrame.unionByName, found)
        count = rows.where(records.holds(BRONZE)).count()
        if count:
            raise UsageError(
                f"{self.silver.table} has yet to read {count:,} records of the range, and would write their "
                "rows a second time. Have it read them first: medallion run silver --available-now; or take "
                "an earlier --to"
            )
        return rows.select(*PLACE)

    def apply(self, record: Restatement) -> Restated:
        """Write the staged changes that the tables lack.

        Raises:
            CheckpointMismatchError: They are gone.
        """
        changes: dict[str, Mapping[str, int]] = {}
        stay: tuple[Gold, ...] = ()
        for table in self.tables:
            staged = self.staged(table)
            if (staged.facts() or {}).get("run_id") != record.run_id:
                raise CheckpointMismatchError(
                    f"{self.silver.table}: a restatement was cut off, and the rows that it has yet to write "
                    f"are gone from {staged.path}. Restore that folder, or fill the table again under a new "
                    "name."
                )
            rows = staged.rows(self.spark)
            numbers = {row[0]: int(row[1]) for row in rows.groupBy(ACTION).count().collect()}
            changes[table] = numbers
            has_gone = bool(numbers.get(UPDATED) or numbers.get(DELETED))
            if table == self.silver.table and has_gone:
                stay = cannot_follow(self.pipeline, self.layout, self.silver)
            if numbers and not has_run(self.tables[table], record.versions[table], record.run_id):
                self.write(table, rows, numbers, record, stay)
        keep_record(self.layout, self.silver.table, replace(record, is_done=True))
        for table in self.tables:
            self.staged(table).discard(self.spark)
        return Restated(0, changes, *filled_again(stay))

    def write(
        self,
        table: str,
        staged: DataFrame,
        numbers: Mapping[str, int],
        record: Restatement,
        stay: tuple[Gold, ...],
    ) -> None:
        """Write the changes of one table by one commit."""
        if table == self.silver.table:
            if any(can_be_filled_again(one) for one in stay) and not all(
                map(is_local, self.layout.checkpoint_roots)
            ):
                names = ", ".join(filled_again(stay)[0])
                raise UsageError(
                    f"{names} cannot follow rows that are replaced, and an object store cannot rename their "
                    "checkpoints. Move each checkpoint elsewhere, and repeat the command."
                )
            fill_again(self.layout, stay)
            if self.silver.dedupe != "exact":
                at = F.ceil(F.unix_micros(self.silver.event_time) / 1000)
                self.remember_keys(staged.where(F.col(ACTION) != DELETED).agg(F.max(at)).collect()[0][0])
        self.say(f"{table}: writing what differs, {count_of(sum(numbers.values()), 'rows')}")
        metadata = self.metadata(table, record.run_id, counts=dict(numbers), records=record.options)
        rows, key = SparkRows(staged, sum(numbers.values())), coordinates_of(table)
        delta_merge.write_changes(rows, self.tables[table], metadata, key=key, numbers=numbers)

    def metadata(self, table: str, run_id: str, **facts: Any) -> str:
        """The metadata of the restatement's commit in a table."""
        return delta_table.maintenance_metadata(
            self.pipeline.name, table, "restatement", run_id=run_id, **facts
        )
