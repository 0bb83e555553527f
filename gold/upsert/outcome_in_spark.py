"""What a micro-batch makes of each key: the newest of what came, what left, and what the tables have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.delta.delta_rs import DELETED, INSERTED, UPDATED
from common.spark.broadcast import broadcast_if_small
from gold.table.latest_per_key import COORDINATES

GONE, ENDS, STRAY = "__gone", "__ends", "__stray"
"""What a row says beside its values: it left the source, its key has no row while it is the newest, and
nobody knows what it does."""

IN_TABLE, IN_DELETED = "__in_table", "__in_deleted"
"""What is to be done with a key's row in the table, and in the one of deleted keys."""

DOUBTFUL = "__doubtful"
"""Whether a reduced row's key may have lost its row: see ``_is_doubtful``."""

NEW, _LEFT = "__new", "__left"
_ROW, _END = "__row", "__end"
_AGAIN = "__again"
_WINS, _ENDED, _IS_ROW, _ALIVE, _DEAD = "__wins", "__ended", "__is_row", "__alive", "__dead"


def reduced(rows: DataFrame, *, key: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Each key's newest row that came, and the order of the newest that left.

    Grain: one row per key: the key, ``__new`` (a struct of the row), ``__left``, ``__doubtful``, and where
    the rows have it ``__stray``: the coordinates of one that nobody knows what to do with.
    """
    came = ~F.col(GONE)
    place = F.struct(*(F.col(f"`{name}`").alias(name) for name in order))
    # Where no row came, what is in the struct is null: Spark's schema has to say that it may be.
    ends = F.when(F.col(ENDS), F.lit(True)).alias(ENDS)
    marks = {GONE, ENDS, STRAY}
    kept = F.struct(*(F.col(f"`{name}`") for name in rows.columns if name not in marks), ends)
    found = [
        F.max_by(kept, F.when(came, place)).alias(NEW),
        F.max(F.when(~came, place)).alias(_LEFT),
    ]
    if STRAY in rows.columns:
        found.append(F.min(F.when(came & F.col(STRAY), F.struct(*COORDINATES[1:]))).alias(STRAY))
    reduced_rows = rows.groupBy(*(F.col(f"`{name}`") for name in key)).agg(*found)
    return reduced_rows.withColumn(DOUBTFUL, _is_doubtful(order))


def _is_doubtful(order: Sequence[str]) -> Column:
    """Whether a row left that is not older than the newest that came: the table may have had that one.

    Where the newest row that came is newer than all that left, it has not left itself, and the table's row
    is either there still or older.
    """
    newer = F.coalesce(_order_of(NEW, order) > F.col(_LEFT), F.lit(False))
    return F.col(_LEFT).isNotNull() & ~newer


def meeting(  # noqa: PLR0913
    changes: DataFrame,
    table: DataFrame | None,
    deleted: DataFrame | None,
    *,
    key: Sequence[str],
    order: Sequence[str],
    keys: int,
) -> DataFrame:
    """Reduced rows, each with the order of the row that the table, or the one of deleted keys, has.

    Args:
        changes: As ``reduced`` gives it.
        table: The table's rows that may have the keys; ``None`` where it has none.
        deleted: The same of deleted keys.
        key: Columns that name a row.
        order: Columns that order the versions of a row.
        keys: How many there are at most; few are broadcast.
    """
    met = changes
    for name, have in ((_ROW, table), (_END, deleted)):
        if have is None:
            kind = F.struct(*(_order_fields(NEW, order)))
            met = met.withColumn(name, F.when(F.lit(False), kind))
            continue
        asked = broadcast_if_small(changes.select(*(F.col(f"`{each}`") for each in key)).alias("s"), keys)
        same = reduce(and_, (F.col(f"h.`{each}`").eqNullSafe(F.col(f"s.`{each}`")) for each in key))
        found = (
            have.alias("h")
            .join(asked, same, "left_semi")
            .select(
                *(F.col(f"h.`{each}`").alias(f"{name}{place}") for place, each in enumerate(key)),
                F.struct(*(F.col(f"h.`{each}`") for each in order)).alias(name),
            )
        )
        meet = (F.col(f"`{each}`").eqNullSafe(F.col(f"{name}{place}")) for place, each in enumerate(key))
        met = met.join(broadcast_if_small(found, keys), reduce(and_, meet), "left")
        met = met.drop(*(f"{name}{place}" for place in range(len(key))))
    return met


def is_recomputed(order: Sequence[str]) -> Column:
    """Whether only the source can say which row a key has now: the tables' row may have left."""
    stays = F.greatest(_ROW, _END) > F.col(_LEFT)
    return F.col(DOUBTFUL) & ~F.coalesce(stays, F.lit(False))


def recomputed(met: DataFrame, newest: DataFrame, *, key: Sequence[str], order: Sequence[str]) -> DataFrame:
    """What ``meeting`` gives, with the source's newest row for those keys that need it.

    Args:
        met: As ``meeting`` gives it.
        newest: The newest row of each key that ``is_recomputed``, with ``__ends``.
        key: Columns that name a row.
        order: Columns that order the versions of a row.
    """
    row = F.struct(*(F.col(f"`{name}`") for name in newest.columns)).alias(f"{_AGAIN}_row")
    found = newest.select(*(F.col(f"`{name}`").alias(f"{_AGAIN}{at}") for at, name in enumerate(key)), row)
    meet = (F.col(f"`{name}`").eqNullSafe(F.col(f"{_AGAIN}{at}")) for at, name in enumerate(key))
    again = is_recomputed(order)
    return (
        met.join(found, reduce(and_, meet), "left")
        .withColumn(_AGAIN, again)
        .withColumn(NEW, F.when(F.col(_AGAIN), F.col(f"{_AGAIN}_row")).otherwise(F.col(NEW)))
    )


def outcome(met: DataFrame, columns: Sequence[str], *, key: Sequence[str], order: Sequence[str]) -> DataFrame:
    """What becomes of each key: its row's values, ``__in_table`` and ``__in_deleted``.

    The newest of what came and what the tables have counts, wherever it is; so a micro-batch that was cut
    off between the two tables ends the same when it is done again.

    Args:
        met: As ``meeting`` or ``recomputed`` gives it.
        columns: The table's.
        key: Columns that name a row.
        order: Columns that order the versions of a row.
    """
    new, row, end = F.col(NEW), F.col(_ROW), F.col(_END)
    have = F.greatest(row, end)
    newer = new.isNotNull() & (have.isNull() | (_order_of(NEW, order) > have))
    # Step by step: each is asked for several times, and would be worked out and compiled as often.
    told = met.withColumns(
        {
            _WINS: F.col(_AGAIN) | newer if _AGAIN in met.columns else newer,
            _ENDED: F.coalesce(F.col(f"{NEW}.{ENDS}"), F.lit(False)),
            _IS_ROW: row.isNotNull() & (end.isNull() | (row > end)),
        }
    )
    wins, ended, is_row = F.col(_WINS), F.col(_ENDED), F.col(_IS_ROW)
    told = told.withColumns(
        {
            _ALIVE: F.when(wins, new.isNotNull() & ~ended).otherwise(is_row),
            _DEAD: F.when(wins, new.isNotNull() & ended).otherwise(end.isNotNull() & ~is_row),
        }
    )
    return told.select(
        *(F.col(f"`{name}`") if name in key else F.col(f"{NEW}.`{name}`").alias(name) for name in columns),
        _done(F.col(_ALIVE), wins, row).alias(IN_TABLE),
        _done(F.col(_DEAD), wins, end).alias(IN_DELETED),
    )


def _done(is_there: Column, is_new: Column, had: Column) -> Column:
    """What is to be done so that a row is there, or is not."""
    return (
        F.when(is_there & is_new & had.isNull(), INSERTED)
        .when(is_there & is_new, UPDATED)
        .when(~is_there & had.isNotNull(), DELETED)
    )


def _order_of(struct: str, order: Sequence[str]) -> Column:
    return F.struct(*_order_fields(struct, order))


def _order_fields(struct: str, order: Sequence[str]) -> list[Column]:
    return [F.col(f"{struct}.`{name}`").alias(name) for name in order]
