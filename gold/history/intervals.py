"""The versions of a key in time, and the intervals in which its values did not change. Pure.

A run is a sequence of versions of a key, adjacent in time, that are equal in ``columns``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType, TimestampType

from common.declare import History
from common.declare.declared import source_of
from common.declare.field_types import named
from common.declare.row_order import COORDINATES
from common.delta.table import as_stored
from gold.source.stream import CHANGE, REMOVED
from gold.table.sql_columns import (
    TRUNCATES,
    columns,
    each,
    is_row_of_key,
    meeting,
    misfit,
    with_truncations,
    without_row,
)
from gold.table.unchanged import Unchanged

ENDS, REMOVED_ROW, TO, UNSURE, LATE = "__ends", "__removed", "__to", "__unsure", "__late"
_KNOWN, _LIFE, _SEQUENCE, _AFTER_END = "__known", "__life", "__sequence", "__after_end"

PLACED = "valid_from IS NOT NULL"
"""A version without a time has no place in a history."""


def versions(silver: DataFrame, gold: History) -> DataFrame:
    """Each row of silver that counts, or of its feed, as a run of one version; and truncations, if declared.

    Raises:
        PipelineError: An expression does not fit silver's columns.
    """
    kept = _values(gold)
    gone = F.col(CHANGE).isin(*REMOVED) if CHANGE in silver.columns else F.lit(False)
    at, has_key = F.col(gold.valid_by), ~reduce(and_, (F.col(f"`{name}`").isNull() for name in gold.key))
    try:
        ends = F.coalesce(F.expr(f"({gold.delete_when or 'false'})"), F.lit(False))
        rows = with_truncations(silver, gold.where, gold.truncates, lambda empties: ~empties | has_key)
        found = rows.select(
            *gold.key,
            *columns(kept),
            at.alias("valid_from"),
            at.alias("last_at"),
            F.lit(1).cast("bigint").alias("versions"),
            *COORDINATES,
            *([F.struct(*gold.sequence_by).alias(_SEQUENCE)] if gold.sequence_by else ()),
            ends.alias(ENDS),
            gone.alias(REMOVED_ROW),
            *([TRUNCATES] if gold.truncates else ()),
        )
        if gold.truncates:
            found = without_row(found, gold.key, COORDINATES)
        return as_stored(found, gold.storage.partition_by)
    except PySparkException as error:
        trials = each(kept, "column", silver.select)
        trials.append(("valid_by", lambda: silver.select(at)))
        trials.append(("sequence_by", lambda: silver.select(*(gold.sequence_by or ()))))
        for what, sql in (
            ("where", gold.where),
            ("delete_when", gold.delete_when),
            ("truncates", gold.truncates),
        ):
            trials.append((what, lambda sql=sql: meeting(silver, sql)))  # type: ignore[misc]
        raise misfit(error, trials, gold.table, source_of(gold)) from error


def _values(gold: History) -> dict[str, str]:
    """The columns that a version has values of, each with its SQL text."""
    return {**named(gold.columns), **named(gold.untracked or ())}


def _place(gold: History) -> Column:
    """The order of versions of the same key and time: a removed one is the last."""
    return F.struct(REMOVED_ROW, *([_SEQUENCE] if gold.sequence_by else ()), *COORDINATES)


def intervals(found: DataFrame, gold: History) -> DataFrame:
    """The table's rows of some keys, from all their versions and runs. One shuffle.

    Args:
        found: Runs and versions, none inside another; on equal times the last in order counts.
    """
    key, kept = [F.col(f"`{name}`") for name in gold.key], list(named(gold.columns))
    untracked = list(named(gold.untracked or ()))
    newest = [F.struct(*(F.col(f"`{name}`") for name in untracked))] if untracked else []
    in_time = Window.partitionBy(*key).orderBy("valid_from")
    state = F.when(~F.col(ENDS), F.struct(*(F.col(f"`{name}`") for name in kept)))
    begins = ~state.eqNullSafe(F.lag(state).over(in_time))
    return (
        _last_of_ties(_whole(found, gold), gold)
        .withColumn("__run", F.sum(begins.cast("int")).over(in_time))
        .groupBy(*key, "__run")
        .agg(
            F.min_by(F.struct(*(F.col(f"`{name}`") for name in (*kept, *COORDINATES))), "valid_from").alias(
                "__first"
            ),
            *(F.max_by(one, "last_at").alias("__newest") for one in newest),
            F.min("valid_from").alias("valid_from"),
            F.max("last_at").alias("last_at"),
            F.sum("versions").alias("versions"),
            F.bool_or(ENDS).alias(ENDS),
        )
        .withColumn("valid_to", F.lead("valid_from").over(in_time))
        .where(~F.col(ENDS))
        .select(
            *key,
            *(F.col(f"__first.`{name}`") for name in kept),
            *(F.col(f"__newest.`{name}`") for name in untracked),
            *_surrogate_key(gold, found.schema),
            "valid_from",
            "valid_to",
            F.col("valid_to").isNull().alias("is_current"),
            "versions",
            "last_at",
            *(F.col(f"__first.`{name}`") for name in COORDINATES),
        )
    )


def _surrogate_key(gold: History, schema: StructType) -> list[Column]:
    """The SHA-256 of a JSON array with the texts of the key and ``valid_from``.

    A time is its microseconds, bytes are their hexadecimal digits.
    """
    if gold.surrogate_key is None:
        return []
    parts = []
    for name in (*gold.key, "valid_from"):
        value = F.col(f"`{name}`")
        match schema[name].dataType:
            case TimestampType():
                value = F.unix_micros(value)
            case BinaryType():
                value = F.hex(value)
        parts.append(value.cast("string"))
    return [F.sha2(F.to_json(F.array(*parts)), 256).alias(gold.surrogate_key)]


def _whole(found: DataFrame, gold: History, within: Sequence[str] = ()) -> DataFrame:
    """Versions and runs with the values that they left unchanged: those of the last one before that has them.

    A delete ends what is known. A value that no version before has is null.

    Args:
        found: Runs and versions of some keys.
        within: Columns besides the key whose values are not left: ``valid_from`` for versions of the same
            time, where what they leave unchanged stays the placeholder.
    """
    unchanged = _unchanged(found, gold)
    if unchanged is None:
        return found
    group = [F.col(f"`{name}`") for name in (*gold.key, *within)]
    place = (F.col("valid_from"), _place(gold))
    in_order = Window.partitionBy(*group).orderBy(*place)
    # Windows of one partitioning and order are one sort.
    found = found.withColumn(_LIFE, F.sum(F.col(ENDS).cast("int")).over(in_order))
    so_far = Window.partitionBy(*group, _LIFE).orderBy(*place).rowsBetween(Window.unboundedPreceding, 0)
    values = {}
    for name in unchanged.columns:
        value = F.col(f"`{name}`")
        is_left = unchanged.is_in(name, value)
        sent = F.when(~is_left & ~F.col(ENDS) & ~F.col(REMOVED_ROW), F.struct(value.alias("sent")))
        last = F.last(sent, ignorenulls=True).over(so_far)
        known = last["sent"] if not within else F.when(last.isNull(), value).otherwise(last["sent"])
        values[name] = F.when(is_left, known).otherwise(value)
    return found.withColumns(values).drop(_LIFE)


def _unchanged(found: DataFrame, gold: History) -> Unchanged | None:
    """The columns whose value a version may leave as it was."""
    kept = (F.col(f"`{name}`") for name in _values(gold))
    return Unchanged.of(gold.unchanged, found.select(*kept).schema, gold.key, nulls=gold.ignore_nulls)


def _last_of_ties(found: DataFrame, gold: History) -> DataFrame:
    """On equal times keep a removed version, else the last in order."""
    of_key = Window.partitionBy(*(F.col(f"`{name}`") for name in gold.key))
    in_order = of_key.orderBy("valid_from", _place(gold))
    next_one = F.lead("valid_from").over(in_order)
    return (
        found.withColumn("__tie", next_one.eqNullSafe(F.col("valid_from"))).where("NOT __tie").drop("__tie")
    )


def with_runs(new: DataFrame, runs: DataFrame, gold: History) -> DataFrame:
    """New versions and the table's runs of their keys, and whether a key has to be recomputed from silver."""
    known = runs.withColumn(ENDS, F.lit(False)).withColumn(REMOVED_ROW, F.lit(False))
    known = known.withColumn(_KNOWN, F.lit(True)).withColumnRenamed("valid_to", TO).drop("is_current")
    late, leaves_values = _whole(new, gold, ["valid_from"]), _unchanged(new, gold) is not None
    if leaves_values:
        at_once = Window.partitionBy(*(F.col(f"`{name}`") for name in (*gold.key, "valid_from")))
        late = late.withColumn(_AFTER_END, F.bool_or(ENDS).over(at_once) & ~F.col(ENDS))
    late = _last_of_ties(late, gold).withColumn(_KNOWN, F.lit(False))
    found = known.unionByName(late, allowMissingColumns=True)
    of_key = Window.partitionBy(*(F.col(f"`{name}`") for name in gold.key))
    before = of_key.orderBy("valid_from").rowsBetween(Window.unboundedPreceding, -1)
    is_within = F.coalesce(F.max("last_at").over(before) >= F.col("valid_from"), F.lit(False))
    unsure = is_within | F.col(REMOVED_ROW)
    if LATE in new.columns:
        unsure |= F.coalesce(F.col(LATE), F.lit(False))
    if leaves_values:
        # What the runs after it left unchanged may be this version's.
        last_run = F.max(F.when(F.col(_KNOWN), F.col("valid_from"))).over(of_key)
        unsure |= ~F.col(_KNOWN) & F.coalesce(F.col("valid_from") <= last_run, F.lit(False))
        # Of a version at the time of a delete, nothing before it is known.
        unsure |= F.coalesce(F.col(_AFTER_END), F.lit(False))
    if gold.delete_when is not None or gold.truncates is not None or gold.reading.has_start:
        # Only after a run that still holds is nothing known; of a key that the table lacks, anything may be.
        open_at = F.max(F.when(F.col(_KNOWN) & F.col(TO).isNull(), F.col("last_at"))).over(of_key)
        unsure |= ~F.col(_KNOWN) & (open_at.isNull() | (F.col("valid_from") <= open_at))
    return found.withColumn(UNSURE, unsure).withColumn(UNSURE, F.bool_or(UNSURE).over(of_key))


def with_ends(found: DataFrame, gold: History) -> DataFrame:
    """Versions and runs, with the deletes that ended a run, unless a run begins at the time of the delete."""
    if gold.delete_when is None and gold.truncates is None:
        return found
    return found.unionByName(end_at(found.where(F.col(TO).isNotNull()), F.col(TO)))


def truncated(found: DataFrame, every: DataFrame, gold: History) -> DataFrame:
    """Versions of keys, each with the end of its key by the first truncation after it, before the next one.

    Args:
        found: Versions; truncations among them are left out.
        every: All versions with all truncations.
    """
    if gold.truncates is None:
        return found
    names = ["valid_from", *([_SEQUENCE] if gold.sequence_by else ()), *COORDINATES]
    place, is_row = F.struct(*names), is_row_of_key()
    places = every.where(~is_row).agg(F.array_sort(F.collect_set(place)).alias("__ends_at"))
    in_order = Window.partitionBy(*(F.col(f"`{name}`") for name in gold.key)).orderBy(place)
    rows = found.where(is_row).drop(TRUNCATES)
    steps = rows.crossJoin(F.broadcast(places)).withColumns(
        {"__own": place, "__next": F.lead(place).over(in_order)}
    )
    after = F.expr("get(filter(__ends_at, one -> one > __own), 0)")
    steps = steps.withColumn("__end", after).where("__end < __next OR (__end IS NOT NULL AND __next IS NULL)")
    ends = end_at(steps, F.col("__end.valid_from")).withColumns({n: F.col(f"__end.`{n}`") for n in names})
    return rows.unionByName(ends.select(*(F.col(f"`{name}`") for name in rows.columns)))


def end_at(found: DataFrame, at: Column) -> DataFrame:
    """Versions and runs made ends of their keys' intervals, at a time that each of them has."""
    return found.withColumns(
        {
            "valid_from": at,
            "last_at": at,
            "versions": F.lit(0).cast("bigint"),
            ENDS: F.lit(True),
            **{name: F.lit(None).cast(found.schema[name].dataType) for name in COORDINATES},
        }
    )
