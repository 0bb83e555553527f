"""A catalog of Spark in which tables at a path are found by name: the session's own, or a Hive metastore.

The metastore has a session of its own beside the queries' session. A query that resolves a path would ask
the catalog of its session too, and a metastore that is away would end the query.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from common.config.paths import Layout
from common.config.settings import Catalog
from common.errors import UsageError, first_line
from common.machine.storage_folder import StorageFolder
from common.spark import jvm
from common.sql.quoting import backquoted, spark_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kind = Literal["session", "hive"]

SESSION_CATALOG = "spark_catalog"
"""The name by which Spark knows the catalog of a session."""

_NOT_FOUND = "no catalog of the job has a table of this name"
_HOW = (
    "Catalogs are declared in spark.conf (spark.sql.catalog.…), or by the setting catalog; or name the "
    "table by its folder."
)
_ABSENT = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
)
"""What Spark says of a name that its catalog does not have."""

_log = logging.getLogger("medallion.catalog")

_UPDATES = "spark.databricks.delta.catalog.update.enabled"
"""Delta registers a table with its columns; without it, with none."""

_PATIENCE = {
    # Hive's own limits let one call wait for ten minutes.
    "hive.metastore.client.socket.timeout": "20s",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "0",
}
_PLACES = ("hive.metastore.uris", "javax.jdo.option.ConnectionURL")
"""Where a metastore is: its service, or its database."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A table of the catalog."""

    location: str  # folder or URI of the table
    schema: str  # the columns, as the JSON text of Spark's schemas
    comment: str  # the table's comment


class TableCatalog:
    """Reads and writes the entries of one catalog. Errors are those of PySpark and py4j."""

    def __init__(self, session: Any) -> None:
        """A catalog.

        Args:
            session: A session of the JVM, used by one thread.
        """
        self._session = session
        self._external = session.sharedState().externalCatalog()

    @classmethod
    def open(cls, spark: SparkSession, kind: Kind, derby: str) -> TableCatalog:
        """The catalog of a kind.

        Args:
            spark: The session of the queries, whose settings may name the metastore.
            kind: ``session``: the catalog that this session has; ``hive``: a Hive metastore.
            derby: Folder of the metastore's database where neither settings nor a hive-site.xml name one.
        """
        if kind == "session":
            return cls(jvm.new_session(spark))
        given = {name.removeprefix("spark.hadoop.") for name, _ in spark.sparkContext.getConf().getAll()}
        options = {name: value for name, value in _PATIENCE.items() if name not in given}
        options |= {"spark.sql.catalogImplementation": "hive", _UPDATES: "true"}
        if not given & set(_PLACES) and not jvm.has_resource("hive-site.xml"):
            options |= {
                "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={derby};create=true",
                "datanucleus.schema.autoCreateAll": "true",
                "hive.metastore.schema.verification": "false",
            }
        return cls(jvm.separate_session(spark, options))

    def find(self, database: str, table: str) -> Registered | None:
        """A table of the catalog; None where the catalog has no such table."""
        if not self._external.databaseExists(database) or not self._external.tableExists(database, table):
            return None
        found = self._external.getTable(database, table)
        uri, comment = found.storage().locationUri(), found.comment()
        return Registered(
            location=_path(str(uri.get())) if uri.isDefined() else "",
            schema=str(found.schema().json()),
            comment=str(comment.get()) if comment.isDefined() else "",
        )

    def create(self, database: str, table: str, location: str, comment: str) -> None:
        """Register a Delta table, with the columns that it has now. Nothing is written to the table."""
        # The database gets a folder of its own: DROP DATABASE ... CASCADE deletes the database's folder.
        self._session.sql(f"CREATE DATABASE IF NOT EXISTS {backquoted(database)}")
        self._session.sql(
            f"CREATE TABLE IF NOT EXISTS {backquoted(database)}.{backquoted(table)} USING delta "
            f"COMMENT {spark_text(comment)} LOCATION {spark_text(location)}"
        )

    def replace_schema(self, database: str, table: str, schema: str) -> None:
        """Replace the columns of a registered table in the catalog alone.

        Args:
            schema: The columns, as the JSON text of Spark's schemas.
        """
        self._external.alterTableDataSchema(database, table, jvm.data_type(schema))


def look_up(spark: SparkSession, kind: Catalog, layout: Layout, name: str) -> None:
    """Find the folder of a table that a catalog names; ``layout`` then knows it.

    A catalog that does not answer leaves the folder as it was found before.

    Args:
        spark: The session of the queries, whose settings may declare catalogs.
        kind: ``hive``: names without another catalog are those of the Hive metastore.
        name: The name, in three parts.

    Raises:
        UsageError: No catalog of the session has the name, or it is never found and the catalog is away.
    """
    catalog, database, table = parts = name.split(".")
    names = StorageFolder(layout.catalog_names)
    try:
        if kind == "hive" and catalog == SESSION_CATALOG:
            found = TableCatalog.open(spark, kind, str(layout.local / "metastore")).find(database, table)
            location = "" if found is None else found.location
        else:
            sql = f"DESCRIBE DETAIL {'.'.join(map(backquoted, parts))}"
            location = _path(str(spark.sql(sql).collect()[0]["location"]))
    except (PySparkException, Py4JJavaError) as error:
        is_absent = isinstance(error, AnalysisException) and error.getCondition() in _ABSENT
        if not is_absent and names.read(name) is not None:
            _log.warning("the catalog of %s does not answer", name, exc_info=error)
            return
        raise UsageError(f"{name}: {_NOT_FOUND}: {first_line(error)}. {_HOW}") from error
    if not location:
        raise UsageError(f"{name}: {_NOT_FOUND}. {_HOW}")
    if names.read(name) != location.encode():
        names.write(name, location.encode())


def _path(location: str) -> str:
    """A location as the engine has it: a local folder without ``file:``."""
    is_local = location.startswith("file:")
    return (unquote(urlsplit(location).path) if is_local else location).rstrip("/")
