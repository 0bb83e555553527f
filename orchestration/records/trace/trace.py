"""Where a record is: found by a silver row's key, a gold row, an offset or a quarantined row, and followed.

Reads tables and logs by DuckDB; starts no Spark and asks no broker. A condition of the user is run in a
database that opens the pipeline's tables and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.config.paths import Layout, queryable_tables
from common.declare import Gold, Join, Pipeline, Silver
from common.errors import TableError, TableMissingError, UsageError, nearest
from common.sql.quoting import double_quoted
from orchestration.access.query.allowed_sql import refuse_unsafe_expression, refused_condition
from orchestration.access.query.duckdb_views import Database
from orchestration.access.query.record_place import Place
from orchestration.access.query.shown_values import part
from orchestration.records.trace.behind import RECORD, Behind
from orchestration.records.trace.gold_rows import Rows
from orchestration.records.trace.gold_way import passed, reached
from orchestration.records.trace.lookups import Lookups
from orchestration.records.trace.record import Record, bronze_of
from orchestration.records.trace.row_history import RowChange
from orchestration.records.trace.tables import Tables, commit_document
from orchestration.records.trace.truncations import truncations_of

_IN_QUARANTINE = ("topic", "partition", "offset")
_MOST_ROWS = 1_000

MOST_WHOLE = 10
"""So many records are traced one by one, with the rows of gold; more of them set by set."""


class Trace:
    """Finds and follows records of one pipeline.

    Args:
        has_values: Whether the result has the gold rows before and after, with their values.
    """

    def __init__(self, pipeline: Pipeline, layout: Layout, *, has_values: bool = False) -> None:
        database = Database([layout.table_path(name) for name in queryable_tables(pipeline)])
        self._tables = Tables(database, pipeline, layout)
        self._has_values = has_values
        self._passed_before: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def record(self, place: Place) -> dict[str, Any]:
        """The whole way of a record; as ``records``."""
        (found,) = self.records([place])
        return found

    def records(self, places: Sequence[Place]) -> list[dict[str, Any]]:
        """The ways of records, in their order.

        Of more than ``MOST_WHOLE`` records the gold tables that have read them are told, and not what became
        of the rows there; nor what changed their rows in silver after they came.

        Raises:
            UsageError: No bronze table has read the topic.
            TableError: A table cannot be read.
        """
        topics = {topic: bronze_of(self._tables, topic) for topic in {place.topic for place in places}}
        looked = {
            bronze: Lookups(self._tables, bronze, [one for one in places if topics[one.topic] == bronze])
            for bronze in set(topics.values())
        }
        is_whole = len(places) <= MOST_WHOLE
        return [self._way(place, looked[topics[place.topic]], is_whole=is_whole) for place in places]

    def _way(self, place: Place, looked: Lookups, *, is_whole: bool) -> dict[str, Any]:
        record = Record(self._tables, place, looked.bronze, looked)
        in_silver = self._in_silver if is_whole else self._only_in_silver
        return {
            **part(place),
            "bronze": record.document(),
            "silver": [in_silver(record, silver) for silver in record.silvers()],
        }

    def _only_in_silver(self, record: Record, silver: Silver) -> dict[str, Any]:
        """What silver has made of one record of many, and the gold tables that have read its row."""
        told, _, _ = record.in_silver(silver, is_alone=False)
        there = told["version"] if told["place"] == "silver" else None
        told["gold"] = [] if there is None else self._passed(silver.table, there)
        return {**told, "changes": []}

    def _passed(self, table: str, version: int) -> list[dict[str, Any]]:
        known = table, version
        if known not in self._passed_before:
            self._passed_before[known] = passed(self._tables, table, version)
        return self._passed_before[known]

    def _in_silver(self, record: Record, silver: Silver) -> dict[str, Any]:
        told, came, others = record.in_silver(silver)
        told["gold"] = [] if came is None else self._reached(record, silver, came)
        if came is None and told["place"] == "silver" and told["version"] is not None:
            source = self._tables.source(silver.table)
            rows = f"SELECT * FROM {source} WHERE {record.place.condition('_kafka_')}"
            at = Rows(silver.table, told["version"], rows, record.place)
            told["gold"] = reached(self._tables, at, has_values=self._has_values)
        told["changes"] = [
            {
                "change": one.change,
                "how": one.how,
                "columns": list(one.columns),
                **commit_document(one.commit),
                "gold": self._reached(record, silver, one),
            }
            for one in others
        ]
        return told

    def _reached(self, record: Record, silver: Silver, change: RowChange) -> list[dict[str, Any]]:
        is_gone = change.change == "deleted"
        rows = Rows(silver.table, change.commit.version, change.sql, record.place, is_gone)
        return reached(self._tables, rows, has_values=self._has_values)

    def by_key(self, table: str, key: Sequence[str], limit: int) -> list[Place]:
        """The records of the rows with a key.

        Of a key that a truncation has taken out of a gold table, the last record that was its row.

        Raises:
            UsageError: The table has no declared key, or one of another number of columns.
        """
        declared = self._declared(table)
        names: Sequence[str] = getattr(declared, "key", ())
        if not names:
            raise UsageError(f"{table} declares no key; find its rows by a condition: --where")
        if len(key) != len(names):
            raise UsageError(
                f"{table} has the key {', '.join(names)}; give --key {len(names)} times, in this order"
            )
        source, columns = self._source(table), self._columns(table)
        same = " AND ".join(f"{double_quoted(name)} = CAST(? AS {columns[name]})" for name in names)
        found = self._places(source, same, list(key), limit, RECORD)
        if found or isinstance(declared, Silver):
            return found
        truncations = truncations_of(self._tables, declared)
        last = truncations and truncations.last([f"CAST(? AS {columns[name]})" for name in names], key)
        return [last] if last else []

    def by_condition(self, table: str, where: str, limit: int) -> list[Place]:
        """The records that the rows which meet a condition are made of.

        Raises:
            UsageError: The condition is none, or of which records they are made cannot be computed.
        """
        declared, source = self._declared(table), self._source(table)
        if set(RECORD) <= self._columns(table).keys() and not isinstance(declared, Join):
            return self._places(source, f"({where})", [], limit, RECORD)
        refuse_unsafe_expression(self._tables.database.connection, "--where", where)
        rows = f"SELECT * FROM {source} WHERE ({where}) LIMIT {_MOST_ROWS}"
        return Behind(self._tables).places(declared, rows, limit)

    def in_quarantine(self, table: str, where: str | None, limit: int) -> list[Place]:
        """The records of quarantined rows of a silver table.

        Raises:
            UsageError: The table is no silver table, or the condition is none.
        """
        declared = self._declared(table)
        if not isinstance(declared, Silver):
            raise UsageError(f"{table} has no quarantine; name a silver table")
        source = self._source(declared.quarantine)
        return self._places(source, f"({where})" if where else "true", [], limit, _IN_QUARANTINE)

    def _places(
        self, source: str, condition: str, values: list[str], limit: int, names: Sequence[str]
    ) -> list[Place]:
        import duckdb

        listed = ", ".join(map(double_quoted, names))
        of_records = f"{double_quoted(names[0])} IS NOT NULL"  # rows of other programs are of no record
        sql = f"SELECT DISTINCT {listed} FROM {source} WHERE ({condition}) AND {of_records} "
        sql += f"ORDER BY ALL LIMIT {limit + 1}"
        if not values:
            refuse_unsafe_expression(self._tables.database.connection, "--where", condition)
        try:
            found = self._tables.database.connection.execute(sql, values).fetchall()
        except duckdb.Error as error:
            raise refused_condition(error) from error
        return [Place(*row) for row in found]

    def _declared(self, table: str) -> Silver | Gold:
        known = {one.table: one for one in (*self._tables.pipeline.silver, *self._tables.pipeline.gold)}
        if table not in known:
            raise UsageError(f"{table} is no silver or gold table of the pipeline; {nearest(table, known)}")
        return known[table]

    def _source(self, table: str) -> str:
        source = self._tables.source(table)
        if source is None:
            raise TableMissingError(table, self._tables.layout.table_path(table))
        return source

    def _columns(self, table: str) -> dict[str, str]:
        import duckdb

        try:
            found = self._tables.database.connection.execute(f"DESCRIBE SELECT * FROM {self._source(table)}")
        except duckdb.Error as error:
            raise TableError(f"{table} cannot be read: {error}") from error
        return {str(row[0]): str(row[1]) for row in found.fetchall()}
