"""DuckDB over rows in the driver: one database per thread, which holds nothing between two questions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_own = threading.local()


def asked(query: str, /, **tables: Any) -> pa.Table:
    """The rows of a query over Arrow's tables and streams, by the names that they have in it.

    Raises:
        duckdb.Error: The query cannot be answered.
        ArrowException: A stream ends with an error.
    """
    database = _database()
    try:
        for name, table in tables.items():
            database.register(name, table)
        return database.sql(query).to_arrow_table()
    finally:
        for name in tables:
            database.unregister(name)


def _database() -> DuckDBPyConnection:
    """Making one takes longer than most questions."""
    import duckdb  # loaded when rows are there to compare

    found: DuckDBPyConnection | None = getattr(_own, "database", None)
    if found is None:
        found = duckdb.connect(config={"threads": 1})
        # What it would push down into Arrow's readers they cannot do for all types.
        found.execute("SET disabled_optimizers = 'join_filter_pushdown'")
        _own.database = found
    return found
