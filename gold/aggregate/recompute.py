"""Aggregates without state: the groups that a micro-batch touches are recomputed from silver and merged.

Every change of silver, an added or a removed row, names the groups that it touches. Their rows are read from
silver at the version that the micro-batch has read to, so the table equals the result of a batch job over
that version. A commit that comes in several micro-batches is taken whole with the first of them, if silver
keeps a feed; without a feed, the groups of its later rows follow with those.

Each commit says which version of silver the table ``covers``: rows of a micro-batch up to that version are in
the table. A sum of floats may differ in its last digits from the sum in another order of the same rows;
untouched groups keep their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Aggregate, Session, Window
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.micro_batch import MicroBatch
from common.rows.computed import with_columns
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.spark.broadcast import broadcast_if_small
from common.streaming.query import Stream
from gold.aggregate import sessions, windows
from gold.aggregate.file_pruning import prune_by_keys, time_ranges, within
from gold.aggregate.stateful import grouped
from gold.source.stream import at_version, changes, reads_feed, with_whole_commit
from gold.table import create
from gold.table.context import Context
from gold.table.sql_columns import columns, named

_COVERS = "covers"
"""The version of silver that a commit says the table is complete up to."""


def build_query(context: Context, gold: Aggregate) -> Stream:
    """The query of one recomputed aggregate; creates the table where there is none.

    The first micro-batch of a checkpoint writes the whole table from silver's state at that time; later
    micro-batches whose rows belong to that state write nothing.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    silver = context.path(gold.reads)
    source = context.spark.read.format("delta").load(silver)
    windows.refuse_floats(source, gold)
    result = grouped(source, gold)
    gold = create.by_as_stored(gold, source)
    create.ensure(context, gold.table, result.schema, gold.storage)
    target = _Target(gold, silver, context.path(gold.table), reads_feed(context, gold))
    keys = windows.keyed(_matching(changes(context, gold), gold), gold)
    return context.query(gold, keys, target.write)


@dataclass(frozen=True)
class _Target:
    """A recomputed aggregate.

    Attributes:
        gold: The declaration.
        silver: Path of the table that is read.
        table: Path of the table.
        has_feed: Whether silver's change data feed is read.
    """

    gold: Aggregate
    silver: str
    table: str
    has_feed: bool

    def write(self, keys: SparkRows, batch: MicroBatch) -> None:
        """Write a micro-batch, given the groups of its rows."""
        if delta_table.is_written(self.table, batch, delta_table.MERGE):
            return
        version = batch.source_version()
        if batch.batch_id == 0 or version is None:
            self._write_all(keys, batch)
            return
        covered = self._covered(batch)
        if covered is not None and version <= covered:
            self._write_nothing(keys, batch, covered)
            return
        covers: int | None = version
        if self.has_feed:
            keys = with_whole_commit(keys, batch, self.silver, self._keyed)
        elif batch.in_commit():
            covers = covered
        with keys.derive(keys.frame.distinct()).kept() as touched:
            if touched.count:
                self._write_touched(touched, batch, version, covers)
            else:
                self._write_nothing(keys, batch, covers)

    def _keyed(self, changed: DataFrame) -> DataFrame:
        return windows.keyed(_matching(changed, self.gold), self.gold)

    def _covered(self, batch: MicroBatch) -> int | None:
        """The version of silver up to which the table is complete, by its last commit."""
        last = last_commit_metadata(self.table, batch.query)
        return None if last is None else last["counts"].get(_COVERS)

    def _write_all(self, keys: SparkRows, batch: MicroBatch) -> None:
        """Write the whole table; replaces what a lost checkpoint has left behind."""
        version = batch.source_version()
        result = grouped(at_version(keys.session, self.silver, version), self.gold)
        with keys.derive(result).kept(whole=True) as rows:
            order = self.gold.storage.cluster_by or windows.group(self.gold)
            counts = {"groups": rows.count, _COVERS: version}
            delta_table.append(rows, self.table, batch, delta_table.MERGE, counts, mode="overwrite", by=order)

    def _write_nothing(self, keys: Rows, batch: MicroBatch, covers: int | None) -> None:
        counts = {"groups": 0, _COVERS: covers}
        delta_table.append_nothing(keys, self.table, batch, delta_table.MERGE, counts)

    def _write_touched(self, touched: Rows, batch: MicroBatch, version: int, covers: int | None) -> None:
        silver = _matching(at_version(touched.session, self.silver, version), self.gold)
        if isinstance(self.gold.window, Session):
            self._replace_sessions(touched, silver, self.gold.window, batch, covers)
        else:
            result = _groups(silver, touched, self.gold)
            self._replace(result, touched, batch, {"groups": touched.count, _COVERS: covers})

    def _replace_sessions(
        self, touched: Rows, silver: DataFrame, window: Session, batch: MicroBatch, covers: int | None
    ) -> None:
        by, gap = tuple(named(self.gold.by or ())), window.gap
        with ExitStack() as stack:

            def keep(frame: DataFrame) -> Rows:
                return stack.enter_context(touched.derive(frame).kept())

            spans = keep(sessions.spans(touched.frame, by, gap))
            table = touched.session.read.format("delta").load(self.table)
            table = table.where(reduce(and_, [*spans.bounds(by), sessions.may_link(spans, gap)]))
            linked = keep(sessions.linked(table, spans, by, gap))
            reached = keep(sessions.reach(spans.frame, linked.frame, by, gap))
            result = keep(grouped(_reached(silver, reached, self.gold, window), self.gold))
            replaced = keep(sessions.touched_sessions(linked.frame, result.frame, by))
            self._replace(result.frame, replaced, batch, {"groups": replaced.count, _COVERS: covers})

    def _replace(
        self, result: DataFrame, touched: Rows, batch: MicroBatch, counts: Mapping[str, Any]
    ) -> None:
        key = windows.group(self.gold)
        delta_merge.replace_groups(result, self.table, batch, counts, touched=touched, group=key, key=key)


def _matching(rows: DataFrame, gold: Aggregate) -> DataFrame:
    """The rows that match the table's condition."""
    return rows if gold.where is None else rows.where(F.expr(f"({gold.where})"))


def _groups(silver: DataFrame, touched: Rows, gold: Aggregate) -> DataFrame:
    """The touched groups over silver's rows. Grain: one row per group that has rows."""
    by, window = named(gold.by or ()), gold.window
    computed = {f"__by{place}": sql for place, sql in enumerate(by.values())}
    rows = with_columns(prune_by_keys(silver, touched, by), computed)
    group = [F.col(own).alias(name) for own, name in zip(computed, by, strict=True)]
    values = [F.col(own) for own in computed]
    if isinstance(window, Window):
        spans = time_ranges(touched, windows.START, windows.END)
        rows = windows.marked(rows.where(within(F.col(f"`{window.on}`"), spans)), window)
        group.append(F.col(windows.WINDOW))
        values.append(F.col(f"{windows.WINDOW}.start"))
    names = windows.group(gold)
    own = touched.frame.select(*(F.col(f"`{name}`").alias(f"__group{i}") for i, name in enumerate(names)))
    same = reduce(and_, (value.eqNullSafe(F.col(f"__group{i}")) for i, value in enumerate(values)))
    rows = rows.join(broadcast_if_small(own, touched.count), same, "left_semi")
    return windows.unpacked(rows.groupBy(*group).agg(*columns(named(gold.measures))), gold)


def _reached(silver: DataFrame, reach: Rows, gold: Aggregate, window: Session) -> DataFrame:
    """Silver's rows in ranges of event time of their groups."""
    by, on = named(gold.by or ()), F.col(f"`{window.on}`")
    rows = prune_by_keys(silver, reach, by).where(within(on, time_ranges(reach, sessions.LOW, sessions.HIGH)))
    own = reach.frame.select(
        *(F.col(f"`{name}`").alias(f"__group{i}") for i, name in enumerate(by)), sessions.LOW, sessions.HIGH
    )
    computed = {f"__by{place}": sql for place, sql in enumerate(by.values())}
    same = [F.col(name).eqNullSafe(F.col(f"__group{i}")) for i, name in enumerate(computed)]
    is_within = on.between(F.col(sessions.LOW), F.col(sessions.HIGH))
    found = with_columns(rows, computed).join(
        broadcast_if_small(own, reach.count), reduce(and_, [*same, is_within]), "left_semi"
    )
    return found.drop(*computed)
