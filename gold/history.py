"""Every state of a key, and from when to when it held (SCD2).

A run is versions of a key, next to each other in time, that are equal in ``columns``. The table's runs
and the new versions of a micro-batch lie side by side in time, so both are put together as if each were a
version. Only where a new version lies within a run, which does not say what it is made of, or where
something may be missing from the table, is the key worked out anew from silver.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from common.config.driver_limits import DriverLimits
from common.declare import History
from common.declare.declared import source_of
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.rows.materialized import Settled, of_batch, settled
from common.streaming.query import Stream
from gold.source.stream import CHANGE, GONE, at_version, changes, changes_of, read_beside, reads_feed
from gold.table import create as tables
from gold.table.context import Context
from gold.table.latest_per_key import COORDINATES
from gold.table.sql_columns import columns, each, misfit, named

_ENDS, _GONE, _KNOWN, _TO, _UNSURE = "__ends", "__gone", "__known", "__to", "__unsure"

_PLACED = "valid_from IS NOT NULL"
"""A version without a time has no place."""


def stream(context: Context, gold: History) -> Stream:
    """The query of one history; makes the table where there is none.

    Raises:
        PipelineError: An expression does not fit silver's columns.
        TableShapeError: The table exists with other columns.
    """
    frame, feed = versions(changes(context, gold), gold), reads_feed(context, gold)
    path, small = context.path(gold.table), context.limits
    tables.ensure(context, gold.table, _history(frame, gold).schema, gold.storage)

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        if delta_table.is_written(path, batch, delta_table.MERGE):
            return
        silver = at_version(rows.sparkSession, context.path(gold.reads), batch.source_version())
        if batch.batch_id == 0 and not gold.reading.has_start:
            # All of silver, whatever part of it the batch has: later ones may lie within what is done here.
            counts = {"unplaced": silver.where(F.col(gold.valid_by).isNull()).count()}
            with settled(_history(versions(silver, gold).where(_PLACED), gold), small, once=True) as whole:
                by = gold.storage.cluster_by or gold.key
                delta_table.append(
                    whole, path, batch, delta_table.MERGE, counts, mode="overwrite", by=by, small=small
                )
        elif batch.in_first_state() or (feed and batch.in_commit_before()):
            delta_table.append_nothing(rows.sparkSession, path, batch, delta_table.MERGE, {"keys": 0}, small)
        else:
            few = of_batch(rows, small, beside=read_beside(context.path(gold.reads), batch))
            if feed and batch.in_commit() and (version := batch.source_version()) is not None:
                # A commit that comes in parts is taken whole with the first of them.
                commit = changes_of(rows.sparkSession, context.path(gold.reads), version)
                rows = rows.unionByName(versions(commit, gold)).distinct()
            _merge(rows, silver, path, batch, gold, few)

    return Stream(
        pipeline=context.pipeline.name,
        name=gold.table,
        frame=frame,
        write=write,
        checkpoint=context.checkpoint(gold),
        trigger=context.settings.gold.trigger,
    )


def versions(silver: DataFrame, gold: History) -> DataFrame:
    """Each row of silver, or of its feed, as a run of one version.

    Raises:
        PipelineError: An expression does not fit silver's columns.
    """
    kept = named(gold.columns)
    gone = F.col(CHANGE).isin(*GONE) if CHANGE in silver.columns else F.lit(False)
    at = F.col(gold.valid_by)
    try:
        ends = F.coalesce(F.expr(f"({gold.delete_when or 'false'})"), F.lit(False))
        found = silver.select(
            *gold.key,
            *columns(kept),
            at.alias("valid_from"),
            at.alias("last_at"),
            F.lit(1).cast("bigint").alias("versions"),
            *COORDINATES,
            ends.alias(_ENDS),
            gone.alias(_GONE),
        )
        return tables.as_stored(found, gold.storage)
    except PySparkException as error:
        trials = each(kept, "column", silver.select)
        trials.append(("valid_by", lambda: silver.select(at)))
        if gold.delete_when is not None:
            trials.append(("delete_when", lambda: silver.where(f"({gold.delete_when})")))
        raise misfit(error, trials, gold.table, source_of(gold)) from error


def _history(found: DataFrame, gold: History) -> DataFrame:
    """The table's rows of some keys, from all that is known of them. One shuffle.

    Args:
        found: Runs and versions, none within another, but versions of one time: of them the highest counts.
        gold: The table.
    """
    key, kept = [F.col(f"`{name}`") for name in gold.key], list(named(gold.columns))
    in_time = Window.partitionBy(*key).orderBy("valid_from")
    state = F.when(~F.col(_ENDS), F.struct(*(F.col(f"`{name}`") for name in kept)))
    begins = ~state.eqNullSafe(F.lag(state).over(in_time))
    return (
        _last_of_ties(found, gold.key)
        .withColumn("__run", F.sum(begins.cast("int")).over(in_time))
        .groupBy(*key, "__run")
        .agg(
            F.min_by(F.struct(*(F.col(f"`{name}`") for name in (*kept, *COORDINATES))), "valid_from").alias(
                "__first"
            ),
            F.min("valid_from").alias("valid_from"),
            F.max("last_at").alias("last_at"),
            F.sum("versions").alias("versions"),
            F.bool_or(_ENDS).alias(_ENDS),
        )
        .withColumn("valid_to", F.lead("valid_from").over(in_time))
        .where(~F.col(_ENDS))
        .select(
            *key,
            *(F.col(f"__first.`{name}`") for name in kept),
            "valid_from",
            "valid_to",
            F.col("valid_to").isNull().alias("is_current"),
            "versions",
            "last_at",
            *(F.col(f"__first.`{name}`") for name in COORDINATES),
        )
    )


def _last_of_ties(found: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of what begins at one time, that with the highest coordinates; before all what is gone."""
    in_order = Window.partitionBy(*(F.col(f"`{name}`") for name in key)).orderBy(
        "valid_from", F.struct(_GONE, *COORDINATES)
    )
    next_one = F.lead("valid_from").over(in_order)
    return (
        found.withColumn("__tie", next_one.eqNullSafe(F.col("valid_from"))).where("NOT __tie").drop("__tie")
    )


def _merge(  # noqa: PLR0913, PLR0917
    rows: DataFrame, silver: DataFrame, path: str, batch: MicroBatch, gold: History, small: DriverLimits
) -> None:
    """Put a micro-batch's versions where they belong."""
    with ExitStack() as held:

        def settle(frame: DataFrame) -> Settled:
            return held.enter_context(settled(frame, small))

        came = settle(rows)
        small = came.then(small)
        new = came.frame.where(_PLACED)
        touched = settle(new.select(*gold.key).distinct())
        counts = {"keys": touched.rows, "unplaced": came.nulls("valid_from")}
        have = (
            delta_merge.rows_of(path, touched, gold.key, small)
            if batch.batch_id > 0
            else at_version(came.frame.sparkSession, path, None)
        )
        found = settle(_found(new, have, gold))
        wanted = _history(_with_ends(found.frame.where(~F.col(_UNSURE)), gold), gold)
        counts["recomputed"] = 0
        if delta_merge.counted(found, _UNSURE).get(True):
            keys = settle(found.frame.where(_UNSURE).select(*gold.key).distinct())
            counts["recomputed"] = keys.rows
            anew = versions(delta_merge.of_groups(silver, keys, gold.key), gold).where(_PLACED)
            wanted = wanted.unionByName(_history(anew, gold))
        if batch.batch_id == 0:
            delta_table.append(
                settle(wanted), path, batch, delta_table.MERGE, counts, mode="overwrite", small=small
            )
            return
        delta_merge.replace_groups(
            wanted,
            path,
            batch,
            counts,
            touched=touched,
            group=gold.key,
            key=(*gold.key, "valid_from"),
            small=small,
        )


def _found(new: DataFrame, runs: DataFrame, gold: History) -> DataFrame:
    """New versions and the table's runs of their keys, and for which keys they do not say enough."""
    known = runs.withColumn(_ENDS, F.lit(False)).withColumn(_GONE, F.lit(False))
    known = known.withColumn(_KNOWN, F.lit(True)).withColumnRenamed("valid_to", _TO).drop("is_current")
    late = _last_of_ties(new, gold.key).withColumn(_KNOWN, F.lit(False))
    found = known.unionByName(late, allowMissingColumns=True)
    of_key = Window.partitionBy(*(F.col(f"`{name}`") for name in gold.key))
    before = of_key.orderBy("valid_from").rowsBetween(Window.unboundedPreceding, -1)
    is_within = F.coalesce(F.max("last_at").over(before) >= F.col("valid_from"), F.lit(False))
    unsure = is_within | F.col(_GONE)
    if gold.delete_when is not None or gold.reading.has_start:
        # Only a run that still holds tells that nothing is known after it: not of a key that the table lacks.
        open_at = F.max(F.when(F.col(_KNOWN) & F.col(_TO).isNull(), F.col("last_at"))).over(of_key)
        unsure |= ~F.col(_KNOWN) & (open_at.isNull() | (F.col("valid_from") <= open_at))
    return found.withColumn(_UNSURE, unsure).withColumn(_UNSURE, F.bool_or(_UNSURE).over(of_key))


def _with_ends(found: DataFrame, gold: History) -> DataFrame:
    """With what ended a run of the table; where another run begins just then, that one counts."""
    if gold.delete_when is None:
        return found
    at = F.col(_TO)
    ends = found.where(at.isNotNull())
    ends = ends.withColumns(
        {
            "valid_from": at,
            "last_at": at,
            "versions": F.lit(0).cast("bigint"),
            _ENDS: F.lit(True),
            **{name: F.lit(None).cast(found.schema[name].dataType) for name in COORDINATES},
        }
    )
    return found.unionByName(ends)
