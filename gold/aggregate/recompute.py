"""Aggregates without state: the groups that a micro-batch touches are computed anew from silver and merged.

Every change of silver, a row that came or one that went, names the groups it touches. Their rows are read
from silver as it was at the version that the micro-batch has read to, so the table is what a batch job
over that version gives. A commit that comes in several micro-batches is taken whole with the first of
them, if silver keeps a feed; without one, the groups of its later rows follow with those.

Each commit says which version of silver the table ``covers``: what a micro-batch brings of that is there.
A sum of floats may differ in its last digits from that of another order of the same rows; groups that
nobody touches keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common.config.driver_limits import DriverLimits
from common.declare import Aggregate, Session, Window
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.checkpoint_match import last_own_commit
from common.delta.micro_batch import MicroBatch
from common.rows.materialized import Settled, of_batch, settled
from common.spark.broadcast import small_side
from common.streaming.query import Stream
from gold.aggregate import sessions, windows
from gold.aggregate.file_pruning import near_keys, stretches, within
from gold.aggregate.stateful import grouped
from gold.source.stream import at_version, changes, changes_of, read_beside, reads_feed
from gold.table import create as tables
from gold.table.context import Context
from gold.table.sql_columns import columns, named

_COVERS = "covers"


def stream(context: Context, gold: Aggregate) -> Stream:
    """The query of one recomputed aggregate; makes the table where there is none.

    The first micro-batch of a checkpoint writes the whole table; those that are still within the state
    that silver had then have nothing to do.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    silver = context.path(gold.reads)
    source = context.spark.read.format("delta").load(silver)
    windows.refuse_floats(source, gold)
    result = grouped(source, gold)
    gold = tables.by_as_stored(gold, source)
    tables.ensure(context, gold.table, result.schema, gold.storage)
    work = _Recompute(
        gold,
        silver,
        context.path(gold.table),
        reads_feed(context, gold),
        context.limits,
    )
    return Stream(
        pipeline=context.pipeline.name,
        name=gold.table,
        frame=windows.keyed(_meeting(changes(context, gold), gold), gold),
        write=work.write,
        checkpoint=context.checkpoint(gold),
        trigger=context.settings.gold.trigger,
    )


@dataclass(frozen=True)
class _Recompute:
    """One aggregate, where it reads and where it is."""

    gold: Aggregate
    silver: str
    table: str
    has_feed: bool
    small: DriverLimits

    def write(self, keys: DataFrame, batch: MicroBatch) -> None:
        """Write a micro-batch, given the groups of its rows."""
        if delta_table.is_written(self.table, batch, delta_table.MERGE):
            return
        version = batch.source_version()
        if batch.batch_id == 0 or version is None:
            self._write_all(keys.sparkSession, batch)
            return
        covered = self._covered(batch)
        if covered is not None and version <= covered:
            self._write_nothing(keys.sparkSession, batch, covered)
            return
        covers: int | None = version
        few = of_batch(keys, self.small, beside=read_beside(self.silver, batch))
        if batch.in_commit() and self.has_feed:
            whole = _meeting(changes_of(keys.sparkSession, self.silver, version), self.gold)
            keys = keys.unionByName(windows.keyed(whole, self.gold))
        elif batch.in_commit():
            covers = covered
        self._write_touched(keys, batch, version, covers, few)

    def _covered(self, batch: MicroBatch) -> int | None:
        """The version of silver up to which the table is right, by what its last commit says."""
        told = last_own_commit(self.table, batch.query)
        return None if told is None else told["counts"].get(_COVERS)

    def _write_all(self, spark: SparkSession, batch: MicroBatch) -> None:
        """The whole table; takes the place of what a lost checkpoint has left behind."""
        version = batch.source_version()
        with settled(
            grouped(at_version(spark, self.silver, version), self.gold), self.small, once=True
        ) as rows:
            order = self.gold.storage.cluster_by or windows.group(self.gold)
            counts = {"groups": rows.rows, _COVERS: version}
            delta_table.append(
                rows,
                self.table,
                batch,
                delta_table.MERGE,
                counts,
                mode="overwrite",
                by=order,
                small=self.small,
            )

    def _write_nothing(self, spark: SparkSession, batch: MicroBatch, covers: int | None) -> None:
        """Every batch leaves its mark: a table without one was not written by this checkpoint."""
        counts = {"groups": 0, _COVERS: covers}
        delta_table.append_nothing(spark, self.table, batch, delta_table.MERGE, counts, self.small)

    def _write_touched(
        self, keys: DataFrame, batch: MicroBatch, version: int, covers: int | None, few: DriverLimits
    ) -> None:
        with settled(keys.distinct(), few) as touched:
            few = touched.then(few)
            if not touched.rows:
                self._write_nothing(keys.sparkSession, batch, covers)
                return
            silver = _meeting(at_version(keys.sparkSession, self.silver, version), self.gold)
            if isinstance(self.gold.window, Session):
                self._replace_sessions(touched, silver, self.gold.window, batch, covers, few)
                return
            result = _groups(silver, touched, self.gold)
            self._replace(result, touched, batch, {"groups": touched.rows, _COVERS: covers}, few)

    def _replace_sessions(  # noqa: PLR0913, PLR0917
        self,
        touched: Settled,
        silver: DataFrame,
        window: Session,
        batch: MicroBatch,
        covers: int | None,
        few: DriverLimits,
    ) -> None:
        by, gap = tuple(named(self.gold.by or ())), window.gap
        with settled(sessions.spans(touched.frame, by, gap), few) as spans:
            table = silver.sparkSession.read.format("delta").load(self.table)
            table = table.where(reduce(and_, [*delta_merge.bounds(spans, by), sessions.may_link(spans, gap)]))
            with settled(sessions.linked(table, spans, by, gap), few) as linked:
                reach = sessions.reach(spans.frame, linked.frame, by, gap)
                with (
                    settled(reach, few) as reached,
                    settled(grouped(_reached(silver, reached, self.gold, window), self.gold), few) as result,
                    settled(sessions.concerned(linked.frame, result.frame, by), few) as concerned,
                ):
                    counts = {"groups": concerned.rows, _COVERS: covers}
                    self._replace(result.frame, concerned, batch, counts, few)

    def _replace(
        self,
        result: DataFrame,
        touched: Settled,
        batch: MicroBatch,
        counts: Mapping[str, Any],
        few: DriverLimits,
    ) -> None:
        group = windows.group(self.gold)
        delta_merge.replace_groups(
            result, self.table, batch, counts, touched=touched, group=group, key=group, small=few
        )


def _meeting(rows: DataFrame, gold: Aggregate) -> DataFrame:
    """The rows that meet the table's condition."""
    return rows if gold.where is None else rows.where(F.expr(f"({gold.where})"))


def _groups(silver: DataFrame, touched: Settled, gold: Aggregate) -> DataFrame:
    """The touched groups over silver's rows. Grain: one row per group that has rows."""
    by, window = named(gold.by or ()), gold.window
    rows, group = near_keys(silver, touched, by), columns(by)
    values = [F.expr(f"({sql})") for sql in by.values()]
    if isinstance(window, Window):
        spans = stretches(touched, windows.START, windows.END)
        rows = windows.marked(rows.where(within(F.col(f"`{window.on}`"), spans)), window)
        group.append(F.col(windows.WINDOW))
        values.append(F.col(f"{windows.WINDOW}.start"))
    names = windows.group(gold)
    own = touched.frame.select(*(F.col(f"`{name}`").alias(f"__group{i}") for i, name in enumerate(names)))
    same = reduce(and_, (value.eqNullSafe(F.col(f"__group{i}")) for i, value in enumerate(values)))
    rows = rows.join(small_side(own, touched.rows), same, "left_semi")
    return windows.unpacked(rows.groupBy(*group).agg(*columns(named(gold.measures))), gold)


def _reached(silver: DataFrame, reach: Settled, gold: Aggregate, window: Session) -> DataFrame:
    """Silver's rows in stretches of event time of their groups."""
    by, on = named(gold.by or ()), F.col(f"`{window.on}`")
    rows = near_keys(silver, reach, by).where(within(on, stretches(reach, sessions.LOW, sessions.HIGH)))
    own = reach.frame.select(
        *(F.col(f"`{name}`").alias(f"__group{i}") for i, name in enumerate(by)), sessions.LOW, sessions.HIGH
    )
    same = [F.expr(f"({sql})").eqNullSafe(F.col(f"__group{i}")) for i, sql in enumerate(by.values())]
    near = on.between(F.col(sessions.LOW), F.col(sessions.HIGH))
    return rows.join(small_side(own, reach.rows), reduce(and_, [*same, near]), "left_semi")
