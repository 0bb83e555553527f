"""Rows compared by key and order in the driver, as Spark compares them: few rows need no job for that.

Keys are compared null-safe; in an order null is lowest. Only types are taken whose values both engines order
alike: whoever asks looks at ``is_plain`` before, and leaves other rows to Spark. Payload is never touched:
what is handed back are positions of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from common.rows.duckdb_query import asked

_AT = "row"
_PLAIN = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


class NotComparableError(Exception):
    """Values that cannot be compared in the driver, such as bytes that are no text: they are Spark's."""


def is_plain(schema: pa.Schema, names: Sequence[str]) -> bool:
    """Whether some columns are of types that are ordered here as Spark orders them; a float's -0.0 is not.

    A name that is written otherwise than the column is Spark's, which looks at no case.
    """
    return all(name in schema.names and any(one(schema.field(name).type) for one in _PLAIN) for name in names)


def newest(
    rows: pa.Table, *, key: Sequence[str], order: Sequence[str], oldest: bool = False
) -> pa.ChunkedArray:
    """The position of each key's last row in ``order``, or of its first; ties are told apart by nobody.

    Args:
        rows: Any number of rows per key.
        key: Columns that name a row.
        order: Columns, the most telling first.
        oldest: The first one instead.

    Raises:
        NotComparableError: They cannot be compared here.
    """
    pick = "arg_min" if oldest else "arg_max"
    query = f"""
        SELECT {pick}({_AT}, place) AS {_AT}
        FROM (SELECT *, {_place(order)} AS place FROM mine)
        GROUP BY {_list("k", key)} ORDER BY 1
    """  # noqa: S608  # names of ours, no values
    return _asked(query, mine=_numbered(rows, key, order))[_AT]


def met(rows: pa.Table, have: Sequence[pa.Table], *, key: Sequence[str], order: Sequence[str]) -> pa.Table:
    """Each key's newest row that came, and how new the rows are that tables have of it.

    Grain: one row per key of ``rows``. ``row``: the newest row's position; ``new`` and, per table,
    ``have0``…: ranks in ``order``, the same where all columns of it are; null where a table lacks the key.

    Args:
        rows: Any number of rows per key.
        have: Rows of tables, with key and order; of other keys too.
        key: Columns that name a row.
        order: Columns, the most telling first.

    Raises:
        NotComparableError: They cannot be compared here.
    """
    sides = {f"side{number}": _numbered(each, key, order) for number, each in enumerate((rows, *have))}
    union = " UNION ALL ".join(f"SELECT {n} AS side, * FROM {name}" for n, name in enumerate(sides))  # noqa: S608
    theirs = "".join(
        f", max(place) FILTER (side = {number + 1}) AS have{number}" for number in range(len(have))
    )
    query = f"""
        SELECT arg_max({_AT}, place) FILTER (side = 0) AS {_AT}, max(place) FILTER (side = 0) AS new{theirs}
        FROM (SELECT *, {_place(order)} AS place FROM ({union}))
        GROUP BY {_list("k", key)} HAVING count(*) FILTER (side = 0) > 0 ORDER BY 1
    """  # noqa: S608  # see above
    return _asked(query, **sides)


def lacking(
    rows: pa.Table, others: Sequence[pa.Table], *, key: Sequence[str], itself: Sequence[str]
) -> pa.ChunkedArray:
    """The positions of rows whose key no other row has, in any table.

    Args:
        rows: Rows to look for.
        others: Tables with key and ``itself``.
        key: Columns that name a row.
        itself: Columns by which a row of a table is known to be the very row that is looked for.

    Raises:
        NotComparableError: They cannot be compared here.
    """
    sides = {f"side{number}": _numbered(each, key, itself) for number, each in enumerate(others)}
    union = " UNION ALL ".join(f"SELECT * FROM {name}" for name in sides)  # noqa: S608  # see above
    same = " AND ".join(f"t.k{n} IS NOT DISTINCT FROM m.k{n}" for n in range(len(key)))
    is_it = " AND ".join(f"t.o{n} IS NOT DISTINCT FROM m.o{n}" for n in range(len(itself)))
    query = f"""
        SELECT m.{_AT} FROM mine m ANTI JOIN
            (SELECT m.{_AT} FROM mine m JOIN ({union}) t ON {same} WHERE NOT ({is_it})) found
            ON m.{_AT} = found.{_AT}
        ORDER BY 1
    """  # noqa: S608  # see above
    return _asked(query, mine=_numbered(rows, key, itself), **sides)[_AT]


def _numbered(rows: pa.Table, key: Sequence[str], order: Sequence[str]) -> pa.Table:
    """What is compared, under names of ours, and each row's position.

    Raises:
        NotComparableError: A text is none: DuckDB orders its bytes in a way of its own.
    """
    for name in {*key, *order}:
        if pa.types.is_string(rows.schema.field(name).type):
            try:
                rows[name].validate(full=True)
            except pa.ArrowInvalid as error:
                raise NotComparableError(f"{name}: {error}") from error
    columns = {_AT: pa.array(range(rows.num_rows), pa.int64())}
    columns |= {f"k{number}": rows[name] for number, name in enumerate(key)}
    columns |= {f"o{number}": rows[name] for number, name in enumerate(order)}
    return pa.table(columns)


def _place(order: Sequence[str]) -> str:
    ordered = ", ".join(f"o{number} ASC NULLS FIRST" for number in range(len(order)))
    return f"dense_rank() OVER (ORDER BY {ordered})"


def _list(letter: str, names: Sequence[str]) -> str:
    return ", ".join(f"{letter}{number}" for number in range(len(names)))


def _asked(query: str, **tables: pa.Table) -> pa.Table:
    import duckdb  # loaded when rows are there to compare

    try:
        return asked(query, **tables)
    except (duckdb.Error, pa.ArrowException) as error:
        raise NotComparableError(str(error)) from error
