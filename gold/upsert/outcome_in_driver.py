"""What a micro-batch of few rows makes of each key, worked out in the driver as
``gold.upsert.outcome_in_spark`` does it.

Keys whose row may have left the source are not among them: those Spark looks after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from common.delta.delta_rs import DELETED, INSERTED, UPDATED
from common.rows import latest_in_driver
from common.rows.materialized import Settled
from gold.upsert.outcome_in_spark import DOUBTFUL, ENDS, GONE, IN_DELETED, IN_TABLE, NEW, STRAY


def is_few(rows: pa.Table, key: Sequence[str], order: Sequence[str]) -> bool:
    """Whether the driver can tell what becomes of some versions; empty ones it can."""
    marked = (rows[name] for name in (GONE, STRAY) if name in rows.column_names)
    return latest_in_driver.is_plain(rows.schema, (*key, *order)) and not any(
        pc.any(each).as_py() for each in marked
    )


def newest(came: Settled) -> pa.Table | None:
    """The newest row of each key that came, of those that ``gold.upsert.outcome_in_spark.reduced`` has;
    where they are few.

    Nothing, where a row has left whose key the source has to be asked for.
    """
    rows = came.arrow
    if rows is None or pc.any(rows[DOUBTFUL]).as_py():
        return None
    return pa.Table.from_struct_array(rows[NEW])


def outcome(
    rows: pa.Table,
    have: Mapping[str, pa.Table],
    columns: Sequence[str],
    *,
    key: Sequence[str],
    order: Sequence[str],
) -> pa.Table:
    """What becomes of each key: its row's values, ``__in_table`` and ``__in_deleted``.

    Grain: one row per key that came. Among rows that are the same in all of ``order`` any may be taken.

    Args:
        rows: Versions, any number per key.
        have: Rows of the table, and of the one of deleted keys where there is one, by ``__in_table`` and
            ``__in_deleted``; those that may have the keys.
        columns: The table's.
        key: Columns that name a row.
        order: Columns that order the versions of a row.

    Raises:
        NotComparableError: They cannot be compared here.
    """
    names = [name for name in (IN_TABLE, IN_DELETED) if name in have]
    found = latest_in_driver.met(rows, [have[name] for name in names], key=key, order=order)
    new = found["new"]
    nothing = pa.nulls(found.num_rows, pa.int64())
    row, end = (
        found[f"have{names.index(each)}"] if each in names else nothing for each in (IN_TABLE, IN_DELETED)
    )
    last = rows.take(found["row"])
    ended = pc.fill_null(last[ENDS], False)
    wins = pc.fill_null(pc.greater(new, pc.max_element_wise(row, end)), True)
    is_row = pc.and_(pc.is_valid(row), pc.fill_null(pc.greater(row, end), True))
    alive = pc.if_else(wins, pc.invert(ended), is_row)
    dead = pc.if_else(wins, ended, pc.and_(pc.is_valid(end), pc.invert(is_row)))
    done = last.select(list(columns))
    done = done.append_column(IN_TABLE, _done(alive, wins, row))
    return done.append_column(IN_DELETED, _done(dead, wins, end))


def _done(is_there: pa.Array, is_new: pa.Array, had: pa.Array) -> pa.Array:
    """What is to be done so that a row is there, or is not."""
    written = pc.and_(is_there, is_new)
    there = pc.is_valid(had)
    cases = pc.make_struct(pc.and_(written, pc.invert(there)), written, pc.and_(pc.invert(is_there), there))
    return pc.case_when(cases, pa.scalar(INSERTED), pa.scalar(UPDATED), pa.scalar(DELETED))
