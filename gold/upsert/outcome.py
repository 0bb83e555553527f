"""What a micro-batch makes of each key, from its newest added row, its removed rows and the tables' rows.

``decide`` is one text for rows in the driver and for Spark's. Removed rows are Spark's alone: ``reduced`` and
``recomputed`` look after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare.row_order import COORDINATES
from common.delta.changes import comparable
from common.delta.delta_rs import DELETED, INSERTED, UPDATED
from common.rows.expressions import (
    Expression,
    column,
    first_of,
    greater,
    greatest,
    if_else,
    is_null,
    is_true,
)
from common.rows.rows import ORDER, Rows
from gold.table.unchanged import Unchanged
from gold.upsert import sent_values
from gold.upsert.sent_values import FIRST, IS_OPEN, IS_PARTIAL

IS_REMOVED, IS_DELETE = "__is_removed", "__is_delete"
"""Markers: the row was removed from the source; the row is a delete."""

IS_UNKNOWN_OPERATION = "__is_unknown_operation"
"""Marker: the row's operation is unknown."""

IN_TABLE, IN_DELETED = "__in_table", "__in_deleted"
"""The action on a key's row in the table, and in the table of deleted keys; null: none."""

MAY_BE_REMOVED = "__may_be_removed"
"""Whether the tables' row of a reduced row's key may be one that was removed from the source."""

FIRST_UNKNOWN = "__first_unknown"
"""The coordinates of a key's first row whose operation is unknown."""

ROW, END = "__row", "__end"
"""The place in the order that the table's row of a key has, and that of the deleted key."""

_NEW, _REMOVED, _BEFORE = "__new", "__removed", "__before"
_AGAIN = "__again"
_WINS, _ENDED, _IS_ROW, _ALIVE, _DEAD = "__wins", "__ended", "__is_row", "__alive", "__dead"


def reduced(
    rows: DataFrame, *, key: Sequence[str], order: Sequence[str], unchanged: Unchanged | None = None
) -> DataFrame:
    """Each key's newest added row, beside the place in the order of its newest removed row.

    Grain: one row per key: the row's columns with ``IS_DELETE``; ``IS_REMOVED``: no row was added, so all
    columns but the key are null; ``MAY_BE_REMOVED``; ``FIRST_UNKNOWN``, where rows have unknown operations.
    Where values may be left unchanged, those of the added rows are in their place, and the marks of
    ``sent_values`` are there.
    """
    came = ~F.col(IS_REMOVED)
    place = F.struct(*(F.col(f"`{name}`").alias(name) for name in order))
    # Where no row was added, all fields are null: Spark's schema has to say that they may be.
    is_delete = F.when(F.col(IS_DELETE), F.lit(True)).alias(IS_DELETE)
    marks = {IS_REMOVED, IS_DELETE, IS_UNKNOWN_OPERATION, IS_PARTIAL}
    partial = [F.when(F.col(IS_PARTIAL), F.lit(True)).alias(IS_PARTIAL)] if unchanged else []
    names = [name for name in rows.columns if name not in marks]
    aggregates = [
        F.max_by(
            F.struct(*(F.col(f"`{name}`") for name in names), is_delete, *partial), F.when(came, place)
        ).alias(_NEW),
        F.max(F.when(~came, place)).alias(_REMOVED),
    ]
    found = []
    if IS_UNKNOWN_OPERATION in rows.columns:
        unknown = F.when(came & F.col(IS_UNKNOWN_OPERATION), F.struct(*COORDINATES[1:]))
        aggregates.append(F.min(unknown).alias(FIRST_UNKNOWN))
        found.append(F.col(FIRST_UNKNOWN))
    if unchanged is not None:
        delete = F.col(IS_DELETE)
        aggregates.extend(sent_values.aggregates(unchanged, came=came, is_delete=delete, place=place))
        found.extend(sent_values.marks(unchanged, _NEW))
    new_place = F.struct(*(F.col(f"{_NEW}.`{name}`").alias(name) for name in order))
    # If the newest added row is newer than every removed row, nothing need be recomputed: that row was not
    # removed itself, and the table's row is in the source still, or is older.
    newer = F.coalesce(new_place > F.col(_REMOVED), F.lit(False))
    return (
        rows.groupBy(*(F.col(f"`{name}`") for name in key))
        .agg(*aggregates)
        .select(
            *(F.col(f"`{name}`") if name in key else _newest(name, unchanged) for name in names),
            F.col(f"{_NEW}.{IS_DELETE}").alias(IS_DELETE),
            F.col(_NEW).isNull().alias(IS_REMOVED),
            F.col(_REMOVED),
            (F.col(_REMOVED).isNotNull() & ~newer).alias(MAY_BE_REMOVED),
            *found,
        )
    )


def _newest(name: str, unchanged: Unchanged | None) -> Column:
    value = F.col(f"{_NEW}.`{name}`") if unchanged is None else sent_values.value(unchanged, name, _NEW)
    return value.alias(name)


def is_recomputed(order: Sequence[str]) -> Column:
    """Whether only the source can say which row a key has now: the tables' row may be a removed one.

    Of reduced rows that have the tables' places as ``ROW`` and ``END``.
    """
    stays = F.greatest(ROW, END) > F.col(_REMOVED)
    return F.col(MAY_BE_REMOVED) & ~F.coalesce(stays, F.lit(False))


def may_lack_values(order: Sequence[str], *, begins_later: bool) -> Column:
    """Whether a value that the newest row leaves unchanged is perhaps in none of what came and the table.

    A row that came late may have a value that newer rows left as it was; so may one that was removed.

    Args:
        order: Columns that order the versions of a row.
        begins_later: Whether the table does not have all versions of its source.
    """
    place, known = F.struct(*(F.col(f"`{name}`") for name in order)), F.greatest(ROW, END)
    is_late = ~F.col(IS_REMOVED) & ~F.coalesce(place > known, F.lit(True))
    are_some_late = F.coalesce(F.col(FIRST) <= known, F.lit(False))
    is_between = F.col(IS_PARTIAL) & (are_some_late | F.col(_REMOVED).isNotNull())
    found = F.col(MAY_BE_REMOVED) | is_late | is_between
    return found | (F.col(IS_OPEN) & known.isNull()) if begins_later else found


def recomputed(compared: DataFrame, newest: DataFrame, *, key: Sequence[str], is_again: Column) -> DataFrame:
    """The compared rows, with the source's newest row for those keys that need it.

    Args:
        compared: Reduced rows with ``ROW`` and ``END``.
        newest: The newest row of each key that needs it, with ``IS_DELETE``.
        is_again: Which keys need it.
    """
    struct = f"{_AGAIN}_row"
    row = F.struct(*(F.col(f"`{name}`") for name in newest.columns)).alias(struct)
    found = newest.select(*(F.col(f"`{name}`").alias(f"{_AGAIN}{at}") for at, name in enumerate(key)), row)
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"{_AGAIN}{at}")) for at, name in enumerate(key))
    values = [name for name in newest.columns if name not in key]
    again = F.col(_AGAIN)
    return (
        compared.join(found, reduce(and_, same), "left")
        .withColumn(_AGAIN, is_again)
        .withColumns(
            {
                IS_REMOVED: F.when(again, F.col(struct).isNull()).otherwise(F.col(IS_REMOVED)),
                **{
                    name: F.when(again, F.col(f"{struct}.`{name}`")).otherwise(F.col(f"`{name}`"))
                    for name in values
                },
            }
        )
    )


def with_values_before(
    compared: DataFrame,
    before: DataFrame | None,
    unchanged: Unchanged,
    *,
    key: Sequence[str],
    order: Sequence[str],
) -> DataFrame:
    """The rows with the values that they leave unchanged; null where the table's row has none.

    A row that was recomputed, and is what the table has, is no change any more.

    Args:
        compared: Reduced rows with ``ROW`` and ``END``; perhaps recomputed.
        before: The table's rows of their keys; ``None``: it has none.
        order: Columns that order the versions of a row.
    """
    if before is None:
        names = unchanged.columns
        return compared.withColumns({n: sent_values.known(unchanged, n, F.col(f"`{n}`")) for n in names})
    keys = [F.col(f"`{name}`").alias(f"{_BEFORE}{at}") for at, name in enumerate(key)]
    values = F.struct(*(F.col(f"`{name}`") for name in unchanged.columns)).alias(_BEFORE)
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"{_BEFORE}{at}")) for at, name in enumerate(key))
    joined = compared.join(before.select(*keys, values), reduce(and_, same), "left")
    again = F.col(_AGAIN) if _AGAIN in compared.columns else F.lit(False)
    is_alive = F.coalesce(F.col(ROW) > F.col(END), F.col(END).isNull())
    is_equal, filled = F.lit(True), {_AGAIN: again}
    for name, kind in unchanged.columns.items():
        value, theirs = F.col(f"`{name}`"), F.col(f"{_BEFORE}.`{name}`")
        is_left = ~again & F.col(IS_OPEN) & unchanged.is_in(name, value)
        filled[name] = F.when(is_left, F.when(is_alive, theirs)).otherwise(value)
        is_equal &= comparable(value, kind).eqNullSafe(comparable(theirs, kind))
    place = F.struct(*(F.col(f"`{name}`") for name in order))
    is_delete = F.coalesce(F.col(IS_DELETE), F.lit(False))
    is_same = F.when(is_delete, place.eqNullSafe(F.col(END))).otherwise(
        place.eqNullSafe(F.col(ROW)) & is_equal
    )
    filled[_AGAIN] = again & ~(is_same & F.col(_REMOVED).isNull())
    return joined.withColumns(filled)


def placed(compared: DataFrame, order: Sequence[str]) -> DataFrame:
    """The rows with their own place in the order, as ``Rows.compare`` gives it."""
    return compared.withColumn(ORDER, F.struct(*(F.col(f"`{name}`") for name in order)))


def decide(compared: Rows, columns: Sequence[str]) -> Rows:
    """What becomes of each key: its row's values, ``IN_TABLE`` and ``IN_DELETED``.

    The newest row counts, whether the micro-batch added it or one of the tables has it; so a micro-batch that
    was cut off between the two tables ends the same when it is replayed.

    Args:
        compared: One row per key with its markers, ``ORDER``, ``ROW`` and ``END``; perhaps recomputed.
    """
    row, end = column(ROW), column(END)
    came, known = ~column(IS_REMOVED), greatest(row, end)
    newer = came & (is_null(known) | greater(column(ORDER), known))
    # Step by step: each is used several times, and would be computed and compiled as often.
    first = compared.with_columns(
        {
            _WINS: column(_AGAIN) | newer if _AGAIN in compared.columns else newer,
            _ENDED: is_true(column(IS_DELETE)),
            _IS_ROW: ~is_null(row) & (is_null(end) | greater(row, end)),
        }
    )
    wins, ended, is_row = column(_WINS), column(_ENDED), column(_IS_ROW)
    second = first.with_columns(
        {
            _ALIVE: if_else(wins, came & ~ended, is_row),
            _DEAD: if_else(wins, came & ended, ~is_null(end) & ~is_row),
        }
    )
    return second.select(
        {name: column(name) for name in columns}
        | {
            IN_TABLE: _action(column(_ALIVE), wins, row),
            IN_DELETED: _action(column(_DEAD), wins, end),
        }
    )


def _action(is_present: Expression, is_new: Expression, before: Expression) -> Expression:
    """The action that makes a row present or absent; null: none."""
    return first_of(
        (is_present & is_new & is_null(before), INSERTED),
        (is_present & is_new, UPDATED),
        (~is_present & ~is_null(before), DELETED),
    )
