"""Rows of a table, each with what another table says of it: as that is when the row comes, or as it is now.

The row is named by its Kafka coordinates. Joined anew, it may have matches in any number, which have a
running number in ``_match``; it may change whenever the other table does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from common.config.driver_limits import DriverLimits
from common.declare import Join, Reading
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import TableShapeError
from common.rows.materialized import Settled, of_batch, settled
from common.spark.broadcast import small_side
from common.streaming.query import Stream
from gold.join import stream_join
from gold.join.columns import joined, other_path, shape
from gold.source.stream import at_version, changes, keeps_feed, new_rows
from gold.source.stream import stream as delta_stream
from gold.table import create as tables
from gold.table.context import Context
from gold.table.sql_columns import named

IDENTITY = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""What names a row of the table that is read."""

_SIDE, _MATCH = "__side", "_match"
_READS, _JOINS = 0, 1


def stream(context: Context, gold: Join) -> Stream:
    """The query of one join; makes the table where there is none.

    Raises:
        HistoryGoneError: Both are streams, and the first commits of one are gone.
        PipelineError: A text does not fit the columns of the two tables.
        TableMissingError: There is no table to join.
        TableShapeError: The table exists with other columns, or the one to join keeps no feed.
    """
    if gold.mode == "stream":
        return stream_join.stream(context, gold)
    return _lookup(context, gold) if gold.mode == "lookup" else _anew(context, gold)


def _lookup(context: Context, gold: Join) -> Stream:
    """Each micro-batch joined with the other table as it is when that begins, and appended."""
    frame, other = new_rows(context, gold), other_path(context, gold)
    path, small = context.path(gold.table), context.limits
    tables.ensure(context, gold.table, shape(context, gold, other).schema, gold.storage)

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        version = LogReader(other).latest_version()
        found = joined(rows, at_version(rows.sparkSession, other, version), gold)
        mode = "overwrite" if batch.batch_id == 0 else "append"
        with settled(found, of_batch(rows, small)) as rows_found:
            delta_table.append(
                rows_found, path, batch, "lookup", {"joined_version": version}, mode=mode, small=small
            )

    return _stream(context, gold, frame, write)


def _anew(context: Context, gold: Join) -> Stream:
    """Both tables watched; the rows that a change of either concerns are joined anew."""
    other, path, small = other_path(context, gold), context.path(gold.table), context.limits
    reads, joins = changes(context, gold), _changes_of_other(context, gold, other)
    tables.ensure(context, gold.table, _numbered(shape(context, gold, other), gold).schema, gold.storage)
    keys = [F.col(f"`{name}`").alias(f"__v{place}") for place, name in enumerate(named(gold.on))]
    frame = reads.select(F.lit(_READS).alias(_SIDE), *IDENTITY).unionByName(
        joins.select(F.lit(_JOINS).alias(_SIDE), *keys), allowMissingColumns=True
    )

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        if delta_table.is_written(path, batch, delta_table.MERGE):
            return
        session = rows.sparkSession
        left = at_version(session, context.path(gold.reads), batch.source_version(_READS))
        right = at_version(session, other, batch.source_version(_JOINS))
        if batch.batch_id == 0 or batch.begins(_READS) or batch.begins(_JOINS):
            # All of both, whatever parts of them the batch has: one side may have been empty until now.
            with settled(_numbered(joined(left, right, gold), gold), small, once=True) as found:
                delta_table.append(
                    found, path, batch, delta_table.MERGE, {}, mode="overwrite", by=IDENTITY, small=small
                )
            return
        # What a side had at first was joined at once.
        new = [side for side in (_READS, _JOINS) if not batch.in_first_state(side)]
        few = of_batch(rows, small)
        rows = rows.where(F.col(_SIDE).isin(new))
        _join_again(rows, batch, gold, left=left, right=right, path=path, small=few)

    return _stream(context, gold, frame, write)


def _join_again(  # noqa: PLR0913
    rows: DataFrame,
    batch: MicroBatch,
    gold: Join,
    *,
    left: DataFrame,
    right: DataFrame,
    path: str,
    small: DriverLimits,
) -> None:
    """Join the rows anew that a micro-batch concerns: those that changed, and those that meet what did."""
    values, on = [name for name in rows.columns if name.startswith("__v")], named(gold.on)
    with ExitStack() as held:

        def settle(frame: DataFrame) -> Settled:
            return held.enter_context(settled(frame, small))

        whole = settle(rows)
        came, small = whole.frame, whole.then(small)
        changed = settle(came.where(F.col(_SIDE) == _READS).select(*IDENTITY).distinct())
        others = came.where(F.col(_SIDE) == _JOINS).select(*values).distinct()
        found = settle(others.where(_none_null(values)))
        counts = {"changed": changed.rows, "values": found.rows}
        concerned = delta_merge.of_groups(left, changed, IDENTITY)
        if found.rows:
            met = _meeting(left, list(on.values()), found)
            met = met.join(small_side(changed.frame, changed.rows), list(IDENTITY), "left_anti")
            concerned = concerned.unionByName(met)
        wanted = settle(concerned)
        counts["rows"] = wanted.rows
        touched = settle(wanted.frame.select(*IDENTITY).union(changed.frame).distinct())
        texts = [F.expr(f"({sql})").alias(f"__v{place}") for place, sql in enumerate(on.values())]
        keys = wanted.frame.select(*texts).distinct()
        asked = settle(keys.where(_none_null(keys.columns)))
        there = _meeting(right, [f"`{name}`" for name in on], asked)
        result = _numbered(joined(wanted.frame, there, gold), gold)
        key = IDENTITY if gold.how == "semi" else (*IDENTITY, _MATCH)
        delta_merge.replace_groups(
            result, path, batch, counts, touched=touched, group=IDENTITY, key=key, small=small
        )


def _none_null(names: Sequence[str]) -> Column:
    """Null meets nothing; NaN meets NaN."""
    return reduce(and_, (F.col(name).isNotNull() for name in names))


def _meeting(table: DataFrame, texts: Sequence[str], values: Settled) -> DataFrame:
    """A table's rows for which the texts give one of the values; files are pruned where a text is a column.

    Args:
        table: A Delta table, at any version.
        texts: SQL text over its columns, one per column of ``values``.
        values: None of them null, each once.
    """
    names, kinds = values.frame.columns, values.frame.schema
    plain = {text.strip("` "): name for name, text in zip(names, texts, strict=True)}
    types: Mapping[str, object] = {field.name: field.dataType for field in table.schema}
    plain = {text: name for text, name in plain.items() if types.get(text) == kinds[name].dataType}
    ends = values.renamed({name: text for text, name in plain.items()})
    near = table.where(reduce(and_, delta_merge.bounds(ends, [*plain]), F.lit(True)))
    same = reduce(and_, (F.expr(f"({text}) = {name}") for name, text in zip(names, texts, strict=True)))
    return near.join(small_side(values.frame, values.rows), same, "left_semi")


def _numbered(found: DataFrame, gold: Join) -> DataFrame:
    """With a running number of each row's matches, by all that they say."""
    if gold.how == "semi":
        return found
    said = [F.col(f"`{name}`") for name in named(gold.columns)]
    return found.withColumn(_MATCH, F.row_number().over(Window.partitionBy(*IDENTITY).orderBy(*said)))


def _changes_of_other(context: Context, gold: Join, path: str) -> DataFrame:
    """Every change of the table that is joined; a silver table that only grows may do without a feed."""
    feed = keeps_feed(context, path)
    grows = gold.joins.startswith("silver.") and gold.joins not in context.replaced
    if not feed and not (gold.joins_a_table and grows):
        shown = "Storage(change_feed=True)" if gold.joins_a_table else "delta.enableChangeDataFeed = true"
        raise TableShapeError(
            f"{gold.table} is joined anew when {gold.joins} changes, and the table at {path} keeps no change "
            f'data feed. Give it one, with {shown}, or take mode="lookup".'
        )
    return delta_stream(context, path, Reading(), feed=feed)


def _stream(context: Context, gold: Join, frame: DataFrame, write: object) -> Stream:
    return Stream(
        pipeline=context.pipeline.name,
        name=gold.table,
        frame=frame,
        write=write,  # type: ignore[arg-type]
        checkpoint=context.checkpoint(gold),
        trigger=context.settings.gold.trigger,
    )
