"""The newest row per key (SCD1): each micro-batch reduced to one row per key, then merged.

A row that the source deletes or replaces gives way to the newest that is left of its key, which is looked
for in the source only where the table's row may have left. Deleted keys are written before the table:
a micro-batch that the table has is done, and one that was cut off between the two ends the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from common import delta, delta_merge
from common.declare import ChangeFeed, Upsert
from common.delta import MicroBatch
from common.delta_merge import DELETED, INSERTED, UPDATED
from common.errors import ChangeRefusedError
from common.identity import last_own_commit
from common.streaming import Stream
from gold import deleted, tables
from gold.context import Context
from gold.outcome import (
    ENDS,
    GONE,
    IN_DELETED,
    IN_TABLE,
    STRAY,
    is_doubtful,
    is_recomputed,
    meeting,
    outcome,
    recomputed,
    reduced,
)
from gold.reduce import newest_per_key, total_order
from gold.source import at_version, changes
from gold.versions import table_columns, versions

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
    have = delta.columns(context.spark, path)
    if gold.columns is None and have:
        more = [name for name in table_columns(frame) if name not in have]
        if more and isinstance(gold, ChangeFeed):
            # The source table has grown; rows that are there have null in what is new, as silver's have.
            fields = [frame.schema[name] for name in more]
            delta.add_columns(context.spark, context.pipeline.name, gold.table, path, fields)
            more = []
        frame = frame.drop(*more)
    names = table_columns(frame)
    tables.ensure(context, gold.table, frame.select(*names).schema, gold.storage)
    newest_by = gold.sequence_by if isinstance(gold, ChangeFeed) else gold.newest_by
    order = total_order(newest_by)
    beside = None
    if gold.side_tables:
        beside = context.path(gold.deleted)
        deleted.ensure(context, gold, frame.schema, order)
    write = _Write(gold, context.path(gold.reads), path, beside, tuple(names), tuple(gold.key), order)
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
        columns: The table's columns.
        key: Columns that name a row.
        order: Columns that order the versions of a row.
    """

    gold: Upsert | ChangeFeed
    source: str
    path: str
    beside: str | None
    columns: tuple[str, ...]
    key: tuple[str, ...]
    order: tuple[str, ...]

    def __call__(self, rows: DataFrame, batch: MicroBatch) -> None:
        """Write one micro-batch.

        Raises:
            ChangeRefusedError: A change of no known kind; nothing is written.
        """
        if delta.is_written(self.path, batch, delta.MERGE):
            return
        held: list[DataFrame] = []

        def hold(frame: DataFrame) -> DataFrame:
            held.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
            return held[-1]

        try:
            self._write(rows, batch, hold)
        finally:
            for frame in reversed(held):
                frame.unpersist()

    def _write(self, rows: DataFrame, batch: MicroBatch, hold: Callable[[DataFrame], DataFrame]) -> None:
        is_first, covered = batch.batch_id == 0, self._covered(batch)
        if is_first and covered is not None:
            # All that the source has, whatever part of it the batch has: a rebuilt table is whole at once.
            came = self._versions(rows, covered).withColumn(GONE, F.lit(False))
        elif covered is not None:
            nothing = at_version(rows.sparkSession, self.path, None)
            delta.append(nothing, self.path, batch, delta.MERGE, {"keys": 0, _COVERS: covered})
            return
        else:
            came = rows
        came = hold(reduced(came, key=self.key, order=self.order))
        near, keys, doubtful = self._measured(came, () if is_first else self.key)
        met = meeting(
            came,
            None if is_first else self._near(rows, self.path, near),
            None if is_first or self.beside is None else self._near(rows, self.beside, near),
            key=self.key,
            order=self.order,
            keys=keys,
        )
        asked = 0
        if doubtful:
            met, asked = self._recomputed(hold(met), rows, batch, hold)
        done = hold(outcome(met, self.columns, key=self.key, order=self.order))
        counts = _counts(done)
        told = {
            "keys": keys,
            "written": counts[IN_TABLE, INSERTED] + counts[IN_TABLE, UPDATED],
            "deleted": counts[IN_TABLE, DELETED],
            "recomputed": asked,
        }
        if covered is not None:
            told[_COVERS] = covered
        if self.beside is not None:
            names = deleted.columns(self.key, self.order)
            self._put(done, IN_DELETED, names, self.beside, batch, told, counts, near, step="deleted")
        self._put(done, IN_TABLE, self.columns, self.path, batch, told, counts, near)

    def _measured(self, came: DataFrame, bounded: Sequence[str]) -> tuple[list[Column], int, int]:
        """Literal bounds of the keys, how many there are, and of how many the source may have to be asked."""
        wanted = [F.count("*").alias("keys"), F.count_if(is_doubtful(self.order)).alias("doubtful")]
        if STRAY in came.columns:
            wanted += [F.count(STRAY).alias("strays"), F.min(STRAY).alias("first")]
        near, row = delta_merge.measured(came, bounded, "t", wanted)
        if STRAY in came.columns and row["strays"]:
            raise _refused(self.gold, row["strays"], row["first"])
        return near, int(row["keys"]), int(row["doubtful"])

    def _near(self, rows: DataFrame, path: str, near: Sequence[Column]) -> DataFrame:
        """A table's rows that may have the keys of a micro-batch."""
        table = rows.sparkSession.read.format("delta").load(path).alias("t")
        return table.where(reduce(and_, near)) if near else table

    def _recomputed(
        self, met: DataFrame, rows: DataFrame, batch: MicroBatch, hold: Callable[[DataFrame], DataFrame]
    ) -> tuple[DataFrame, int]:
        """Keys whose row may have left the source get the newest it has, as of what the batch has read."""
        asked = hold(met.where(is_recomputed(self.order)).select(*(F.col(f"`{name}`") for name in self.key)))
        keys = asked.count()
        if not keys:
            return met, 0
        found = self._versions(rows, batch.source_version()).select(*self.columns, ENDS)
        left = delta_merge.of_groups(found, asked, self.key)
        newest = newest_per_key(left, key=self.key, order=self.order)
        return recomputed(met, newest, key=self.key, order=self.order), keys

    def _covered(self, batch: MicroBatch) -> int | None:
        """The version of the source's first state that the first micro-batch writes whole, or has written."""
        version = batch.source_version()
        if self.gold.reading.has_start or version is None or not batch.in_first_state():
            return None
        if batch.batch_id > 0:
            told = last_own_commit(self.path, batch.query)
            return version if told is not None and told["counts"].get(_COVERS) == version else None
        return version

    def _versions(self, rows: DataFrame, version: int | None) -> DataFrame:
        """All versions that the source has at one of its own, with the columns of ``rows``."""
        found = versions(at_version(rows.sparkSession, self.source, version), self.gold)
        # At an older version the source may lack a column that it has got since.
        later = {name: F.lit(None).cast(rows.schema[name].dataType) for name in self.columns}
        return found.withColumns({name: each for name, each in later.items() if name not in found.columns})

    def _put(  # noqa: PLR0913, PLR0917
        self,
        done: DataFrame,
        what: str,
        columns: Sequence[str],
        path: str,
        batch: MicroBatch,
        told: Mapping[str, int],
        counts: Mapping[tuple[str, str], int],
        near: Sequence[Column],
        step: str = delta.MERGE,
    ) -> None:
        """Write one of the two tables; the one of deleted keys only where it changes."""
        rows = done.where(F.col(what).isNotNull())
        kept = rows.select(*(F.col(f"`{name}`") for name in columns), F.col(what).alias(delta_merge.DO))
        numbers = {each: counts[what, each] for each in (INSERTED, UPDATED, DELETED)}
        if batch.batch_id == 0:
            # Takes the place of what a lost checkpoint has left behind.
            packed = delta.packed(
                kept.drop(delta_merge.DO), numbers[INSERTED], self.gold.storage.cluster_by or self.key
            )
            delta.append(packed, path, batch, step, told, mode="overwrite")
        elif any(numbers.values()) or step == delta.MERGE:
            noted = batch.metadata(step, told)
            delta_merge.write_changes(kept, path, noted, key=self.key, numbers=numbers, near=near)


def _counts(done: DataFrame) -> Mapping[tuple[str, str], int]:
    """How many rows are inserted, updated and deleted, by table."""
    places = [(what, each) for what in (IN_TABLE, IN_DELETED) for each in (INSERTED, UPDATED, DELETED)]
    row = done.agg(*(F.count_if(F.col(what) == each) for what, each in places)).collect()[0]
    return {place: int(row[at]) for at, place in enumerate(places)}


def _refused(gold: Upsert | ChangeFeed, number: int, first: Row) -> ChangeRefusedError:
    return ChangeRefusedError(
        gold.table,
        f"{number} keys have a change whose operation is in none of upserts, deletes and ignores; the first "
        f"at topic/partition/offset {'/'.join(map(str, first))}. Nothing of the micro-batch was written. If "
        "it changes a row, name the operation in upserts or deletes. If it empties the table, as truncation "
        f"does: take the changes before it out of {gold.reads}, which takes them out of this table too, and "
        "name the operation in ignores.",
    )
