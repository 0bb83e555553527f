"""The tables of a pipeline as DuckDB reads them, and the records of Kafka whose rows are looked up there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from common.config.paths import Layout
from common.declare import Pipeline
from common.delta.log import LogReader
from common.errors import TableError, first_line
from orchestration.access.query.duckdb_views import Database
from orchestration.access.query.shown_values import iso
from orchestration.records.audit.table_log import TableCommit, TableLog, read_log


@dataclass
class Tables:
    """The tables of a pipeline, read by DuckDB; logs are read once."""

    database: Database
    pipeline: Pipeline
    layout: Layout
    _logs: dict[str, TableLog] = field(default_factory=dict)
    _files: dict[str, str] = field(default_factory=dict)

    def log(self, table: str, query: str = "") -> TableLog:
        """The commits that a table's log still has."""
        if table not in self._logs:
            self._logs[table] = read_log(table, self.layout.table_path(table), query or table)
        return self._logs[table]

    def source(self, table: str, version: int | None = None) -> str | None:
        """The table in a FROM clause; None if it does not exist."""
        if LogReader(self.layout.table_path(table)).latest_version() is None:
            return None
        return self.database.source(self.layout.table_path(table), version)

    def rows(self, sql: str, values: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The rows of a query, with values for its marks.

        Raises:
            TableError: A table cannot be read, for example a version whose files are gone.
        """
        import duckdb  # imported here, because the import takes a third of a second

        try:
            found = self.database.connection.execute(sql, list(values))
            names = [each[0] for each in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        except duckdb.Error as error:
            raise TableError(first_line(error)) from error

    def types(self, rows: str) -> dict[str, str]:
        """The columns of what stands in a FROM clause, with DuckDB's names of their types."""
        found = self.rows(f"DESCRIBE SELECT * FROM {rows}")
        return {str(row["column_name"]): str(row["column_type"]) for row in found}

    def file_of(self, table: str) -> str:
        """SQL of the data file of a row; null where delta-rs reads the table, or it has such a column."""
        if table not in self._files:
            source = None if self.database.note else self.source(table)
            has_none = source is None or "filename" in map(str.lower, self.types(source))
            self._files[table] = "NULL" if has_none else "filename"
        return self._files[table]


def commit_document(one: TableCommit | None) -> dict[str, Any]:
    """Version, micro-batch and time of a commit; nulls where the log does not have it, or no longer."""
    if one is None:
        return {"version": None, "batch_id": None, "committed_at": None}
    return {"version": one.version, "batch_id": one.batch_id, "committed_at": iso(one.commit.timestamp)}
