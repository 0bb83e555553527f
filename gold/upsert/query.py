"""The newest row per key (SCD1): each micro-batch reduced to one row per key, then merged.

A row that the source deletes or replaces gives way to the newest that is left of its key, which is looked
for in the source only where the table's row may have left. Deleted keys are written before the table:
a micro-batch that the table has is done, and one that was cut off between the two ends the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from common.config.driver_limits import DriverLimits
from common.declare import ChangeFeed, Upsert
from common.delta import delta_rs
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.checkpoint_match import last_own_commit
from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.delta.micro_batch import MicroBatch
from common.errors import ChangeRefusedError
from common.rows.latest_in_driver import NotComparableError
from common.rows.materialized import Settled, local, of_batch, settled, taken
from common.streaming.query import Stream
from gold.source.stream import at_version, changes
from gold.table import create as tables
from gold.table.context import Context
from gold.table.latest_per_key import newest_per_key, total_order
from gold.upsert import deleted_keys
from gold.upsert.outcome_in_driver import is_few
from gold.upsert.outcome_in_driver import newest as newest_of_few
from gold.upsert.outcome_in_driver import outcome as few_outcome
from gold.upsert.outcome_in_spark import (
    DOUBTFUL,
    ENDS,
    GONE,
    IN_DELETED,
    IN_TABLE,
    STRAY,
    is_recomputed,
    meeting,
    outcome,
    recomputed,
    reduced,
)
from gold.upsert.row_versions import table_columns, versions

_COVERS = "covers"
"""What a commit notes of the source's version that its first state was written whole at."""


def stream(context: Context, gold: Upsert | ChangeFeed) -> Stream:
    """The query of one upserted table; makes its tables where there are none.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: A table exists with other columns.
    """
    frame = versions(changes(context, gold), gold)
    path = context.path(gold.table)
    have = delta_table.columns(context.spark, path)
    if gold.columns is None and have:
        more = [name for name in table_columns(frame) if name not in have]
        if more and isinstance(gold, ChangeFeed):
            # The source table has grown; rows that are there have null in what is new, as silver's have.
            fields = [frame.schema[name] for name in more]
            delta_table.add_columns(context.spark, context.pipeline.name, gold.table, path, fields)
            more = []
        frame = frame.drop(*more)
    names = table_columns(frame)
    tables.ensure(context, gold.table, frame.select(*names).schema, gold.storage)
    newest_by = gold.sequence_by if isinstance(gold, ChangeFeed) else gold.newest_by
    order = total_order(newest_by)
    beside = None
    if gold.side_tables:
        beside = context.path(gold.deleted)
        deleted_keys.ensure(context, gold, frame.schema, order)
    write = _Write(
        gold,
        context.path(gold.reads),
        path,
        beside,
        frame.select(*names).schema,
        tuple(gold.key),
        order,
        context.limits,
    )
    return Stream(
        pipeline=context.pipeline.name,
        name=gold.table,
        frame=frame,
        write=write,
        checkpoint=context.checkpoint(gold),
        trigger=context.settings.gold.trigger,
    )


@dataclass(frozen=True)
class _Write:
    """Writes micro-batches into a table and the one of its deleted keys.

    Attributes:
        gold: The declaration.
        source: Path of the table it is made of.
        path: Path of the table.
        beside: Path of the deleted keys' table, if rows may be deleted.
        schema: The table's columns.
        key: Columns that name a row.
        order: Columns that order the versions of a row.
        small: What is worked out in the driver.
    """

    gold: Upsert | ChangeFeed
    source: str
    path: str
    beside: str | None
    schema: StructType
    key: tuple[str, ...]
    order: tuple[str, ...]
    small: DriverLimits

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return tuple(self.schema.names)

    def __call__(self, rows: DataFrame, batch: MicroBatch) -> None:
        """Write one micro-batch.

        Raises:
            ChangeRefusedError: A change of no known kind; nothing is written.
        """
        if delta_table.is_written(self.path, batch, delta_table.MERGE):
            return
        covered = self._covered(batch)
        if batch.batch_id == 0 and covered is not None:
            # All that the source has, whatever part of it the batch has: a rebuilt table is whole at once.
            rows = self._versions(rows, covered).withColumn(GONE, F.lit(False))
        elif covered is not None:
            told = {"keys": 0, _COVERS: covered}
            delta_table.append_nothing(
                rows.sparkSession, self.path, batch, delta_table.MERGE, told, self.small
            )
            return
        told = {} if covered is None else {_COVERS: covered}
        few = self.small if batch.batch_id == 0 else of_batch(rows, self.small)
        if batch.batch_id > 0 and (arrow := taken(rows, few)) is not None:
            if self._has_written_few(arrow, batch, rows.sparkSession, few):
                return
            rows = local(rows.sparkSession, arrow, rows.schema).frame
        with settled(reduced(rows, key=self.key, order=self.order), few, once=batch.batch_id == 0) as came:
            self._refuse_strays(came)
            newest = newest_of_few(came) if batch.batch_id > 0 and arrow is None else None
            if newest is None or not self._has_written_few(newest, batch, rows.sparkSession, few):
                self._write(came, batch, told, came.then(few))

    def _has_written_few(
        self, rows: pa.Table, batch: MicroBatch, session: SparkSession, few: DriverLimits
    ) -> bool:
        """Write what becomes of each key, where that can be told without a job of Spark's."""
        done = self._outcome_of_few(rows, session, few)
        if done is not None:
            self._put_all(done, batch, {"keys": done.rows, "recomputed": 0}, None)
        return done is not None

    def _outcome_of_few(self, rows: pa.Table, session: SparkSession, few: DriverLimits) -> Settled | None:
        """What becomes of each key, where that can be told without a job of Spark's."""
        if not is_few(rows, self.key, self.order):
            return None
        read = deleted_keys.columns(self.key, self.order)
        keys, have = rows.select(list(self.key)), {}
        for name, path in self._tables().items():
            near = delta_rs.rows_with_keys(path, keys, few, read)
            if near is None:
                return None
            have[name] = near
        try:
            done = few_outcome(rows, have, self.columns, key=self.key, order=self.order)
        except NotComparableError:
            return None
        marks = [StructField(name, StringType()) for name in (IN_TABLE, IN_DELETED)]
        return local(session, done, StructType([*self.schema, *marks]))

    def _write(self, came: Settled, batch: MicroBatch, told: dict[str, int], few: DriverLimits) -> None:
        near: list[Column] | None = None
        have: dict[str, DataFrame] = {}
        if batch.batch_id > 0:
            # Asked of the executors once for all reads and writes; of the driver's rows by whoever needs it.
            near = delta_merge.bounds(came, self.key, "t") if came.arrow is None else None
            for name, path in self._tables().items():
                have[name] = delta_merge.rows_of(path, came, self.key, few, near)
        met = meeting(
            came.frame,
            have.get(IN_TABLE),
            have.get(IN_DELETED),
            key=self.key,
            order=self.order,
            keys=came.rows,
        )
        told |= {"keys": came.rows, "recomputed": 0}
        with ExitStack() as held:
            if delta_merge.counted(came, DOUBTFUL).get(True):
                met = held.enter_context(settled(met, few)).frame
                again = met.where(is_recomputed(self.order)).select(
                    *(F.col(f"`{name}`") for name in self.key)
                )
                asked = held.enter_context(settled(again, few))
                told["recomputed"] = asked.rows
                if asked.rows:
                    met = self._recomputed(met, asked, batch)
            done = held.enter_context(
                settled(outcome(met, self.columns, key=self.key, order=self.order), few)
            )
            self._put_all(done, batch, told, near)

    def _put_all(
        self, done: Settled, batch: MicroBatch, told: dict[str, int], near: Sequence[Column] | None
    ) -> None:
        """Write what becomes of each key: deleted keys before the table."""
        counts = {what: delta_merge.counted(done, what) for what in (IN_TABLE, IN_DELETED)}
        table = counts[IN_TABLE]
        told["written"] = table.get(INSERTED, 0) + table.get(UPDATED, 0)
        told["deleted"] = table.get(DELETED, 0)
        if self.beside is not None:
            self._put(done, IN_DELETED, batch, told, counts[IN_DELETED], near, step="deleted")
        self._put(done, IN_TABLE, batch, told, counts[IN_TABLE], near)

    def _tables(self) -> Mapping[str, str]:
        """Paths of the table and of its deleted keys."""
        return {IN_TABLE: self.path} | ({} if self.beside is None else {IN_DELETED: self.beside})

    def _refuse_strays(self, came: Settled) -> None:
        if STRAY not in came.frame.columns:
            return
        if came.arrow is not None and came.arrow[STRAY].null_count == came.rows:
            return
        found = came.frame.agg(F.count(STRAY).alias("strays"), F.min(STRAY).alias("first")).first()
        if found is not None and found["strays"]:
            raise _refused(self.gold, found["strays"], found["first"])

    def _recomputed(self, met: DataFrame, asked: Settled, batch: MicroBatch) -> DataFrame:
        """Keys whose row may have left the source get the newest it has, as of what the batch has read."""
        found = self._versions(met, batch.source_version()).select(*self.columns, ENDS)
        left = delta_merge.of_groups(found, asked, self.key)
        newest = newest_per_key(left, key=self.key, order=self.order)
        return recomputed(met, newest, key=self.key, order=self.order)

    def _covered(self, batch: MicroBatch) -> int | None:
        """The version of the source's first state that the first micro-batch writes whole, or has written."""
        version = batch.source_version()
        if self.gold.reading.has_start or version is None or not batch.in_first_state():
            return None
        if batch.batch_id > 0:
            told = last_own_commit(self.path, batch.query)
            return version if told is not None and told["counts"].get(_COVERS) == version else None
        return version

    def _versions(self, like: DataFrame, version: int | None) -> DataFrame:
        """All versions that the source has at one of its own, with the table's columns."""
        found = versions(at_version(like.sparkSession, self.source, version), self.gold)
        # At an older version the source may lack a column that it has got since.
        later = {name: F.lit(None).cast(self.schema[name].dataType) for name in self.columns}
        return found.withColumns({name: each for name, each in later.items() if name not in found.columns})

    def _put(  # noqa: PLR0913, PLR0917
        self,
        done: Settled,
        what: str,
        batch: MicroBatch,
        told: Mapping[str, int],
        counts: Mapping[str, int],
        near: Sequence[Column] | None,
        step: str = delta_table.MERGE,
    ) -> None:
        """Write one of the two tables; the one of deleted keys only where it changes."""
        path = self._tables()[what]
        names = self.columns if what == IN_TABLE else deleted_keys.columns(self.key, self.order)
        numbers = {each: counts.get(each, 0) for each in (INSERTED, UPDATED, DELETED)}
        rows = delta_merge.part(done, what, names, sum(numbers.values()))
        if batch.batch_id == 0:
            # Takes the place of what a lost checkpoint has left behind.
            by = self.gold.storage.cluster_by or self.key
            delta_table.append(
                rows.without(ACTION),
                path,
                batch,
                step,
                told,
                mode="overwrite",
                by=by,
                small=self.small,
            )
        elif rows.rows or step == delta_table.MERGE:
            noted = batch.metadata(step, told)
            delta_merge.write_changes(
                rows, path, noted, key=self.key, numbers=numbers, near=near, small=self.small
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
