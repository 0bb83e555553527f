"""Evaluates SQL on one version of a table: DuckDB for tables that fit one machine, Spark for all others.

The SQL is Spark's. What DuckDB is not proven to compute as Spark does, Spark evaluates: a table's size may
change the engine, and never the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from common.config.paths import is_local
from common.config.settings import Settings
from common.delta.log import Snapshot
from common.errors import SqlError, TableError, UsageError, first_line
from common.machine.object_store import storage_options
from common.sql.quoting import standard_text
from orchestration.access.query.duckdb_views import Database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_views = itertools.count()


@dataclass(frozen=True)
class Pinned:
    """One version of a table, or the part of it that was written after an older version."""

    table: str  # the table's full name
    path: str  # its path or URI
    version: int  # the version that is read
    # An older version; only rows in files that it did not have are read. Unset: all rows.
    since: int | None = None

    def new_files(self) -> list[str] | None:
        """Paths of the files since ``since``, as delta-rs names them; None: all files.

        Raises:
            UsageError: One of the versions can no longer be read.
        """
        if self.since is None:
            return None
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        options = storage_options(self.path)
        try:
            before = set(DeltaTable(self.path, version=self.since, storage_options=options).file_uris())
            now = DeltaTable(self.path, version=self.version, storage_options=options).file_uris()
        except DeltaError as error:
            raise UsageError(
                f"--since-version {self.since}: a version of {self.table} can no longer be read ({error}). "
                "Choose a newer one."
            ) from error
        return [file for file in now if file not in before]


class Engine(Protocol):
    """Evaluates SQL over pinned tables."""

    name: str
    """``duckdb`` or ``spark``: whose SQL ``own_rows`` takes, and whose names of types ``columns`` gives."""

    @property
    def asked(self) -> str:
        """``spark`` once it has evaluated something, else ``name``."""

    def relation(self, pinned: Pinned) -> str:
        """The table in a ``FROM`` clause."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT statement in Spark's SQL.

        Raises:
            TableError: The statement cannot be evaluated, or a file cannot be read.
        """

    def own_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement in the engine's own SQL; raises as ``rows``."""

    def columns(self, relation: str) -> dict[str, str]:
        """Names of the columns, with the engine's names of their types."""


class DuckDbEngine:
    """DuckDB in this process; it reads local files without a server and without a JVM."""

    name = asked = "duckdb"

    def __init__(self, *, threads: int | None = None, memory: str | None = None) -> None:
        """Open an empty database.

        Args:
            threads: Threads of a query; unset: one per core.
            memory: Most memory of a query, such as ``1GB``; more goes to temporary files.
        """
        self._database = Database()
        self._types: dict[str, dict[str, str]] = {}
        if threads is not None:
            self._database.connection.execute(f"SET threads = {threads}")
        if memory is not None:
            self._database.connection.execute(f"SET memory_limit = '{memory}'")

    def relation(self, pinned: Pinned) -> str:
        """The table in a ``FROM`` clause: a temporary view."""
        name = f"__quality_{next(_views)}"
        self.view(name, pinned)
        return name

    def view(self, name: str, pinned: Pinned) -> None:
        """Make a temporary view of a table."""
        rows = f"SELECT * FROM {self._source(pinned)}"  # noqa: S608  # our own paths, quoted
        self.own_rows(f"CREATE OR REPLACE TEMP VIEW {name} AS {rows}")
        found = self.own_rows(f"DESCRIBE {name}")
        self._types[name] = {str(row[0]): str(row[1]) for row in found}

    def _source(self, pinned: Pinned) -> str:
        source = self._database.source(pinned.path, pinned.version)
        files = pinned.new_files()
        if files is None:
            return source
        if self._database.note:
            raise TableError(f"A part of a table needs DuckDB's Delta extension. {self._database.note}")
        listed = ", ".join(standard_text(file.removeprefix("file://")) for file in files)
        where = f"filename IN ({listed})" if files else "false"
        return f"(SELECT * FROM {source} WHERE {where})"  # noqa: S608  # our own paths, quoted

    def translated(self, sql: str) -> str:
        """A SELECT statement in DuckDB's SQL.

        Raises:
            SqlError: A part of it may have another value in DuckDB.
        """
        from common.sql.duckdb.text import statement  # loads a parser

        tables = {name: (name, types) for name, types in self._types.items()}
        return statement(sql, tables, now=datetime.now(UTC))

    def why_not(self, sql: str) -> str:
        """Why a SELECT statement may have another result in DuckDB; empty if it has not."""
        try:
            self.translated(sql)
        except SqlError as error:
            return str(error)
        return ""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT statement in Spark's SQL; raises ``TableError``."""
        try:
            return self.own_rows(self.translated(sql))
        except SqlError as error:
            raise TableError(f"it {error}; under quality.engine: auto, Spark evaluates it") from error

    def own_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement in DuckDB's SQL; raises ``TableError``."""
        import duckdb

        try:
            return self._database.connection.execute(sql).fetchall()
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.Error as error:
            raise TableError(first_line(error)) from error

    def frame(self, pinned: Pinned) -> Any:
        """The rows as a frame of pandas.

        Raises:
            TableError: A file cannot be read.
        """
        import duckdb

        try:
            return self._database.connection.sql(f"SELECT * FROM {self._source(pinned)}").df()  # noqa: S608
        except duckdb.Error as error:
            raise TableError(first_line(error)) from error

    def columns(self, relation: str) -> dict[str, str]:
        """Names of the columns, with DuckDB's names of their types."""
        return {name: kind.lower() for name, kind in self._types[relation].items()}


class SparkEngine:
    """Spark, for tables in an object store and for tables larger than one machine reads well."""

    name = asked = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._names: list[str] = []

    def relation(self, pinned: Pinned) -> str:
        """The table in a ``FROM`` clause: a temporary view."""
        name = f"__quality_{next(_views)}"
        self.view(name, pinned)
        return name

    def view(self, name: str, pinned: Pinned) -> None:
        """Make a temporary view of a table."""
        self._view(name, spark_frame(self._spark, pinned))

    def _view(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        self._names.append(name)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT statement; raises ``TableError``."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return [tuple(row) for row in self._spark.sql(sql).collect()]
        except PySparkException as error:
            raise TableError(first_line(error)) from error
        except Py4JJavaError as error:
            raise TableError(first_line(error.java_exception)) from error

    def own_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """As ``rows``."""
        return self.rows(sql)

    def columns(self, relation: str) -> dict[str, str]:
        """Names of the columns, with Spark's names of their types."""
        return {name: kind.lower() for name, kind in self._spark.table(relation).dtypes}

    def close(self) -> None:
        """Drop the temporary views."""
        for name in self._names:
            self._spark.catalog.dropTempView(name)
        self._names.clear()


class BothEngines:
    """DuckDB; and Spark for a statement that DuckDB may compute otherwise, or ends with an error."""

    name = "duckdb"

    def __init__(self, duckdb: DuckDbEngine, spark: Callable[[], SparkSession]) -> None:
        self._duckdb, self._start = duckdb, spark
        self._pinned: dict[str, Pinned] = {}
        self._spark: SparkEngine | None = None

    @property
    def asked(self) -> str:
        """``spark`` once it has evaluated something."""
        return "duckdb" if self._spark is None else "spark"

    def relation(self, pinned: Pinned) -> str:
        """The table in a ``FROM`` clause: a temporary view of the same name in both."""
        name = self._duckdb.relation(pinned)
        self._pinned[name] = pinned
        if self._spark is not None:
            self._spark.view(name, pinned)
        return name

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT statement; raises ``TableError``."""
        import duckdb

        try:
            return self._duckdb.own_rows(self._duckdb.translated(sql))
        except SqlError:
            return self._by_spark().rows(sql)
        except TableError as error:
            if isinstance(error.__cause__, duckdb.IOException):  # no engine reads a file that is gone
                raise
            return self._by_spark().rows(sql)

    def _by_spark(self) -> SparkEngine:
        if self._spark is None:
            self._spark = SparkEngine(self._start())
            for name, pinned in self._pinned.items():
                self._spark.view(name, pinned)
        return self._spark

    def own_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement in DuckDB's SQL; raises ``TableError``."""
        return self._duckdb.own_rows(sql)

    def columns(self, relation: str) -> dict[str, str]:
        """Names of the columns, with DuckDB's names of their types."""
        return self._duckdb.columns(relation)

    def close(self) -> None:
        """Drop the temporary views."""
        if self._spark is not None:
            self._spark.close()


def spark_frame(spark: SparkSession, pinned: Pinned) -> DataFrame:
    """The rows of a pinned table, or of the part of it that was written since."""
    from pyspark.sql import functions as F

    frame = spark.read.format("delta").option("versionAsOf", pinned.version).load(pinned.path)
    files = pinned.new_files()
    if files is None:
        return frame
    names = [unquote(file.rpartition("/")[2]) for file in files]
    return frame.where(F.col("_metadata.file_name").isin(names))


def fits_duckdb(settings: Settings, path: str, others: Sequence[str], snapshot: Snapshot | None) -> bool:
    """Whether DuckDB evaluates the short forms of a suite.

    Args:
        settings: The settings; ``quality.engine`` decides alone unless it is ``auto``.
        others: Paths of the other tables that the suite reads.
    """
    if settings.quality.engine != "auto":
        return settings.quality.engine == "duckdb"
    if not all(is_local(one) for one in (path, *others)):
        return False
    return snapshot is None or snapshot.bytes <= settings.quality.duckdb_mb * 2**20
