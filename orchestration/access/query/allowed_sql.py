"""Which SQL ``medallion query`` runs without ``--unsafe``: queries that read the pipeline's tables alone.

DuckDB can read and write files, open network addresses, attach databases and install extensions, all by SQL.
Its own setting ``enable_external_access`` stops most of that, but not a ``COPY`` into the tables' folders,
and not ``delta_scan``, which reads by a file system of its own. So the SQL itself is examined too, in the
form into which DuckDB parses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from common.errors import UsageError, first_line, if_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_HARMLESS = frozenset(
    {
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_schemas",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "generate_series",
        "histogram",
        "histogram_values",
        "json_each",
        "json_tree",
        "pragma_table_info",
        "range",
        "repeat",
        "repeat_row",
        "unnest",
    }
)
"""Table functions that open no file and no address, and run no SQL that they get as text."""

_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*explain\s+(?:analyze\s+|\([^)]*\)\s*)?", re.IGNORECASE | re.DOTALL
)

_FILE_NAME = re.compile(
    r"/|\.(csv|tsv|parquet|json|jsonl|ndjson|txt|xlsx|db|duckdb)(\.gz|\.zst)?$", re.IGNORECASE
)
"""A name in a FROM clause that DuckDB takes for a file."""

_NO_COLUMN = re.compile(r'Referenced column "(\w+)" not found')

_UNSAFE = "With --unsafe, the SQL may do whatever DuckDB can with the files and the network of this user."


def refuse_unsafe(connection: DuckDBPyConnection, sql: str) -> None:
    """Refuse SQL that is no query, or that calls a function which may open a file or an address.

    SQL that DuckDB cannot parse is not refused here: running it gives DuckDB's own message.

    Raises:
        UsageError: Names the function or says that only queries run, and names ``--unsafe``.
    """
    explained = _EXPLAIN.match(sql)
    text = sql[explained.end() :] if explained else sql
    found = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    parsed = json.loads(found[0]) if found else {}
    if parsed.get("error"):
        if parsed.get("error_type") == "parser":
            return
        raise UsageError(
            "medallion query runs queries only: SELECT, FROM, WITH, DESCRIBE, SUMMARIZE, EXPLAIN, and PIVOT "
            f"with its values, as in ON x IN ('a', 'b'). It writes nothing. {_UNSAFE}"
        )
    for name in _table_functions(parsed):
        if name not in _HARMLESS:
            raise UsageError(
                f"{name}: medallion query opens no file and no address but the pipeline's tables, which are "
                f"named like silver.x. {_UNSAFE}"
            )


def refused_condition(error: Exception) -> UsageError:
    """What is wrong with a condition of ``--where`` that DuckDB has refused, without the query around it."""
    message = first_line(error)
    hint = ' "offset" is a word of SQL: write the column in double quotes.' if "offset" in message else ""
    if column := _NO_COLUMN.search(message):
        hint += f" {if_text(column[1])}"
    return UsageError(f"--where: {message.rstrip('.')}.{hint}")


def refuse_unsafe_expression(connection: DuckDBPyConnection, option: str, text: str) -> None:
    """Refuse an expression of an option that reads a file or an address.

    Raises:
        UsageError: It does.
    """
    try:
        refuse_unsafe(connection, f"SELECT ({text})")
    except UsageError as error:
        raise UsageError(
            f"{option} is SQL over the table's columns; it opens no file and no address."
        ) from error


def explain_refusal(message: str) -> str:
    """DuckDB's message for a file or an extension that it may not open, with the way to permit it."""
    return f"{message}\nmedallion query opens nothing but the pipeline's tables. {_UNSAFE}"


def _table_functions(node: object) -> Iterator[str]:
    """Names of all table functions in serialized SQL, in lower case, and of files."""
    if isinstance(node, list):
        for each in node:
            yield from _table_functions(each)
    elif isinstance(node, dict):
        if node.get("type") == "TABLE_FUNCTION":
            yield str(node.get("function", {}).get("function_name", "")).lower()
        if node.get("type") == "BASE_TABLE" and _FILE_NAME.search(name := str(node.get("table_name", ""))):
            yield name
        for each in node.values():
            yield from _table_functions(each)
