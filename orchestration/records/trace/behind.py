"""The records that rows of a silver or gold table are made of: by the declarations and the tables, in DuckDB.

A row of an upsert, a change feed or a history names its record. A group is made of the rows of its source
that have its key; a joined row of the record that it names and of the rows that this one matches; a row of a
view of what its statement says. Sources count as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from common.declare import Aggregate, Custom, Gold, Join, Session, Silver, Stateful, View
from common.declare.declared import is_outside
from common.declare.field_types import named
from common.errors import SqlError, TableError, UsageError, first_line
from common.sql.quoting import double_quoted
from common.sql.statement import read_statement
from orchestration.access.query.record_place import Place
from orchestration.records.proof.definitions import written
from orchestration.records.trace.tables import Tables
from orchestration.records.trace.view_rows import ViewRows

RECORD = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
_COORDINATES = ", ".join(map(double_quoted, RECORD))
_OF_RECORDS = f"{double_quoted(RECORD[0])} IS NOT NULL"
"""Rows of other programs are made of no record."""


@dataclass(frozen=True, slots=True)
class Behind:
    """Finds the records."""

    tables: Tables

    def places(self, declared: Silver | Gold, rows: str, limit: int) -> list[Place]:
        """The records that some rows are made of, and one more than the limit if there are more.

        Of several tables, they come in turn.

        Args:
            rows: A query for some of its rows.
            limit: Most records.

        Raises:
            UsageError: They cannot be told; says why, and what to do.
        """
        import duckdb

        try:
            found = [
                self.tables.rows(
                    f"SELECT DISTINCT {_COORDINATES} FROM ({each}) WHERE {_OF_RECORDS} "
                    f"ORDER BY ALL LIMIT {limit + 1}"
                )
                for each in self._records(declared, rows)
            ]
        except (SqlError, TableError, duckdb.Error) as error:
            raise UsageError(
                f"{declared.table}: the records of these rows cannot be computed: {first_line(error)}. Find "
                f"them in a table that it reads, by a condition: {_advice(declared)}"
            ) from error
        in_turn = (row for rows in zip_longest(*found) for row in rows if row is not None)
        return list(dict.fromkeys(Place(*row.values()) for row in in_turn))[: limit + 1]

    def _records(self, declared: Silver | Gold, rows: str) -> Iterator[str]:
        """Queries for rows with coordinates, one per table that has them."""
        match declared:
            case Aggregate():
                yield from self._of(declared.reads, self._members(declared, rows))
            case View():
                for table, queries in view_rows(self.tables, declared).behind(rows).items():
                    if not is_outside(table):
                        yield from self._of(table, " UNION ALL ".join(f"({each})" for each in queries))
            case Join():
                yield rows
                if declared.joins_a_table:
                    yield from self._of(declared.joins, self._matches(declared, rows))
            case Stateful():
                raise SqlError("a processor of your own emits them from rows and state")
            case Custom():
                raise SqlError("a function of your own makes them")
            case _:
                yield rows

    def _of(self, table: str, rows: str) -> Iterator[str]:
        declared = self.tables.pipeline.table(table)
        assert not declared.table.startswith("bronze.")  # what a declaration does not read  # noqa: S101
        yield from self._records(declared, rows)  # type: ignore[arg-type]

    def _matches(self, gold: Join, rows: str) -> str:
        """The rows of the other table that the rows of a join match."""
        same = " AND ".join(f"s.{name} = g.{name}" for name in map(double_quoted, RECORD))
        left = f"SELECT s.* FROM {self._source(gold.reads)} AS s SEMI JOIN ({rows}) AS g ON {same}"
        on = named(gold.on)
        types = self.tables.types(self._source(gold.reads))
        listed = ", ".join(f"{written(sql, types)} AS __v{place}" for place, sql in enumerate(on.values()))
        match = " AND ".join(f"o.{double_quoted(name)} = k.__v{place}" for place, name in enumerate(on))
        other = self._source(gold.joins)
        return f"SELECT o.* FROM {other} AS o SEMI JOIN (SELECT {listed} FROM ({left})) AS k ON {match}"

    def _members(self, gold: Aggregate, rows: str) -> str:
        """The rows of the source that are in some groups."""
        source = self._source(gold.reads)
        types = self.tables.types(source)
        where = "" if gold.where is None else f" WHERE {written(gold.where, types)}"
        keys = {name: f"__k{place}" for place, name in enumerate(named(gold.by or ()))}
        listed = [f"{written(sql, types)} AS __k{n}" for n, sql in enumerate(named(gold.by or ()).values())]
        same = [f"s.{key} IS NOT DISTINCT FROM g.{double_quoted(name)}" for name, key in keys.items()]
        if gold.window is not None:
            at = f"s.{double_quoted(gold.window.on)}"
            end = "<=" if isinstance(gold.window, Session) else "<"
            same.append(f"{at} >= g.window_start AND {at} {end} g.window_end")
        found = f"(SELECT {', '.join(['*', *listed])} FROM {source}{where}) AS s"
        kept = f"s.* EXCLUDE ({', '.join(keys.values())})" if keys else "s.*"
        return f"SELECT {kept} FROM {found} SEMI JOIN ({rows}) AS g ON {' AND '.join(same) or 'true'}"

    def _source(self, table: str) -> str:
        return source_of(self.tables, table)


def source_of(tables: Tables, table: str, version: int | None = None) -> str:
    """A table in a FROM clause, at its newest version unless another one is given.

    Raises:
        SqlError: It does not exist.
    """
    source = tables.source(table, version)
    if source is None:
        raise SqlError(f"{table} is not written yet")
    return source


def view_rows(tables: Tables, view: View, versions: Mapping[str, int | None] | None = None) -> ViewRows:
    """The rows of a view by the relations of its statement.

    Args:
        versions: By table, the version that the view has read; unset: tables count as they are now.

    Raises:
        SqlError: The statement is computed whole, or a table is not written yet.
    """
    sources = {
        table: tables.database.source(tables.layout.table_path(table))
        if is_outside(table)
        else source_of(tables, table, (versions or {}).get(table))
        for table in view.tables
    }
    columns = {table: list(tables.types(source)) for table, source in sources.items()}
    statement = read_statement(view.statement, columns)
    if statement.relation is None:
        raise SqlError(f"its statement is computed whole ({statement.why_whole})")
    return ViewRows(tables.database.connection, statement.relation, sources)


def _advice(declared: Silver | Gold) -> str:
    table = declared.tables[0] if isinstance(declared, View) else declared.reads
    return f"medallion trace {table} --where …"
