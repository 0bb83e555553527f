"""Spark SQL as DuckDB SQL of the same value, for functions, operators and literals that are proven equal.

Everything else is refused with the word that stands in the way; whoever asks leaves it to Spark. A test gives
both engines every example of Spark's documentation that is translated, and drawn values of every type.

Where Spark raises an error, such as an overflow or a division by zero, the text raises one too. It may raise
one for a row that Spark does not look at (``b <> 0 and a / b > 1``), so an error of DuckDB is no answer. With
``written=True`` the text is for rows that Spark has computed without an error: it has null there. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from common.errors import SqlError
from common.sql import reading
from common.sql.duckdb.calls import Calls
from common.sql.duckdb.operators import CLOCKS, Columns
from common.sql.duckdb.queries import Queries
from common.sql.duckdb.values import Value
from common.sql.expression import Path
from common.sql.quoting import double_quoted
from common.sql.syntax import in_depth

_PLAIN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_WORDS = {"true", "false", "null", *CLOCKS}


def columns_of(types: Mapping[str, str], alias: str = "") -> Columns:
    """The columns of a table, and the fields of its structs.

    Args:
        types: DuckDB's names of their types.
        alias: The table's name in DuckDB, with a dot; empty: the columns stand alone.
    """
    known = {name.lower(): Value(f"{alias}{double_quoted(name)}", kind) for name, kind in types.items()}

    def find(path: Path) -> Value:
        found = known.get(path[0].lower())
        if found is None:
            raise SqlError(f"has {path[0]}, which is no column")
        for name in path[1:]:
            found = found.field(name)
        return found

    return find


def expression(sql: str, columns: Columns, *, written: bool = False, now: datetime | None = None) -> Value:
    """A Spark expression in DuckDB's SQL, with its type.

    Args:
        columns: Gives its columns.
        written: Whether Spark has computed it for all rows: null stands where it would raise an error.
        now: What ``current_timestamp()`` is; unset: it is refused.

    Raises:
        SqlError: A part of it may have another value in DuckDB; names it.
    """
    if _PLAIN.fullmatch(plain := sql.strip()) and plain.lower() not in _WORDS:
        return columns(tuple(plain.split(".")))  # Spark lets nearly every word be a column
    root = reading.expression(sql)
    with in_depth():
        found = Calls(sql, written=written, now=now).value(root, columns)
    if found.family == "v":
        raise SqlError("is a span of time, which is not translated")
    return found


def statement(
    sql: str,
    tables: Mapping[str, tuple[str, Mapping[str, str]]],
    *,
    written: bool = False,
    now: datetime | None = None,
) -> str:
    """A SELECT statement of Spark in DuckDB's SQL.

    Args:
        tables: By table, what it is in a FROM clause of DuckDB, and DuckDB's types of its columns, in order.
        written: As in ``expression``; ``now`` likewise.
        now: What ``current_timestamp()`` is.

    Raises:
        SqlError: A part of it may mean something else in DuckDB; names it.
    """
    root, known = reading.statement(sql), {name.lower(): each for name, each in tables.items()}
    with in_depth():
        return Queries(root, sql, known, written=written, now=now).query(root)[0]
