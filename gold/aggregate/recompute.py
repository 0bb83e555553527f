"""Aggregates without state: the groups that a micro-batch touches are recomputed from silver and merged.

Every change of silver, an added or a removed row, names the groups that it touches. Their rows are read from
silver at the version that the micro-batch has read to, so the table equals the result of a batch job over
that version. A commit that comes in several micro-batches is taken whole with the first of them, if silver
keeps a feed; without a feed, the groups of its later rows follow with those.

A micro-batch that has failed at a row is read to silver's newest version, which may have the row corrected.

Each commit says which version of silver the table ``covers``: rows of a micro-batch up to that version are in
the table. A sum of floats may differ in its last digits from the sum in another order of the same rows;
untouched groups keep their values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Aggregate, Session, Window
from common.declare.field_types import named
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.source_match import Source, commits_at
from common.delta.micro_batch import MicroBatch
from common.rows.computed import with_columns
from common.rows.rows import Rows
from common.spark.broadcast import broadcast_if_small
from common.streaming.query import Stream
from gold.aggregate import sessions, windows
from gold.aggregate.file_pruning import prune_by_keys, time_ranges, within
from gold.aggregate.stateful import grouped
from gold.source.stream import at_version, changes, net_changes, reads_feed, with_whole_commit
from gold.table import create
from gold.table.context import Context
from gold.table.identity import group
from gold.table.maintained import Maintained, Work
from gold.table.sql_columns import columns, meeting

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
    by = gold.storage.cluster_by or group(gold)
    target = _Recomputed(context.path(gold.table), by, gold, silver, reads_feed(context, gold))
    keys = windows.keyed(meeting(changes(context, gold), gold.where), gold)
    return context.query(gold, keys, target.write)


@dataclass(frozen=True)
class _Recomputed(Maintained):
    """A recomputed aggregate."""

    gold: Aggregate
    silver: str  # path of the table that is read
    has_feed: bool  # whether silver's change data feed is read

    def whole(self, work: Work) -> Rows | None:
        version = work.found = self._version(work)
        if work.batch.batch_id > 0 and version is not None:
            return None
        result = grouped(at_version(work.rows.session, self.silver, version), self.gold)
        groups = work.keep(work.rows.derive(result), whole=True)
        work.counts |= {"groups": groups.count, _COVERS: version}
        return groups

    def touched(self, work: Work) -> Rows | None:
        batch, rows = work.batch, work.rows
        version, covered = work.found or 0, self._covered(batch)
        is_covered = covered is not None and version <= covered
        ends_inside = batch.in_commit() and not self.has_feed
        work.counts |= {"groups": 0, _COVERS: covered if is_covered or ends_inside else version}
        if is_covered:
            return None
        if batch.failed_at_row and covered is not None:
            # Nothing is computed of a row that has come since the last commit and is corrected by now.
            changed = work.keep(rows.derive(net_changes(rows.session, self.silver, covered, version)))
            rows = rows.derive(self._keyed(changed.frame))
        elif self.has_feed:
            rows = with_whole_commit(rows, batch, self.silver, self._keyed)
        groups = work.keep(rows.derive(rows.frame.distinct()))
        return groups if groups.count else None

    def recompute(self, touched: Rows, work: Work) -> None:
        silver = at_version(touched.session, self.silver, work.found)
        silver = meeting(silver, self.gold.where)
        if isinstance(self.gold.window, Session):
            result, touched = self._sessions(touched, silver, self.gold.window, work)
        else:
            result = _groups(silver, touched, self.gold)
        work.counts["groups"] = touched.count
        key = group(self.gold)
        delta_merge.replace_groups(
            result, self.path, work.batch, work.counts, touched=touched, group=key, key=key
        )

    def _sessions(
        self, touched: Rows, silver: DataFrame, window: Session, work: Work
    ) -> tuple[DataFrame, Rows]:
        """The sessions of touched rows, and all those that they replace."""
        by, gap = tuple(named(self.gold.by or ())), window.gap

        def keep(frame: DataFrame) -> Rows:
            return work.keep(touched.derive(frame))

        spans = keep(sessions.spans(touched.frame, by, gap))
        table = delta_table.newest(touched.session, self.path)
        table = table.where(reduce(and_, [*spans.bounds(by), sessions.may_link(spans, gap)]))
        linked = keep(sessions.linked(table, spans, by, gap))
        reached = keep(sessions.reach(spans.frame, linked.frame, by, gap))
        result = keep(grouped(_reached(silver, reached, self.gold, window), self.gold))
        return result.frame, keep(sessions.touched_sessions(linked.frame, result.frame, by))

    def _keyed(self, changed: DataFrame) -> DataFrame:
        return windows.keyed(meeting(changed, self.gold.where), self.gold)

    def _version(self, work: Work) -> int | None:
        """The version of silver to which the micro-batch reads: the newest, if it has failed at a row."""
        batch = work.batch
        if not (batch.failed_at_row and self.has_feed):
            return batch.source_version()
        version = LogReader(self.silver).latest_version()
        work.batch = replace(
            batch, source_commits=commits_at([version], [Source(self.gold.reads, self.silver)])
        )
        return version

    def _covered(self, batch: MicroBatch) -> int | None:
        """The version of silver up to which the table is complete, by its last commit."""
        last = last_commit_metadata(self.path, batch.query)
        return None if last is None else last["counts"].get(_COVERS)


def _groups(silver: DataFrame, touched: Rows, gold: Aggregate) -> DataFrame:
    """The touched groups over silver's rows. Grain: one row per group that has rows."""
    by, window = named(gold.by or ()), gold.window
    computed = {f"__by{place}": sql for place, sql in enumerate(by.values())}
    rows = with_columns(prune_by_keys(silver, touched, by), computed)
    own_group = [F.col(own).alias(name) for own, name in zip(computed, by, strict=True)]
    values = [F.col(own) for own in computed]
    if isinstance(window, Window):
        spans = time_ranges(touched, windows.START, windows.END)
        rows = windows.marked(rows.where(within(F.col(f"`{window.on}`"), spans)), window)
        own_group.append(F.col(windows.WINDOW))
        values.append(F.col(f"{windows.WINDOW}.start"))
    names = group(gold)
    own = touched.frame.select(*(F.col(f"`{name}`").alias(f"__group{i}") for i, name in enumerate(names)))
    same = reduce(and_, (value.eqNullSafe(F.col(f"__group{i}")) for i, value in enumerate(values)))
    rows = rows.join(broadcast_if_small(own, touched.count), same, "left_semi")
    measures = windows.bounded(named(gold.measures), silver) if window is not None else named(gold.measures)
    return windows.unpacked(rows.groupBy(*own_group).agg(*columns(measures)), gold)


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
