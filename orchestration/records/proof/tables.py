"""The tables of a proof, each at one version, as views of a DuckDB database and of the script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.delta.log import LogReader
from common.errors import TableError, first_line
from common.sql.quoting import double_quoted, standard_text
from orchestration.access.query.duckdb_views import Database
from orchestration.records.audit.offset_ranges import all_exist


@dataclass
class Tables:
    """Views of tables at versions; the script creates the same ones."""

    database: Database  # in which a statement is tried out before it is written down
    lake: str  # folder or URI of the tables, which is a variable of the script
    # The statements of the script that create the views, in order.
    statements: list[str] = field(default_factory=list)
    _names: dict[tuple[str, int], str] = field(default_factory=dict)

    def view(self, table: str, path: str, version: int) -> str:
        """The quoted name of a table's view at a version, such as ``silver."orders@7"``.

        Raises:
            TableError: The table cannot be read at that version any more.
        """
        import duckdb

        if (table, version) in self._names:
            return self._names[table, version]
        layer, _, own = table.partition(".")
        name = f"{layer}.{double_quoted(f'{own}@{version}')}"
        read = _with_its_rows(table, path, version)
        here = f"CREATE VIEW {name} AS SELECT * FROM {self.database.source(path, read)}"
        try:
            self.database.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {layer}")
            self.database.connection.execute(here)
        except (duckdb.Error, OSError) as error:
            raise TableError(f"{table} cannot be read at version {version}: {first_line(error)}") from error
        scan = f"delta_scan({self.located(path)}, version = {read})"
        self.statements.append(f"CREATE SCHEMA IF NOT EXISTS {layer};")
        if read != version:
            why = f"the files of version {version} are cleaned away, and the commits since changed no row"
            self.statements.append(f"-- {table} is read at version {read}: {why}.")
        self.statements.append(f"CREATE VIEW {name} AS SELECT * FROM {scan};")
        self._names[table, version] = name
        return name

    def located(self, path: str) -> str:
        """A path as SQL of the script: by its variable, if it is inside."""
        if path.startswith(f"{self.lake}/"):
            return f"getvariable('lake') || {standard_text(path.removeprefix(self.lake))}"
        return standard_text(as_duckdb_has_it(path))

    def newest(self, table: str, path: str, version: int | None = None) -> str | None:
        """The view of a table at a version, unset: at its newest; None if there is no such table."""
        at = LogReader(path).latest_version() if version is None else version
        return None if at is None else self.view(table, path, at)

    def columns(self, query: str) -> Mapping[str, str]:
        """The columns of a view or a query and their types.

        Raises:
            TableError: DuckDB cannot run the query; its message.
        """
        import duckdb

        try:
            found = self.database.connection.execute(f"DESCRIBE {query}").fetchall()
        except duckdb.Error as error:
            raise TableError(first_line(error)) from error
        return {str(row[0]): str(row[1]) for row in found}


def _with_its_rows(table: str, path: str, version: int) -> int:
    """A version whose files are there: this one, else the newest one of the same rows, as after a compaction.

    Raises:
        TableError: The files are cleaned away, and the rows have changed since.
    """
    log = LogReader(path)
    if version == (newest := log.latest_version()):
        return version  # what is gone of it is a fault
    try:
        now = set(log.live_files())
        if newest is None or all_exist(log, set(log.live_files(version)) - now):
            return version
    except TableError:
        return version  # whether DuckDB can read it, it says itself
    if any(one.added or one.is_change for one in log.commits(version + 1)):
        raise TableError(
            f"{table} cannot be read at version {version}: its files are cleaned away. Compare it once the "
            f"tables that read it have read version {newest}"
        )
    return newest


def as_duckdb_has_it(path: str) -> str:
    """A path or URI; Hadoop's scheme of S3 is one that DuckDB does not know."""
    return path.replace("s3a://", "s3://", 1) if path.startswith("s3a://") else path
