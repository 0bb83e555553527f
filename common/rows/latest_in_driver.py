"""Arrow rows compared by key and order in DuckDB, with the same result as Spark's comparison.

Keys are compared null-safe; null is the lowest value of an order. Only types are compared whose values both
engines order alike (``is_plain``). Other columns are never read: results are positions of rows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from common.sql.quoting import double_quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_AT = "row"
_PLAIN = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


_thread = threading.local()
"""Each thread's database: an empty one in memory."""


class NotComparableError(Exception):
    """The driver cannot compare the rows (as of their types, or of text that is not UTF-8); Spark can."""


def is_plain(schema: pa.Schema, names: Sequence[str]) -> bool:
    """Whether DuckDB orders the columns as Spark does; floats are not plain because of -0.0.

    A name whose case differs from the column's is not plain either: only Spark ignores case.
    """
    return all(name in schema.names and any(one(schema.field(name).type) for one in _PLAIN) for name in names)


def latest_per_key(
    rows: pa.Table, *, key: Sequence[str], order: Sequence[str], earliest: bool = False
) -> pa.ChunkedArray:
    """The position of each key's last row in ``order``; of rows with equal order, any one.

    Args:
        rows: Any number of rows per key.
        order: Columns, the most significant first.
        earliest: The first row of each key instead.

    Raises:
        NotComparableError: The rows cannot be compared here.
    """
    pick = "arg_min" if earliest else "arg_max"
    sql = f"""
        SELECT {pick}({_AT}, place) AS {_AT}
        FROM (SELECT *, {_place(order)} AS place FROM mine)
        GROUP BY {_list("k", key)} ORDER BY 1
    """  # noqa: S608  # names of ours, no values
    return _query(sql, mine=_numbered(rows, key, order))[_AT]


def rank_against(
    rows: pa.Table, others: Sequence[pa.Table], *, key: Sequence[str], order: Sequence[str]
) -> pa.Table:
    """Each key's latest row, and its rank in ``order`` among the other tables' rows of that key.

    Grain: one row per key of ``rows``. ``row``: the latest row's position. ``new``, and ``have0``… per other
    table: ranks in ``order``, equal where all columns of the order are; null where a table lacks the key.

    Args:
        rows: Any number of rows per key.
        others: Tables with key and order; they may have other keys too.
        order: Columns, the most significant first.

    Raises:
        NotComparableError: The rows cannot be compared here.
    """
    sides = {f"side{number}": _numbered(each, key, order) for number, each in enumerate((rows, *others))}
    union = " UNION ALL ".join(f"SELECT {n} AS side, * FROM {name}" for n, name in enumerate(sides))  # noqa: S608
    theirs = "".join(
        f", max(place) FILTER (side = {number + 1}) AS have{number}" for number in range(len(others))
    )
    sql = f"""
        SELECT arg_max({_AT}, place) FILTER (side = 0) AS {_AT}, max(place) FILTER (side = 0) AS new{theirs}
        FROM (SELECT *, {_place(order)} AS place FROM ({union}))
        GROUP BY {_list("k", key)} HAVING count(*) FILTER (side = 0) > 0 ORDER BY 1
    """  # noqa: S608  # see above
    return _query(sql, **sides)


def keys_not_in(
    rows: pa.Table, others: Sequence[pa.Table], *, key: Sequence[str], itself: Sequence[str]
) -> pa.ChunkedArray:
    """The positions of rows whose key no other row has, in any of the tables.

    Args:
        others: Tables with ``key`` and ``itself``.
        itself: Columns by which a row of a table is recognised as the very row that is looked up.

    Raises:
        NotComparableError: The rows cannot be compared here.
    """
    sides = {f"side{number}": _numbered(each, key, itself) for number, each in enumerate(others)}
    union = " UNION ALL ".join(f"SELECT * FROM {name}" for name in sides)  # noqa: S608  # see above
    same = " AND ".join(f"t.k{n} IS NOT DISTINCT FROM m.k{n}" for n in range(len(key)))
    is_it = " AND ".join(f"t.o{n} IS NOT DISTINCT FROM m.o{n}" for n in range(len(itself)))
    sql = f"""
        SELECT m.{_AT} FROM mine m ANTI JOIN
            (SELECT m.{_AT} FROM mine m JOIN ({union}) t ON {same} WHERE NOT ({is_it})) taken
            ON m.{_AT} = taken.{_AT}
        ORDER BY 1
    """  # noqa: S608  # see above
    return _query(sql, mine=_numbered(rows, key, itself), **sides)[_AT]


def rows_with_keys_of(rows: pa.RecordBatchReader, keys: pa.Table, most: int) -> pa.Table:
    """The rows that have one of the keys, compared null-safe; at most so many of them.

    Args:
        rows: Rows of any number, with the columns of the keys.
        keys: The keys; all of their columns are compared.

    Raises:
        duckdb.Error: DuckDB cannot compare the columns.
        ArrowException: The stream of rows ends with an error.
    """
    names = [double_quoted(name) for name in keys.column_names]
    same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM k.{name}" for name in names)
    return _result(f"SELECT t.* FROM t SEMI JOIN k ON {same} LIMIT {most}", t=rows, k=keys)  # noqa: S608


def _numbered(rows: pa.Table, key: Sequence[str], order: Sequence[str]) -> pa.Table:
    """Key and order under short names, and each row's position."""
    for name in {*key, *order}:
        if pa.types.is_string(rows.schema.field(name).type):
            try:
                rows[name].validate(full=True)
            except pa.ArrowInvalid as error:
                raise NotComparableError(f"{name}: {error}") from error
    columns = {_AT: pa.array(np.arange(rows.num_rows))}
    columns |= {f"k{number}": rows[name] for number, name in enumerate(key)}
    columns |= {f"o{number}": rows[name] for number, name in enumerate(order)}
    return pa.table(columns)


def _place(order: Sequence[str]) -> str:
    ordered = ", ".join(f"o{number} ASC NULLS FIRST" for number in range(len(order)))
    return f"dense_rank() OVER (ORDER BY {ordered})"


def _list(letter: str, names: Sequence[str]) -> str:
    return ", ".join(f"{letter}{number}" for number in range(len(names)))


def _query(sql: str, **tables: pa.Table) -> pa.Table:
    import duckdb  # loaded with the first comparison

    try:
        return _result(sql, **tables)
    except (duckdb.Error, pa.ArrowException) as error:
        raise NotComparableError(str(error)) from error


def _result(sql: str, /, **tables: Any) -> pa.Table:
    """The result of a query over Arrow tables and streams, by the names that the query uses."""
    database = _database()
    try:
        for name, table in tables.items():
            database.register(name, table)
        return database.sql(sql).to_arrow_table()
    finally:
        for name in tables:
            database.unregister(name)


def _database() -> DuckDBPyConnection:
    """The thread's database, which is kept: opening one takes longer than most queries."""
    import duckdb  # loaded with the first query

    database: DuckDBPyConnection | None = getattr(_thread, "database", None)
    if database is None:
        database = duckdb.connect(config={"threads": 1})
        # Arrow's readers do not support the filters that DuckDB would push down for all types.
        database.execute("SET disabled_optimizers = 'join_filter_pushdown'")
        _thread.database = database
    return database
