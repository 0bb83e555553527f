"""Rows of a table with their matches in another table: as that is when the row comes, or as it is now.

A row is identified by its Kafka coordinates. Recomputed, it may have any number of matches, which have a
running number in ``_match``; it may change whenever the other table does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from common.declare import Join, Reading
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
from gold.table.sql_columns import named

IDENTITY = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The columns that identify a row of the table that is read."""

_SIDE, _MATCH = "__side", "_match"
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
    frame = reads.select(F.lit(_READS).alias(_SIDE), *IDENTITY).unionByName(
        joins.select(F.lit(_JOINS).alias(_SIDE), *keys), allowMissingColumns=True
    )
    target = _Target(gold, context.path(gold.reads), other, context.path(gold.table))
    return context.query(gold, frame, target.write)


@dataclass(frozen=True)
class _Target:
    """A recomputed join.

    Attributes:
        gold: The declaration.
        reads: Path of the table that is read.
        joins: Path of the table that is joined.
        path: Path of the table.
    """

    gold: Join
    reads: str
    joins: str
    path: str

    def write(self, rows: SparkRows, batch: MicroBatch) -> None:
        """Write one micro-batch: identities of changed rows, and changed keys of the other table."""
        if delta_table.is_written(self.path, batch, delta_table.MERGE):
            return
        left = at_version(rows.session, self.reads, batch.source_version(_READS))
        right = at_version(rows.session, self.joins, batch.source_version(_JOINS))
        if batch.batch_id == 0 or batch.begins(_READS) or batch.begins(_JOINS):
            # Both tables whole, whatever parts of them the batch has: one side may have been empty until now.
            result = _numbered(joined(left, right, self.gold), self.gold)
            with rows.derive(result).kept(whole=True) as whole:
                step = delta_table.MERGE
                delta_table.append(whole, self.path, batch, step, {}, mode="overwrite", by=IDENTITY)
            return
        # The first state of a side was joined at once.
        new = [side for side in (_READS, _JOINS) if not batch.in_first_state(side)]
        with ExitStack() as stack:
            came = rows.derive(rows.frame.where(F.col(_SIDE).isin(new))).kept()
            self._join_again(stack.enter_context(came), batch, left, right, stack)

    def _join_again(
        self, came: Rows, batch: MicroBatch, left: DataFrame, right: DataFrame, stack: ExitStack
    ) -> None:
        """Join the touched rows again: those that changed, and those that match what changed."""
        values, on = [name for name in came.columns if name.startswith("__v")], named(self.gold.on)

        def keep(frame: DataFrame) -> Rows:
            return stack.enter_context(came.derive(frame).kept())

        changed = keep(came.frame.where(F.col(_SIDE) == _READS).select(*IDENTITY).distinct())
        others = came.frame.where(F.col(_SIDE) == _JOINS).select(*values).distinct()
        other_keys = keep(others.where(_none_null(values)))
        counts = {"changed": changed.count, "values": other_keys.count}
        to_join = delta_merge.frame_with_keys(left, changed, IDENTITY)
        if other_keys.count:
            matching = _matching(left, list(on.values()), other_keys)
            if any(window_times(sql) for sql in on.values()):
                # A row that is in several windows is found once per window.
                matching = matching.dropDuplicates([*IDENTITY])
            matching = matching.join(
                broadcast_if_small(changed.frame, changed.count), list(IDENTITY), "left_anti"
            )
            to_join = to_join.unionByName(matching)
        again = keep(to_join)
        counts["rows"] = again.count
        touched = keep(again.frame.select(*IDENTITY).union(changed.frame).distinct())
        texts = [F.expr(f"({sql})").alias(f"__v{place}") for place, sql in enumerate(on.values())]
        keys = again.frame.select(*texts).distinct()
        wanted = keep(keys.where(_none_null(keys.columns)))
        there = _matching(right, [f"`{name}`" for name in on], wanted)
        result = _numbered(joined(again.frame, there, self.gold), self.gold)
        key = IDENTITY if self.gold.how == "semi" else (*IDENTITY, _MATCH)
        delta_merge.replace_groups(result, self.path, batch, counts, touched=touched, group=IDENTITY, key=key)


def _none_null(names: Sequence[str]) -> Column:
    """Null matches nothing; NaN matches NaN."""
    return reduce(and_, (F.col(name).isNotNull() for name in names))


def _matching(table: DataFrame, texts: Sequence[str], values: Rows) -> DataFrame:
    """A table's rows for which the texts give one of the values; files are pruned where a text is a column.

    Args:
        table: A Delta table, at any version.
        texts: SQL text over its columns, one per column of ``values``.
        values: None of them null, each once.
    """
    names, kinds = values.columns, values.schema
    plain = {text.strip("` "): name for name, text in zip(names, texts, strict=True)}
    types: Mapping[str, object] = {field.name: field.dataType for field in table.schema}
    plain = {text: name for text, name in plain.items() if types.get(text) == kinds[name].dataType}
    ends = values.renamed({name: text for text, name in plain.items()})
    pruned = table.where(reduce(and_, ends.bounds([*plain]), F.lit(True))) if plain else table
    computed = {f"__own{place}": text for place, text in enumerate(texts)}
    same = reduce(and_, (F.col(own) == F.col(name) for own, name in zip(computed, names, strict=True)))
    rows = with_columns(pruned, computed)
    return rows.join(broadcast_if_small(values.frame, values.count), same, "left_semi").drop(*computed)


def _numbered(found: DataFrame, gold: Join) -> DataFrame:
    """The rows with a running number of each one's matches, ordered by all of their columns."""
    if gold.how == "semi":
        return found
    values = [F.col(f"`{name}`") for name in named(gold.columns)]
    return found.withColumn(_MATCH, F.row_number().over(Window.partitionBy(*IDENTITY).orderBy(*values)))


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
    return delta_stream(context, path, Reading(), feed=feed)
