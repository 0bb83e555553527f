"""The newest row per key (SCD1): each micro-batch reduced to one row per key, then merged.

When the source deletes or replaces a row, its key falls back to the newest remaining row. The source is read
for that only if the table's current row may be the one removed. Deleted keys are written before the table:
so a micro-batch that the table has is complete, and one that was cut off between the two ends the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from common.declare import ChangeFeed, Upsert
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.delta.match.batch_match import SideStep, StepHistory
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.micro_batch import MicroBatch
from common.errors import ChangeRefusedError
from common.rows import latest_in_spark
from common.rows.expressions import column, is_null
from common.rows.latest_in_driver import NotComparableError
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.streaming.query import Stream
from gold.source.stream import at_version, changes
from gold.table import create
from gold.table.context import Context
from gold.table.row_order import total_order
from gold.upsert import deleted_keys
from gold.upsert.outcome import (
    END,
    FIRST_UNKNOWN,
    IN_DELETED,
    IN_TABLE,
    IS_DELETE,
    IS_REMOVED,
    IS_UNKNOWN_OPERATION,
    MAY_BE_REMOVED,
    ROW,
    decide,
    is_recomputed,
    placed,
    recomputed,
    reduced,
)
from gold.upsert.row_versions import table_columns, versions

_COVERS = "covers"
"""The version of the source whose state a commit has written whole."""

_DELETED_STEP = "deleted"
"""The step of a micro-batch that writes the table of deleted keys."""


def side_steps(gold: Upsert | ChangeFeed, path: Callable[[str], str]) -> tuple[SideStep, ...]:
    """The steps that not every micro-batch of an upserted table has.

    Args:
        gold: The declaration.
        path: Gives the path of a table.
    """
    return tuple(SideStep(_DELETED_STEP, table, path(table)) for table in gold.side_tables)


def build_query(context: Context, gold: Upsert | ChangeFeed) -> Stream:
    """The query of one upserted table; creates its tables where there are none.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: A table exists with other columns.
    """
    path = context.path(gold.table)
    frame = _with_table_columns(context, gold, versions(changes(context, gold), gold), path)
    schema = frame.select(*table_columns(frame)).schema
    create.ensure(context, gold.table, schema, gold.storage)
    order = total_order(gold.sequence_by if isinstance(gold, ChangeFeed) else gold.newest_by)
    deleted_path = None
    if gold.side_tables:
        deleted_path = context.path(gold.deleted)
        deleted_keys.ensure(context, gold, frame.schema, order)
    key = tuple(gold.key)
    steps = StepHistory(path, {} if deleted_path is None else {_DELETED_STEP: deleted_path})
    target = _Target(gold, context.path(gold.reads), path, deleted_path, schema, key, order, steps)
    return context.query(gold, frame, target.write)


def _with_table_columns(
    context: Context, gold: Upsert | ChangeFeed, frame: DataFrame, path: str
) -> DataFrame:
    """The versions without columns that the source got later than the table; a change feed adds them.

    A table that is filled again gets all columns of its source.
    """
    existing = delta_table.columns(context.spark, path)
    if gold.columns is not None or not existing or create.begins_anew(context, gold):
        return frame
    more = [name for name in table_columns(frame) if name not in existing]
    if more and isinstance(gold, ChangeFeed):
        # Existing rows have null in what is new, as the source's have.
        fields = [frame.schema[name] for name in more]
        delta_table.add_columns(context.spark, context.pipeline.name, gold.table, path, fields)
        return frame
    return frame.drop(*more)


@dataclass(frozen=True)
class _Target:
    """An upserted table and the table of its deleted keys.

    Attributes:
        gold: The declaration.
        source: Path of the table that is read.
        path: Path of the table.
        deleted_path: Path of the table of deleted keys, if rows may be deleted.
        schema: The table's columns.
        key: Columns that identify a row.
        order: Columns that order the versions of a row.
        steps: The newest micro-batch that wrote the table of deleted keys.
    """

    gold: Upsert | ChangeFeed
    source: str
    path: str
    deleted_path: str | None
    schema: StructType
    key: tuple[str, ...]
    order: tuple[str, ...]
    steps: StepHistory

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return tuple(self.schema.names)

    @property
    def paths(self) -> Mapping[str, str]:
        """Paths of the table and of its deleted keys."""
        return {IN_TABLE: self.path} | ({} if self.deleted_path is None else {IN_DELETED: self.deleted_path})

    def write(self, rows: SparkRows, batch: MicroBatch) -> None:
        """Write one micro-batch.

        Raises:
            ChangeRefusedError: A change's operation is unknown; nothing is written.
        """
        if delta_table.is_written(self.path, batch, delta_table.MERGE):
            return
        covered = self._covered(batch)
        counts = {} if covered is None else {_COVERS: covered}
        changes: Rows = rows
        if batch.batch_id == 0 and covered is not None:
            # All that the source has, whatever part of it the batch has: a rebuilt table is complete at once.
            state = self.versions_at(rows.session, covered)
            changes = rows.derive(state.withColumn(IS_REMOVED, F.lit(False)))
        elif covered is not None:
            batch = self.with_steps(batch, is_deleted_written=False)
            delta_table.append_nothing(rows, self.path, batch, delta_table.MERGE, {"keys": 0} | counts)
            return
        with ExitStack() as stack:
            _BatchWrite(self, batch, stack, counts).write(changes)

    def with_steps(self, batch: MicroBatch, *, is_deleted_written: bool) -> MicroBatch:
        """The micro-batch, its commits naming the newest micro-batch that wrote deleted keys."""
        if self.deleted_path is None:
            return batch
        return self.steps.with_steps(batch, {_DELETED_STEP: is_deleted_written})

    def versions_at(self, session: SparkSession, version: int | None) -> DataFrame:
        """All versions of rows that the source has at one of its own, with the table's columns."""
        found = versions(at_version(session, self.source, version), self.gold)
        # At an older version the source may lack a column that was added later.
        later = {name: F.lit(None).cast(self.schema[name].dataType) for name in self.columns}
        return found.withColumns({name: each for name, each in later.items() if name not in found.columns})

    def _covered(self, batch: MicroBatch) -> int | None:
        """The version of the source's first state that the first micro-batch writes whole, or has written."""
        version = batch.source_version()
        if self.gold.reading.has_start or version is None or not batch.in_first_state():
            return None
        if batch.batch_id > 0:
            last = last_commit_metadata(self.path, batch.query)
            return version if last is not None and last["counts"].get(_COVERS) == version else None
        return version


@dataclass
class _BatchWrite:
    """One micro-batch on its way into the tables.

    Attributes:
        target: The tables.
        batch: The batch's identity.
        stack: Releases the rows that are persisted on the way.
        counts: For the commits' metadata.
        keys: Rows with all keys of the batch, once they are computed.
    """

    target: _Target
    batch: MicroBatch
    stack: ExitStack
    counts: dict[str, int]
    keys: Rows | None = field(default=None)

    def write(self, changes: Rows) -> None:
        """Compare the changes with the tables, and write what becomes of each key."""
        # The first micro-batch may have all rows of the source.
        is_first = self.batch.batch_id == 0
        compared = self._reduced(changes) if is_first else changes.compute(self._compared, self._reduced)
        outcome = self.stack.enter_context(decide(compared, self.target.columns).kept())
        numbers = {what: outcome.count_by(what) for what in (IN_TABLE, IN_DELETED)}
        table = numbers[IN_TABLE]
        self.counts |= {"keys": outcome.count, "recomputed": self.counts.get("recomputed", 0)}
        self.counts["written"] = table.get(INSERTED, 0) + table.get(UPDATED, 0)
        self.counts["deleted"] = table.get(DELETED, 0)
        deleted = sum(numbers[IN_DELETED].get(action, 0) for action in (INSERTED, UPDATED, DELETED))
        is_deleted_written = self.batch.batch_id == 0 or deleted > 0
        self.batch = self.target.with_steps(self.batch, is_deleted_written=is_deleted_written)
        if self.target.deleted_path is not None:
            self._put(outcome, IN_DELETED, numbers[IN_DELETED], step=_DELETED_STEP)
        self._put(outcome, IN_TABLE, numbers[IN_TABLE], step=delta_table.MERGE)

    def _compared(self, changes: Rows) -> Rows:
        """Changes in the driver, compared with the tables there.

        Raises:
            NotComparableError: A row was removed, or its operation is unknown: Spark looks after them.
        """
        marks = (IS_REMOVED, IS_UNKNOWN_OPERATION, MAY_BE_REMOVED)
        counts = changes.count_where({name: column(name) for name in marks if name in changes.columns})
        if any(counts.values()):
            raise NotComparableError("rows were removed from the source, or have an unknown operation")
        names = deleted_keys.columns(self.target.key, self.target.order)
        return changes.compare(self._before(changes, names), key=self.target.key, order=self.target.order)

    def _reduced(self, changes: Rows) -> Rows:
        """Changes reduced to one row per key by Spark, then compared.

        Raises:
            ChangeRefusedError: A change's operation is unknown.
        """
        one_per_key = reduced(changes.frame, key=self.target.key, order=self.target.order)
        keys = changes.derive(one_per_key).kept(whole=self.batch.batch_id == 0)
        self.keys = self.stack.enter_context(keys)
        self._refuse_unknown_operations(self.keys)
        return self.keys.compute(self._compared, self._compared_by_spark)

    def _compared_by_spark(self, keys: Rows) -> Rows:
        """Reduced rows compared with the tables by Spark; the source is asked for what may be removed."""
        target = self.target
        frames = {
            name: None if rows is None else rows.frame for name, rows in self._before(keys, None).items()
        }
        compared = latest_in_spark.with_orders(
            keys.frame, frames, key=target.key, order=target.order, count=keys.count
        )
        if keys.count_by(MAY_BE_REMOVED).get(True):
            compared = self.stack.enter_context(keys.derive(compared).kept()).frame
            names = (F.col(f"`{name}`") for name in target.key)
            without_row = compared.where(is_recomputed(target.order)).select(*names)
            again = self.stack.enter_context(keys.derive(without_row).kept())
            self.counts["recomputed"] = again.count
            if again.count:
                compared = recomputed(compared, self._newest(again), key=target.key, order=target.order)
        return keys.derive(placed(compared, target.order), keys.count)

    def _before(self, keys: Rows, columns: tuple[str, ...] | None) -> Mapping[str, Rows | None]:
        """The tables' rows of the batch's keys; the first micro-batch replaces all rows that there are."""
        before: dict[str, Rows | None] = {ROW: None, END: None}
        if self.batch.batch_id > 0:
            for name, what in ((ROW, IN_TABLE), (END, IN_DELETED)):
                if (path := self.target.paths.get(what)) is not None:
                    before[name] = delta_merge.rows_with_keys(path, keys, self.target.key, columns)
        return before

    def _newest(self, keys: Rows) -> DataFrame:
        """The newest source row per key, at the version the batch read to."""
        target = self.target
        found = target.versions_at(keys.session, self.batch.source_version())
        found = found.select(*(F.col(f"`{name}`") for name in (*target.columns, IS_DELETE)))
        found = delta_merge.frame_with_keys(found, keys, target.key)
        return latest_in_spark.latest_per_key(found, key=target.key, order=target.order)

    def _refuse_unknown_operations(self, keys: Rows) -> None:
        if FIRST_UNKNOWN not in keys.columns:
            return
        if unknown := keys.count - keys.null_count(FIRST_UNKNOWN):
            first = keys.frame.agg(F.min(FIRST_UNKNOWN)).first()
            raise _refused(self.target.gold, unknown, first[0] if first is not None else Row())

    def _put(self, outcome: Rows, what: str, actions: Mapping[str, int], *, step: str) -> None:
        """Write one of the two tables; the one of deleted keys only where it changes."""
        target, path = self.target, self.target.paths[what]
        names = target.columns if what == IN_TABLE else deleted_keys.columns(target.key, target.order)
        numbers = {each: actions.get(each, 0) for each in (INSERTED, UPDATED, DELETED)}
        rows = outcome.where(~is_null(column(what)), sum(numbers.values()))
        changes = rows.select({name: column(name) for name in names} | {ACTION: column(what)})
        if self.batch.batch_id == 0:
            # Replaces what a lost checkpoint has left behind.
            by = target.gold.storage.cluster_by or target.key
            delta_table.append(
                changes.drop(ACTION), path, self.batch, step, self.counts, mode="overwrite", by=by
            )
        elif changes.count or step == delta_table.MERGE:
            metadata = self.batch.metadata(step, self.counts)
            delta_merge.write_changes(
                changes, path, metadata, key=target.key, numbers=numbers, keys=self.keys
            )


def _refused(gold: Upsert | ChangeFeed, number: int, first: Row) -> ChangeRefusedError:
    return ChangeRefusedError(
        gold.table,
        f"{number} keys have a change whose operation is in none of upserts, deletes and ignores; the first "
        f"at topic/partition/offset {'/'.join(map(str, first))}. Nothing of the micro-batch was written. If "
        "it changes a row, name the operation in upserts or deletes. If it empties the table, as truncation "
        f"does: take the changes before it out of {gold.reads}, which takes them out of this table too, and "
        "name the operation in ignores.",
    )
