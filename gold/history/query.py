"""The query of a history: its table has, after every micro-batch, the intervals of silver's versions.

The table's runs and the new versions of a micro-batch are put together in time as if each run were one
version. Only where a new version lies inside a run, whose single versions the table does not have, or where
the table may lack something, is the key recomputed from silver.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import History
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.table import change_feed_missing
from common.rows.rows import Rows
from common.streaming.query import Stream
from gold.history import snapshots
from gold.history.intervals import (
    PLACED,
    UNSURE,
    intervals,
    truncated,
    versions,
    with_ends,
    with_runs,
)
from gold.source.stream import at_version, changes, reads_feed, with_whole_commit
from gold.table import create
from gold.table.context import Context
from gold.table.defined import Defined, computed_columns, inexact_columns
from gold.table.maintained import Maintained, Work
from gold.table.sql_columns import TRUNCATES, meeting


def build_query(context: Context, gold: History) -> Stream:
    """The query of one history; creates the table where there is none.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns, or snapshots are read from a table that keeps no
            change data feed.
    """
    silver, has_feed = context.path(gold.reads), reads_feed(context, gold)
    if gold.snapshots is not None and not has_feed:
        raise change_feed_missing(gold.table, gold.reads, silver)
    frame = versions(changes(context, gold), gold)
    create.ensure(context, gold.table, intervals(frame, gold).schema, gold.storage)
    by = gold.storage.cluster_by or gold.key
    target = _History(context.path(gold.table), by, gold, silver, has_feed)
    return context.query(gold, frame, target.write)


def defined(context: Context, gold: History, version: int | None) -> Defined:
    """The intervals that a table must have at a version of its source."""
    silver = at_version(context.spark, context.path(gold.reads), version)
    key, rounded = (*gold.key, "valid_from"), computed_columns(gold)
    return Defined(gold.table, _whole_history(silver, gold), key, inexact_columns(gold), rounded=rounded)


def _whole_history(silver: DataFrame, gold: History) -> DataFrame:
    """The table's rows of all keys, from all of silver."""
    found = versions(silver, gold).where(PLACED)
    found = truncated(found, found, gold)
    return intervals(found if gold.snapshots is None else snapshots.with_all_absences(found, gold), gold)


@dataclass(frozen=True)
class _History(Maintained):
    """A history."""

    gold: History
    silver: str  # path of the table that is read
    has_feed: bool  # whether silver's change data feed is read

    def whole(self, work: Work) -> Rows | None:
        """The history of all of silver: later micro-batches may have versions that lie within it."""
        if work.batch.batch_id > 0:
            return None
        if self.gold.reading.has_start:
            came = work.keep(self._came(work))
            return work.keep(came.derive(self._recomputed(came, work)[0]))
        silver = self._silver(work)
        placeless = F.col(self.gold.valid_by).isNull()
        work.counts["unplaced"] = meeting(silver, self.gold.where).where(placeless).count()
        return work.keep(work.rows.derive(_whole_history(silver, self.gold)), whole=True)

    def touched(self, work: Work) -> Rows | None:
        if work.batch.in_first_state() or (self.has_feed and work.batch.in_commit_before()):
            work.counts["keys"] = 0
            return None
        return self._came(work)

    def recompute(self, touched: Rows, work: Work) -> None:
        came, of = work.keep(touched), self._recomputed
        history, keys = (of if self.gold.snapshots is None else self._of_snapshots)(came, work)
        key = self.gold.key
        delta_merge.replace_groups(
            history, self.path, work.batch, work.counts, touched=keys, group=key, key=(*key, "valid_from")
        )

    def _came(self, work: Work) -> Rows:
        """The micro-batch's versions."""
        if not self.has_feed:
            return work.rows
        return with_whole_commit(
            work.rows, work.batch, self.silver, lambda changed: versions(changed, self.gold)
        )

    def _silver(self, work: Work) -> DataFrame:
        return at_version(work.rows.session, self.silver, work.batch.source_version())

    def _recomputed(self, came: Rows, work: Work) -> tuple[DataFrame, Rows]:
        """The history of the keys of some versions, which are put where they belong in time; and the keys."""
        gold, key = self.gold, self.gold.key
        if gold.truncates and set(came.count_by(TRUNCATES)) - {0}:
            return self._of_all_keys(came, delta_table.newest(came.session, self.path), work)
        new = came.frame.where(PLACED).drop(TRUNCATES)
        touched = self._keys(came, new, work)
        before = (
            delta_merge.rows_with_keys(self.path, touched, key).frame
            if work.batch.batch_id > 0
            else at_version(came.session, self.path, None)
        )
        found = work.keep(came.derive(with_runs(new, before, gold)))
        history = intervals(with_ends(found.frame.where(~F.col(UNSURE)), gold), gold)
        if (again := self._versions_of_unsure(found, work)) is not None:
            history = history.unionByName(intervals(again, gold))
        return history, touched

    def _of_snapshots(self, came: Rows, work: Work) -> tuple[DataFrame, Rows]:
        """The same where a key that a snapshot lacks ends: also the keys that end by the micro-batch.

        A snapshot that comes after a later one, or goes, concerns every key: then all of silver is read.
        """
        gold, key = self.gold, self.gold.key

        def keep(frame: DataFrame) -> Rows:
            return work.keep(came.derive(frame))

        table = delta_table.newest(came.session, self.path)
        known = keep(snapshots.newest(table))
        new = snapshots.marked(came.frame.where(PLACED), known.frame)
        doubtful = keep(snapshots.doubtful(new))
        every = None
        if doubtful.count:
            every = keep(snapshots.of_silver(self._silver(work), doubtful.frame, gold))
            if snapshots.come_or_gone(doubtful.frame, every.frame, new):
                return self._of_all_keys(came, table, work)
        listed = keep(snapshots.followed(snapshots.added(known.frame, new), gold))
        ended = snapshots.ended(table, listed.frame, key) if listed.count > known.count else None
        touched = self._keys(came, new, work, ended)
        before = delta_merge.rows_with_keys(self.path, touched, key).frame
        found = keep(with_runs(new, before, gold))
        sure = found.frame.where(~F.col(UNSURE))
        history = intervals(snapshots.with_absences(sure, listed.frame, gold.key), gold)
        if (again := self._versions_of_unsure(found, work)) is not None:
            if every is None:
                every = keep(snapshots.of_silver(self._silver(work), doubtful.frame, gold))
            again = snapshots.with_absences(again, snapshots.followed(every.frame, gold), key)
            history = history.unionByName(intervals(again, gold))
        return history, touched

    def _of_all_keys(self, came: Rows, table: DataFrame, work: Work) -> tuple[DataFrame, Rows]:
        """The history of all of silver, and all keys that it or the table has."""
        key = self.gold.key
        history = work.keep(came.derive(_whole_history(self._silver(work), self.gold)), whole=True)
        keys = history.frame.select(*key).unionByName(table.select(*key))
        touched = work.keep(came.derive(keys.distinct()))
        work.counts |= {"keys": touched.count, "unplaced": came.null_count("valid_from")}
        work.counts["recomputed"] = touched.count
        return history.frame, touched

    def _keys(self, came: Rows, new: DataFrame, work: Work, more: DataFrame | None = None) -> Rows:
        """The keys of new versions and more, each once; and what the commit counts."""
        keys = new.select(*self.gold.key)
        touched = work.keep(came.derive((keys if more is None else keys.unionByName(more)).distinct()))
        work.counts |= {"keys": touched.count, "unplaced": came.null_count("valid_from"), "recomputed": 0}
        return touched

    def _versions_of_unsure(self, found: Rows, work: Work) -> DataFrame | None:
        """All versions of the keys that have to be recomputed from silver; ``None`` where there are none."""
        if not found.count_by(UNSURE).get(True):
            return None
        key = self.gold.key
        unsure = work.keep(found.derive(found.frame.where(UNSURE).select(*key).distinct()))
        work.counts["recomputed"] = unsure.count
        silver = self._silver(work)
        found_again = versions(delta_merge.frame_with_keys(silver, unsure, key), self.gold).where(PLACED)
        return truncated(found_again, versions(silver, self.gold).where(PLACED), self.gold)
