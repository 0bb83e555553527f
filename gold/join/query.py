"""Rows of a table with their matches in another table: as that is when the row comes, or as it is now.

A row is identified by its Kafka coordinates. Recomputed, it may have any number of matches, which have a
running number in ``_match``; it may change whenever the other table does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from common.declare import Join, Reading
from common.declare.field_types import named
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import TableShapeError
from common.rows.computed import with_columns
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.spark.broadcast import broadcast_if_small
from common.sql.expression import window_times
from common.streaming.query import Stream
from gold.join import stream_join
from gold.join.columns import joined, other_path, shape
from gold.source.stream import at_version, changes, keeps_feed, new_rows
from gold.source.stream import stream as delta_stream
from gold.table import create
from gold.table.context import Context
from gold.table.identity import MATCH, RECORD
from gold.table.maintained import Maintained, Work
from gold.table.pruning import prunes_files, within_bounds
from gold.table.sql_columns import meeting

_SIDE = "__side"
_READS, _JOINS = 0, 1


def build_query(context: Context, gold: Join) -> Stream:
    """The query of one join; creates the table where there is none.

    Raises:
        HistoryGoneError: Both are streams, and the first commits of one are gone.
        PipelineError: A text does not fit the columns of the two tables.
        TableMissingError: There is no table to join.
        TableShapeError: The table exists with other columns, or the one to join keeps no feed.
    """
    if gold.mode == "stream":
        return stream_join.build_query(context, gold)
    return _lookup(context, gold) if gold.mode == "lookup" else _recomputed(context, gold)


def _lookup(context: Context, gold: Join) -> Stream:
    """Each micro-batch joined with the other table as it is when that begins, and appended."""
    frame, other = new_rows(context, gold), other_path(context, gold)
    path = context.path(gold.table)
    create.ensure(context, gold.table, shape(context, gold, other).schema, gold.storage)

    def write(rows: SparkRows, batch: MicroBatch) -> None:
        version = LogReader(other).latest_version()
        result = joined(rows.frame, at_version(rows.session, other, version), gold)
        mode = "overwrite" if batch.batch_id == 0 else "append"
        with rows.derive(result).kept() as found:
            delta_table.append(found, path, batch, "lookup", {"joined_version": version}, mode=mode)

    return context.query(gold, frame, write)


def _recomputed(context: Context, gold: Join) -> Stream:
    """Changes of both tables; the rows that a change of either touches are joined again."""
    other = other_path(context, gold)
    reads, joins = changes(context, gold), _changes_of_other(context, gold, other)
    create.ensure(context, gold.table, _numbered(shape(context, gold, other), gold).schema, gold.storage)
    keys = [F.col(f"`{name}`").alias(f"__v{place}") for place, name in enumerate(named(gold.on))]
    reads = meeting(reads, gold.where)
    frame = reads.select(F.lit(_READS).alias(_SIDE), *RECORD).unionByName(
        joins.select(F.lit(_JOINS).alias(_SIDE), *keys), allowMissingColumns=True
    )
    target = _Recomputed(context.path(gold.table), RECORD, gold, context.path(gold.reads), other)
    return context.query(gold, frame, target.write)


@dataclass(frozen=True)
class _Recomputed(Maintained):
    """A recomputed join. A micro-batch has identities of changed rows, and changed keys of the other one."""

    gold: Join
    reads: str  # path of the table that is read
    joins: str  # path of the table that is joined

    def whole(self, work: Work) -> Rows | None:
        """Both tables whole, whatever parts of them the batch has: one side may have been empty until now."""
        batch = work.batch
        if batch.batch_id > 0 and not batch.begins(_READS) and not batch.begins(_JOINS):
            return None
        result = _numbered(joined(self._left(work), self._right(work), self.gold), self.gold)
        return work.keep(work.rows.derive(result), whole=True)

    def touched(self, work: Work) -> Rows | None:
        # The first state of a side was joined at once.
        new = [side for side in (_READS, _JOINS) if not work.batch.in_first_state(side)]
        return work.rows.derive(work.rows.frame.where(F.col(_SIDE).isin(new)))

    def recompute(self, touched: Rows, work: Work) -> None:
        """Join the touched rows again: those that changed, and those that match what changed."""
        came, on = work.keep(touched), named(self.gold.on)
        values = [name for name in came.columns if name.startswith("__v")]

        def keep(frame: DataFrame) -> Rows:
            return work.keep(came.derive(frame))

        changed = keep(came.frame.where(F.col(_SIDE) == _READS).select(*RECORD).distinct())
        others = came.frame.where(F.col(_SIDE) == _JOINS).select(*values).distinct()
        other_keys = keep(others.where(_none_null(values)))
        again = keep(self._to_join(changed, other_keys, work))
        work.counts |= {"changed": changed.count, "values": other_keys.count, "rows": again.count}
        identities = keep(again.frame.select(*RECORD).union(changed.frame).distinct())
        texts = [F.expr(f"({sql})").alias(f"__v{place}") for place, sql in enumerate(on.values())]
        keys = again.frame.select(*texts).distinct()
        wanted = keep(keys.where(_none_null(keys.columns)))
        there = matching_rows(self._right(work), [f"`{name}`" for name in on], wanted)
        result = _numbered(joined(again.frame, there, self.gold), self.gold)
        key = RECORD if self.gold.how == "semi" else (*RECORD, MATCH)
        delta_merge.replace_groups(
            result, self.path, work.batch, work.counts, touched=identities, group=RECORD, key=key
        )

    def _to_join(self, changed: Rows, other_keys: Rows, work: Work) -> DataFrame:
        """The rows that are joined again: changed ones, and those that match a changed key of the other."""
        left, texts = self._left(work), list(named(self.gold.on).values())
        found = delta_merge.frame_with_keys(left, changed, RECORD)
        if not other_keys.count:
            return found
        matching = matching_rows(left, texts, other_keys)
        if not any(prunes_files(sql) for sql in texts):
            # All files are read, of which only the columns that are compared; rows are read by their records.
            # A row that is in several windows is found once per window.
            records = work.keep(changed.derive(matching.select(*RECORD).distinct()))
            matching = delta_merge.frame_with_keys(left, records, RECORD)
        elif any(window_times(sql) for sql in texts):
            matching = matching.dropDuplicates([*RECORD])
        mine = broadcast_if_small(changed.frame, changed.count)
        return found.unionByName(matching.join(mine, list(RECORD), "left_anti"))

    def _left(self, work: Work) -> DataFrame:
        rows = at_version(work.rows.session, self.reads, work.batch.source_version(_READS))
        return meeting(rows, self.gold.where)

    def _right(self, work: Work) -> DataFrame:
        return at_version(work.rows.session, self.joins, work.batch.source_version(_JOINS))


def _none_null(names: Sequence[str]) -> Column:
    """Null matches nothing; NaN matches NaN."""
    return reduce(and_, (F.col(name).isNotNull() for name in names))


def matching_rows(table: DataFrame, texts: Sequence[str], values: Rows) -> DataFrame:
    """A table's rows for which the texts give one of the values; files are skipped by bounds of the values.

    Args:
        table: A Delta table, at any version.
        texts: SQL text over its columns, one per column of ``values``.
        values: None of them null, each once.
    """
    names = values.columns
    pruned = within_bounds(table, values, dict(zip(names, texts, strict=True)))
    computed = {f"__own{place}": text for place, text in enumerate(texts)}
    same = reduce(and_, (F.col(own) == F.col(name) for own, name in zip(computed, names, strict=True)))
    rows = with_columns(pruned, computed)
    return rows.join(broadcast_if_small(values.frame, values.count), same, "left_semi").drop(*computed)


def _numbered(found: DataFrame, gold: Join) -> DataFrame:
    """The rows with a running number of each one's matches, ordered by all of their columns."""
    if gold.how == "semi":
        return found
    values = [F.col(f"`{name}`") for name in named(gold.columns)]
    return found.withColumn(MATCH, F.row_number().over(Window.partitionBy(*RECORD).orderBy(*values)))


def _changes_of_other(context: Context, gold: Join, path: str) -> DataFrame:
    """Every change of the table that is joined; a silver table that only grows may do without a feed."""
    feed = keeps_feed(context, path)
    grows = gold.joins.startswith("silver.") and gold.joins not in context.replaced
    if not feed and not (gold.joins_a_table and grows):
        shown = "Storage(change_feed=True)" if gold.joins_a_table else "delta.enableChangeDataFeed = true"
        raise TableShapeError(
            f"{gold.table} recomputes its rows when {gold.joins} changes, but the table at {path} keeps no "
            f'change data feed. Turn it on with {shown}, or use mode="lookup".'
        )
    return delta_stream(context, gold, path, Reading(), feed=feed)
