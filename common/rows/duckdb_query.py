"""DuckDB queries over Arrow tables in the driver: one empty in-memory database per thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_thread = threading.local()


def query(sql: str, /, **tables: Any) -> pa.Table:
    """The result of a query over Arrow tables and streams.

    Args:
        sql: The query.
        tables: Tables and streams, by the names that the query uses.

    Raises:
        duckdb.Error: DuckDB refuses the query.
        ArrowException: A stream ends with an error.
    """
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
