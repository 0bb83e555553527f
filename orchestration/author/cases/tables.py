"""The tables that a case may expect rows of. Pure."""

from __future__ import annotations

from common.declare import Pipeline, Table
from common.errors import nearest


def table_names(pipeline: Pipeline) -> tuple[str, ...]:
    """The tables of a pipeline with their side tables, in data order."""
    return tuple(name for table in pipeline.tables for name in (table.table, *table.side_tables))


def query_of(pipeline: Pipeline, name: str) -> Table | None:
    """The declaration of the query that writes a table; None for a table that no query writes."""
    tables = pipeline.tables
    return next((table for table in tables if name in (table.table, *table.side_tables)), None)


def unknown_table(pipeline: Pipeline, name: str) -> str:
    """The message for a table that the pipeline does not declare."""
    return f"the pipeline has no table {name!r}; {nearest(name, table_names(pipeline))}"
