"""Runs SQL over the pipeline's tables with DuckDB in this process: no Spark, no server, no network.

Every existing table that the SQL names becomes a view: ``gold.x``, ``silver.x__quarantine``;
``gold.x__published`` is the version of ``gold.x`` that passed its quality suite. DuckDB reads the
tables with its Delta extension, which is installed as a package. Without the extension, and for tables in an
object store, delta-rs reads the tables for DuckDB.

SQL of a user runs in a confined database: it reads the pipeline's tables and opens nothing else.
"""

from __future__ import annotations

import importlib
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.config.paths import DISMISSED, ERASED, GAPS, Layout, is_local
from common.delta.log import latest_version
from common.delta.published_pointer import SUFFIX, PublishedVersion, read_published
from common.errors import TableError, TableMissingError, UsageError, first_line, nearest
from common.machine.object_store import storage_options
from common.sql.quoting import standard_text
from orchestration.access.query.allowed_sql import explain_refusal, refuse_unsafe

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NAMED = re.compile(r'(?<![\w"])"?(bronze|silver|gold|quality|ops)"?\s*\.\s*"?(\w+)"?', re.IGNORECASE)
_UNKNOWN = re.compile(r"Table with name (\S+) does not exist")
_BATCH = 2_048
_RENAMED = {"quality.results": {"at": "run_at", "table": "table_name", "column": "column_name"}}
"""Columns whose stored names are words of SQL, by table, with their names in a query."""
_NOT_YET = {
    GAPS: "No gap has been accepted.",
    DISMISSED: "No receipt has been dismissed.",
    ERASED: "No record has been erased.",
    "quality.results": "No suite has been run; run them with: medallion quality run",
}
"""Why a table that no micro-batch writes does not exist yet."""


@dataclass(frozen=True)
class QueryResult:
    """The result of one SQL statement; rows are read as the caller iterates."""

    columns: tuple[str, ...]  # names of the columns, in order
    types: tuple[str, ...]  # DuckDB's names of the column types
    # The rows, in batches; raises ``UsageError`` if the SQL fails half-way.
    batches: Iterator[list[tuple[Any, ...]]]


class Database:
    """An empty in-memory DuckDB database that reads Delta tables; times are in UTC.

    Attributes:
        note: The reason why DuckDB's Delta extension is not used; empty if it is used.
        is_confined: Whether the database opens nothing but the folders that it was given.
    """

    def __init__(self, folders: Sequence[str] | None = None) -> None:
        """Create the database.

        Args:
            folders: Paths or URIs of tables; the database then opens nothing else, and no SQL can change
                that. Unset: it may open every file and address.
        """
        import duckdb  # imported here, because the import takes a third of a second

        self.note = ""
        self.is_confined = folders is not None
        # A folder of its own: DuckDB permits SQL every file in the folder of its temporary files.
        scratch = tempfile.mkdtemp(prefix="medallion-query-")
        weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        self.connection: DuckDBPyConnection = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "python_enable_replacements": "false",
                "temp_directory": scratch,
            }
        )
        self.connection.execute("SET TimeZone = 'UTC'")
        try:
            self.connection.execute(f"LOAD {standard_text(str(extension_file('delta')))}")
        except (duckdb.Error, ImportError, FileNotFoundError) as error:
            self.note = (
                f"DuckDB's Delta extension cannot be loaded ({first_line(error)}); reading with delta-rs."
            )
        if folders is not None:
            self._confine([folder for folder in folders if is_local(folder)])

    def _confine(self, folders: Sequence[str]) -> None:
        listed = ", ".join(standard_text(f"{folder}/") for folder in folders)
        self.connection.execute(f"SET allowed_directories = [{listed}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def source(self, path: str, version: int | None = None) -> str:
        """SQL for a table in a ``FROM`` clause, at its newest version or at an older one."""
        if is_local(path) and not self.note:
            at = "" if version is None else f", version = {version}"
            return f"delta_scan({standard_text(path)}{at})"
        from deltalake import DeltaTable  # imported here: needed only if DuckDB cannot read the table itself

        name = f"__delta_{abs(hash((path, version)))}"
        table = DeltaTable(path, version=version, storage_options=storage_options(path))
        self.connection.register(name, table.to_pyarrow_dataset())
        return name


def run_query(
    database: Database, layout: Layout, tables: Sequence[str], sql: str, version: int | None = None
) -> QueryResult:
    """Run one SQL statement over the pipeline's tables.

    Args:
        tables: Full names of all declared tables.
        version: The table version to read, if the SQL names exactly one table; unset: the newest version.

    Raises:
        TableMissingError: The SQL names a declared table that is not written yet.
        UsageError: The SQL names a table that is not declared, DuckDB refuses the SQL, or a confined
            database may not run it.
    """
    import duckdb

    named = tuple(dict.fromkeys(f"{layer}.{name}".lower() for layer, name in _NAMED.findall(sql)))
    newest = {table: latest_version(layout.table_path(table)) for table in named if table in tables}
    if version is not None:
        _refuse_version(version, newest)
    written = [table for table, last in newest.items() if last is not None]
    try:
        _create_views(database, layout, written, version)
        if database.is_confined:
            refuse_unsafe(database.connection, sql)
        result = database.connection.execute(sql)
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.CatalogException as error:
        raise _explained(error, layout, tables, named, written) from error
    except duckdb.PermissionException as error:
        raise UsageError(explain_refusal(_text(error))) from error
    except duckdb.ParserException as error:
        raise UsageError(_text(error) + _unquoted(database, sql)) from error
    except duckdb.Error as error:
        raise UsageError(_text(error)) from error
    described = result.description or []
    return QueryResult(
        columns=tuple(column[0] for column in described),
        types=tuple(str(column[1]) for column in described),
        batches=_batches(result) if described else iter(()),
    )


def count_reasons(database: Database, path: str, version: int | None = None) -> tuple[tuple[str, int], ...]:
    """Rows of a quarantine table per reason, largest number first; a row with two reasons counts for both.

    Raises:
        TableError: The table cannot be read.
    """
    return _counted_reasons(database, lambda: database.source(path, version), path)


def count_reasons_in(database: Database, files: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The same of some local data files of a quarantine table, all of whose rows are in the table.

    Raises:
        TableError: A file cannot be read.
    """
    if not files:
        return ()
    listed = ", ".join(standard_text(file) for file in files)
    return _counted_reasons(database, lambda: f"read_parquet([{listed}])", files[0])


def _counted_reasons(
    database: Database, source: Callable[[], str], place: str
) -> tuple[tuple[str, int], ...]:
    import duckdb

    try:
        found = database.connection.execute(
            f"SELECT reason, count(*) FROM (SELECT unnest(reasons) AS reason FROM {source()}) "  # noqa: S608  # our own path, quoted
            "GROUP BY reason ORDER BY count(*) DESC, reason"
        ).fetchall()
    except (duckdb.Error, OSError) as error:
        raise TableError(f"{place} cannot be read: {first_line(error)}") from error
    return tuple((str(reason), int(count)) for reason, count in found)


def extension_file(name: str) -> Path:
    """The file of an extension of DuckDB that is installed as a package.

    Raises:
        ImportError: The package is not installed.
        FileNotFoundError: The package has no such file.
    """
    module = importlib.import_module(f"duckdb_extension_{name}")
    folder = Path(next(iter(module.__path__)))
    found = sorted(folder.glob(f"extensions/*/{name}.duckdb_extension"))
    if not found:
        raise FileNotFoundError(f"no {name}.duckdb_extension in {folder}")
    return found[-1]


def _refuse_version(version: int, newest: Mapping[str, int | None]) -> None:
    if len(newest) != 1:
        found = ", ".join(newest) or "none"
        raise UsageError(f"--as-of reads one table only; the SQL names {found}. Name exactly one table.")
    for table, last in newest.items():
        if last is not None and version > last:
            raise UsageError(f"{table} has no version {version} yet; its newest is {last}.")


def _refuse_other(table: str, path: str, published: PublishedVersion | None) -> None:
    """Refuse a published version that is not the table's any more, or that was taken back."""
    why = "no version is published" if published is None else published.fault(path)
    if why is not None:
        raise UsageError(
            f"{table}: {why}. The next version that passes its suite is published by the gold job; see: "
            f"medallion quality status {table.removesuffix(SUFFIX)}"
        )


def _create_views(database: Database, layout: Layout, tables: Sequence[str], version: int | None) -> None:
    for table in tables:
        layer, _, name = table.partition(".")
        path, at = layout.table_path(table), version
        if table.endswith(SUFFIX):
            path = path.removesuffix(SUFFIX)
            if version is not None:
                raise UsageError(f"{table} is the published version; --as-of reads a version of the table")
            published = read_published(path)
            _refuse_other(table, path, published)
            at = None if published is None else published.version
        source = database.source(path, at)
        renamed = ", ".join(f'"{stored}" AS {shown}' for stored, shown in _RENAMED.get(table, {}).items())
        columns = f"* RENAME ({renamed})" if renamed else "*"
        database.connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{layer}"')
        view = f'"{layer}"."{name}" AS SELECT {columns} FROM {source}'  # noqa: S608  # declared names only
        database.connection.execute(f"CREATE OR REPLACE VIEW {view}")


def _batches(result: DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    import duckdb

    try:
        while rows := result.fetchmany(_BATCH):
            yield rows
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise UsageError(_text(error)) from error


def _explained(
    error: Exception, layout: Layout, tables: Sequence[str], named: Sequence[str], written: Sequence[str]
) -> UsageError | TableMissingError:
    for table in named:
        if table not in tables:
            return UsageError(f"{table}: no such table in this pipeline; {nearest(table, tables)}")
        if table not in written:
            advice = _NOT_YET.get(table, "")
            if table.endswith(SUFFIX):
                advice = "No version has passed its quality suite yet; see: medallion quality status"
            return TableMissingError(table, layout.table_path(table), advice)
    match = _UNKNOWN.search(str(error))
    if match is None:
        return UsageError(_text(error))
    unknown = match[1].replace('"', "")
    same = [table for table in tables if table.endswith(f".{unknown}")]
    if same:
        return UsageError(f"{unknown}: add the layer to the name: {' or '.join(same)}")
    return UsageError(f"{unknown}: no such table in this pipeline; {nearest(unknown, tables)}")


def _unquoted(database: Database, sql: str) -> str:
    """A line about columns of the tables that are words of SQL and stand in the statement without quotes."""
    found = database.connection.execute(
        "SELECT DISTINCT column_name FROM duckdb_columns() "
        "JOIN duckdb_keywords() ON keyword_name = lower(column_name) "
        "WHERE keyword_category IN ('reserved', 'type_function') ORDER BY 1"
    ).fetchall()
    bare = [name for (name,) in found if re.search(rf'(?i)(?<!["\w]){name}(?!["\w])', sql)]
    if not bare:
        return ""
    quoted = " and ".join(f'"{name}"' for name in bare)
    return f"\nA column whose name is a word of SQL is written in double quotes: {quoted}"


def _text(error: Exception) -> str:
    return str(error).strip()
