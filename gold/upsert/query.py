"""The newest row per key (SCD1): each micro-batch reduced to one row per key, then merged.

When the source deletes or replaces a row, its key falls back to the newest remaining row. The source is read
for that only if the table's current row may be the one removed. Deleted keys are written before the table:
so a micro-batch that the table has is complete, and one that was cut off between the two ends the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from common.declare import ChangeFeed, Storage, Upsert
from common.declare.row_order import total_order
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.delta.match.batch_match import StepHistory
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.micro_batch import MicroBatch
from common.errors import ChangeRefusedError
from common.rows import latest_in_spark
from common.rows.expressions import column, greater, greatest, is_null
from common.rows.latest_in_driver import NotComparableError
from common.rows.rows import ORDER, Rows
from common.streaming.query import Stream
from gold.source.stream import at_version, changes
from gold.table import create
from gold.table.context import Context
from gold.table.defined import Defined, computed_columns, inexact_columns
from gold.table.maintained import Maintained, Work
from gold.table.unchanged import Unchanged
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
    may_lack_values,
    placed,
    recomputed,
    reduced,
    with_values_before,
)
from gold.upsert.row_versions import since_truncation, table_columns, unchanged_of, versions
from gold.upsert.sent_values import IS_PARTIAL, newest_whole

_COVERS = "covers"
"""The version of the source whose state a commit has written whole."""

_ACTIONS = (INSERTED, UPDATED, DELETED)

DELETED_STEP = "deleted"
"""The step of a micro-batch that writes the table of deleted keys."""


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
    order = total_order(gold.newest_by)
    deleted_path = None
    if gold.side_tables:
        deleted_path = context.path(gold.deleted)
        kept = [StructField(name, frame.schema[name].dataType) for name in _deleted_columns(gold.key, order)]
        # A stream of the table may follow deletions by the same feed.
        given = gold.storage
        storage = Storage(change_feed=given.change_feed, newer_types=given.newer_types)
        create.ensure(context, gold.deleted, StructType(kept), storage)
    key = tuple(gold.key)
    steps = StepHistory(path, {} if deleted_path is None else {DELETED_STEP: deleted_path})
    by, source = gold.storage.cluster_by or key, context.path(gold.reads)
    target = _Upserted(path, by, gold, source, deleted_path, schema, key, order, steps)
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


def defined(context: Context, gold: Upsert | ChangeFeed, version: int | None) -> Iterator[Defined]:
    """The rows that the tables of a query must have at a version of its source."""
    schema = context.spark.read.format("delta").load(context.path(gold.table)).schema
    order = total_order(gold.newest_by)
    found = _versions_at(at_version(context.spark, context.path(gold.reads), version), gold, schema)
    found = found.select(*(F.col(f"`{name}`") for name in (*schema.names, IS_DELETE)))
    key = tuple(gold.key)
    newest = _newest_of(found, unchanged_of(gold, schema), key, order)
    alive = newest.where(~F.col(IS_DELETE)).drop(IS_DELETE)
    rounded = computed_columns(gold)
    yield Defined(gold.table, alive, key, inexact_columns(gold), rounded=rounded)
    for table in gold.side_tables:
        names = _deleted_columns(key, order)
        deleted = newest.where(IS_DELETE).select(*(F.col(f"`{name}`") for name in names))
        yield Defined(table, deleted, key, rounded=rounded)


@dataclass(frozen=True)
class _Upserted(Maintained):
    """An upserted table and the table of its deleted keys, ``gold.<name>__deleted``.

    Grain of the latter: one row per key whose newest version is a delete; key and order columns. By its order
    an older version that comes late is recognised as older, and does not bring the row back.
    """

    gold: Upsert | ChangeFeed
    source: str  # path of the table that is read
    deleted_path: str | None  # path of the table of deleted keys, if rows may be deleted
    schema: StructType  # the table's columns
    key: tuple[str, ...]  # columns that identify a row
    order: tuple[str, ...]  # columns that order the versions of a row
    steps: StepHistory  # the newest micro-batch that wrote the table of deleted keys

    @cached_property
    def unchanged(self) -> Unchanged | None:
        """The columns whose value a change may leave as it was."""
        return unchanged_of(self.gold, self.schema)

    def whole(self, work: Work) -> Rows | None:
        """What becomes of each key of the source's first state, whatever part of it the batch has.

        Also of its state now, where the batch has a truncation, or takes one back.

        Raises:
            ChangeRefusedError: A change's operation is unknown; nothing is written.
        """
        state, changes = self._covered(work), work.rows
        if work.batch.batch_id > 0:
            work.found = came = work.rows if state is not None else self._remaining(work)
            if state is not None or not self._truncates(came):
                return None
            work.found, state = None, work.batch.source_version()
        if state is not None:
            found = self._versions_at(work.rows.session, state).withColumn(IS_REMOVED, F.lit(False))
            changes = work.rows.derive(found)
        elif self.gold.truncates is not None:
            changes = work.rows.derive(
                since_truncation(work.rows.frame, work.rows.frame, self.key, self.order)
            )
        outcome, numbers = self._outcome(self._reduced(changes, work), work)
        if self.deleted_path is not None:
            deleted = self._changes(outcome, IN_DELETED, numbers[IN_DELETED]).drop(ACTION)
            step, counts = DELETED_STEP, work.counts
            delta_table.append(
                deleted, self.deleted_path, work.batch, step, counts, mode="overwrite", by=self.key
            )
        return self._changes(outcome, IN_TABLE, numbers[IN_TABLE]).drop(ACTION)

    def touched(self, work: Work) -> Rows | None:
        if self._covered(work) is None:
            return work.found  # type: ignore[no-any-return]  # out of ``whole``
        work.counts["keys"] = 0
        work.batch = self._with_steps(work.batch, is_deleted_written=False)
        return None

    def recompute(self, touched: Rows, work: Work) -> None:
        """Compare the changes with the tables, and write what becomes of each key.

        Raises:
            ChangeRefusedError: A change's operation is unknown; nothing is written.
        """
        compared = touched.compute(
            lambda rows: self._compared(rows, work), lambda rows: self._reduced(rows, work)
        )
        outcome, numbers = self._outcome(compared, work)
        if self.deleted_path is not None and any(numbers[IN_DELETED].values()):
            self._merge(outcome, IN_DELETED, numbers[IN_DELETED], work)
        self._merge(outcome, IN_TABLE, numbers[IN_TABLE], work)

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The columns of the table, and of its deleted keys."""
        return {IN_TABLE: self.schema.names, IN_DELETED: _deleted_columns(self.key, self.order)}

    def _remaining(self, work: Work) -> Rows:
        """The micro-batch's changes that are not before the newest truncation: a deleted key of nulls."""
        if self.gold.truncates is None or self.deleted_path is None:
            return work.rows
        known = delta_table.newest(work.rows.session, self.deleted_path)
        return work.keep(work.rows.derive(since_truncation(work.rows.frame, known, self.key, self.order)))

    def _truncates(self, came: Rows) -> bool:
        if self.gold.truncates is None:
            return False
        lacks_key = reduce(and_, (is_null(column(name)) for name in self.key))
        return came.count_where({IS_DELETE: lacks_key})[IS_DELETE] > 0

    def _covered(self, work: Work) -> int | None:
        """The version of the source's first state that the first micro-batch writes whole, or has written."""
        batch = work.batch
        version = batch.source_version()
        if self.gold.reading.has_start or version is None or not batch.in_first_state():
            return None
        if batch.batch_id > 0:
            last = last_commit_metadata(self.path, batch.query)
            if last is None or last["counts"].get(_COVERS) != version:
                return None
        work.counts[_COVERS] = version
        return version

    def _versions_at(self, session: SparkSession, version: int | None) -> DataFrame:
        """All versions of rows that the source has at one of its own, with the table's columns."""
        return _versions_at(at_version(session, self.source, version), self.gold, self.schema)

    def _compared(self, changes: Rows, work: Work) -> Rows:
        """Changes in the driver, compared with the tables there."""
        marks = (IS_REMOVED, IS_UNKNOWN_OPERATION, MAY_BE_REMOVED, IS_PARTIAL)
        counts = changes.count_where({name: column(name) for name in marks if name in changes.columns})
        if any(counts.values()):
            raise NotComparableError("rows were removed from the source, or need more than themselves")
        before = self._before(changes, work, self.columns[IN_DELETED])
        compared = changes.compare(before, key=self.key, order=self.order)
        if self.unchanged is not None:
            known = greatest(column(ROW), column(END))
            is_late = ~(is_null(known) | greater(column(ORDER), known))
            if compared.count_where({ROW: is_late})[ROW]:
                raise NotComparableError("a late row may have a value that newer ones left unchanged")
        return compared

    def _reduced(self, changes: Rows, work: Work) -> Rows:
        """Changes reduced to one row per key by Spark, then compared."""
        one_per_key = reduced(changes.frame, key=self.key, order=self.order, unchanged=self.unchanged)
        work.keys = keys = work.keep(changes.derive(one_per_key), whole=work.found is None)
        self._refuse_unknown_operations(keys)
        # What had to be reduced by Spark may be few rows all the same.
        return keys.compute(
            lambda rows: self._compared(rows, work), lambda rows: self._compared_by_spark(rows, work)
        )

    def _compared_by_spark(self, keys: Rows, work: Work) -> Rows:
        """Reduced rows compared with the tables by Spark; the source is asked for what may be removed."""
        before = self._before(keys, work)
        frames = {name: None if rows is None else rows.frame for name, rows in before.items()}
        compared = latest_in_spark.with_orders(
            keys.frame, frames, key=self.key, order=self.order, count=keys.count
        )
        compared = self._recomputed(compared, keys, work)
        if self.unchanged is not None:
            compared = with_values_before(
                compared, frames[ROW], self.unchanged, key=self.key, order=self.order
            )
        return keys.derive(placed(compared, self.order), keys.count)

    def _recomputed(self, compared: DataFrame, keys: Rows, work: Work) -> DataFrame:
        """The compared rows, with the source's newest row of those keys that only the source can tell."""
        is_again, begins_later = is_recomputed(self.order), self.gold.reading.has_start
        may_lack = self.unchanged is not None and (work.found is not None or begins_later)
        if may_lack:
            is_again |= may_lack_values(self.order, begins_later=begins_later)
        if not may_lack and not keys.count_by(MAY_BE_REMOVED).get(True):
            return compared
        compared = work.keep(keys.derive(compared)).frame
        names = (F.col(f"`{name}`") for name in self.key)
        again = work.keep(keys.derive(compared.where(is_again).select(*names)))
        work.counts["recomputed"] = again.count
        if not again.count:
            return compared
        newest = self._newest(again, work.batch.source_version())
        return recomputed(compared, newest, key=self.key, is_again=is_again)

    def _before(
        self, keys: Rows, work: Work, columns: Sequence[str] | None = None
    ) -> Mapping[str, Rows | None]:
        """The tables' rows of the batch's keys; a micro-batch that writes the whole table needs none."""
        before: dict[str, Rows | None] = {ROW: None, END: None}
        for name, path in ((ROW, self.path), (END, self.deleted_path)):
            if work.found is not None and path is not None:
                before[name] = delta_merge.rows_with_keys(path, keys, self.key, columns)
        return before

    def _newest(self, keys: Rows, version: int | None) -> DataFrame:
        """The newest source row per key, at the version the batch read to."""
        found = self._versions_at(keys.session, version)
        found = found.select(*(F.col(f"`{name}`") for name in (*self.schema.names, IS_DELETE)))
        found = delta_merge.frame_with_keys(found, keys, self.key)
        return _newest_of(found, self.unchanged, self.key, self.order)

    def _refuse_unknown_operations(self, keys: Rows) -> None:
        if FIRST_UNKNOWN not in keys.columns:
            return
        if unknown := keys.count - keys.null_count(FIRST_UNKNOWN):
            first = keys.frame.agg(F.min(FIRST_UNKNOWN)).first()
            raise _refused(self.gold, unknown, first[0] if first is not None else Row())

    def _outcome(self, compared: Rows, work: Work) -> tuple[Rows, Mapping[str, Mapping[str, int]]]:
        """What becomes of each key, and how many rows of each table are inserted, updated and deleted."""
        outcome = work.keep(decide(compared, self.schema.names))
        found = {what: outcome.count_by(what) for what in (IN_TABLE, IN_DELETED)}
        numbers = {what: {each: found[what].get(each, 0) for each in _ACTIONS} for what in found}
        table = numbers[IN_TABLE]
        work.counts |= {"keys": outcome.count, "recomputed": work.counts.get("recomputed", 0)}
        work.counts |= {"written": table[INSERTED] + table[UPDATED], "deleted": table[DELETED]}
        writes_deleted = work.found is None or any(numbers[IN_DELETED].values())
        work.batch = self._with_steps(work.batch, is_deleted_written=writes_deleted)
        return outcome, numbers

    def _with_steps(self, batch: MicroBatch, *, is_deleted_written: bool) -> MicroBatch:
        """The micro-batch, its commits naming the newest micro-batch that wrote deleted keys."""
        if self.deleted_path is None:
            return batch
        return self.steps.with_steps(batch, {DELETED_STEP: is_deleted_written})

    def _changes(self, outcome: Rows, what: str, numbers: Mapping[str, int]) -> Rows:
        """The rows of one of the two tables that change, with the ``ACTION`` of each."""
        rows = outcome.where(~is_null(column(what)), sum(numbers.values()))
        return rows.select({name: column(name) for name in self.columns[what]} | {ACTION: column(what)})

    def _merge(self, outcome: Rows, what: str, numbers: Mapping[str, int], work: Work) -> None:
        """Change the table, or that of its deleted keys."""
        path, step = self.path, delta_table.MERGE
        if what == IN_DELETED and self.deleted_path is not None:
            path, step = self.deleted_path, DELETED_STEP
        changes, metadata = self._changes(outcome, what, numbers), work.batch.metadata(step, work.counts)
        delta_merge.write_changes(changes, path, metadata, key=self.key, numbers=numbers, keys=work.keys)


def _versions_at(source: DataFrame, gold: Upsert | ChangeFeed, schema: StructType) -> DataFrame:
    """All versions of rows that a source has, with the table's columns."""
    found = versions(source, gold)
    if isinstance(gold, ChangeFeed) and gold.truncates is not None:
        found = since_truncation(found, found, gold.key, total_order(gold.sequence_by))
    # At an older version the source may lack a column that was added later.
    later = {field.name: F.lit(None).cast(field.dataType) for field in schema}
    return found.withColumns({name: each for name, each in later.items() if name not in found.columns})


def _newest_of(
    found: DataFrame, unchanged: Unchanged | None, key: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """The newest version of each key among all that there are, with ``IS_DELETE``."""
    if unchanged is not None:
        return newest_whole(found, unchanged, is_delete=F.col(IS_DELETE), key=key, order=order)
    return latest_in_spark.latest_per_key(found, key=key, order=order)


def _deleted_columns(key: Sequence[str], order: Sequence[str]) -> Sequence[str]:
    return tuple(dict.fromkeys((*key, *order)))


def _refused(gold: Upsert | ChangeFeed, number: int, first: Row) -> ChangeRefusedError:
    return ChangeRefusedError(
        gold.table,
        f"{number} keys have a change whose operation is in none of upserts, deletes and ignores; the first "
        f"at topic/partition/offset {'/'.join(map(str, first))}. Nothing of the micro-batch was written. If "
        "it changes a row, name the operation in upserts or deletes. If it empties the table, as a "
        f"""truncation does: declare truncates="{getattr(gold, "operation", "op")} = 't'", and then: """
        f"medallion rebuild {gold.table}",
    )
