"""Which rows of a gold table a record is part of: by the key that the declaration makes of its rows.

A session is found by its key and the record's time, with the sessions that it was joined from or split into;
an interval of a history if it has the record's time, or ends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from common.declare import (
    Aggregate,
    ChangeFeed,
    Gold,
    History,
    Join,
    Session,
    Upsert,
    View,
    Window,
    Within,
)
from common.declare.field_types import named
from common.declare.intervals import length_of
from common.errors import SqlError, TableError, first_line
from common.sql.duckdb.text import columns_of, expression
from common.sql.quoting import double_quoted
from orchestration.records.proof.definitions import END, IN_ROWS, START, windows_of, written
from orchestration.records.trace.behind import RECORD, source_of, view_rows
from orchestration.records.trace.tables import Tables

AT = "__at"
"""The column of the keys with the record's event time."""

_IN_SESSION = f"k.{AT} BETWEEN g.{START} AND g.{END}"
_IN_SPAN = f"g.{START} BETWEEN k.__low AND k.__high"
_IN_INTERVAL = f"g.valid_from <= k.{AT} AND (g.valid_to IS NULL OR g.valid_to >= k.{AT})"


@dataclass(frozen=True, slots=True)
class GoldKeys:
    """Rows of a gold table, by some of its columns."""

    sql: str  # a query for the values of the columns, and those that ``also`` names
    columns: tuple[str, ...]  # the columns; without any, all rows of the table
    row: tuple[str, ...]  # columns that identify one of these rows, where they are known
    also: str = ""  # a condition over a row of the keys, ``k``, and one of the table, ``g``

    def rows(self, source: str) -> str:
        """A query for these rows of the table, at one of its versions."""
        return f"SELECT g.* FROM {source} AS g SEMI JOIN ({self.sql}) AS k ON {self._match()}"

    def joined(self, sessions: str) -> GoldKeys:
        """These keys, with all sessions within those that the record is in.

        Args:
            sessions: A query for the table's rows before and after a micro-batch.
        """
        if self.also != _IN_SESSION:
            return self
        listed = "".join(f"k.{double_quoted(name)}, " for name in self.columns)
        sql = f"""SELECT {listed}min(g.{START}) AS __low, max(g.{END}) AS __high
          FROM ({self.sql}) AS k JOIN ({sessions}) AS g ON {self._match()} GROUP BY {listed}k.{AT}"""
        return replace(self, sql=sql, also=_IN_SPAN)

    def _match(self) -> str:
        same = [f"g.{name} IS NOT DISTINCT FROM k.{name}" for name in map(double_quoted, self.columns)]
        return " AND ".join([*same, *([self.also] if self.also else [])]) or "true"


def gold_keys(
    tables: Tables, gold: Gold, table: str, sql: str, versions: Mapping[str, int | None] | None = None
) -> GoldKeys | None:
    """The gold table's rows that rows of one of its sources belong to; None for a function's table.

    Args:
        sql: A query that gives the source's rows.
        versions: By table of a view, the version that counts; unset: tables count as they are now.

    Raises:
        SqlError: The key's SQL is not known to mean the same in DuckDB, or a view's row has no key.
    """
    rows = f"({sql})"
    if gold.where is not None and table == gold.reads:
        rows = f"(SELECT * FROM {rows} WHERE {written(gold.where, tables.types(rows))})"
    match gold:
        case Upsert() | ChangeFeed():
            return _keys(tables, _named(gold), rows)
        case History():
            found = _keys(tables, _named(gold), rows, {AT: double_quoted(gold.valid_by)})
            return replace(found, row=(*found.row, "valid_from"), also=_IN_INTERVAL)
        case Aggregate():
            return _keys_of_groups(tables, gold, rows)
        case View():
            return _keys_of_view(tables, gold, table, sql, versions)
        case Join():
            return _keys_of_join(tables, gold, table, rows)
        case _:
            return None


def _named(gold: Upsert | ChangeFeed | History) -> dict[str, str]:
    columns = gold.columns if isinstance(gold.columns, Mapping) else {}
    return {name: columns.get(name, f"`{name}`") for name in gold.key}


def _keys(
    tables: Tables, keys: Mapping[str, str], rows: str, more: Mapping[str, str] | None = None
) -> GoldKeys:
    """Keys of named columns, and more columns of the query in DuckDB's SQL."""
    types = tables.types(rows)
    listed = [f"{written(text, types)} AS {double_quoted(name)}" for name, text in keys.items()]
    listed += [f"{text} AS {name}" for name, text in (more or {}).items()]
    return GoldKeys(f"SELECT DISTINCT {', '.join(listed) or '1'} FROM {rows}", (*keys,), (*keys,))


def _keys_of_groups(tables: Tables, gold: Aggregate, rows: str) -> GoldKeys:
    by = named(gold.by or ())
    if isinstance(gold.window, Window):
        found = _keys(tables, by, windows_of(rows, gold.window), {START: IN_ROWS[START]})
        return replace(found, columns=(*by, START), row=(*by, START))
    if isinstance(gold.window, Session):
        found = _keys(tables, by, rows, {AT: double_quoted(gold.window.on)})
        return replace(found, row=(*by, START), also=_IN_SESSION)
    return _keys(tables, by, rows)


def _keys_of_view(
    tables: Tables, view: View, table: str, sql: str, versions: Mapping[str, int | None] | None
) -> GoldKeys:
    import duckdb

    try:
        found = view_rows(tables, view, versions).following(table, sql)
    except duckdb.Error as error:
        raise TableError(first_line(error)) from error
    listed = ", ".join(map(double_quoted, found.columns)) or "1"
    return GoldKeys(f"SELECT DISTINCT {listed} FROM {found.name}", found.columns, found.columns)


def _keys_of_join(tables: Tables, gold: Join, table: str, rows: str) -> GoldKeys:
    """The rows of a join with rows of the one table, or with rows of the other one that match them."""
    number = ("_match",) if gold.mode == "recompute" and gold.how != "semi" else ()
    listed = ", ".join(map(double_quoted, RECORD))
    if table != gold.reads:
        on, own, others = named(gold.on), source_of(tables, gold.reads), tables.types(rows)
        names = [f"{double_quoted(name)} AS __o{place}" for place, name in enumerate(on)]
        keys = [expression(sql, columns_of(tables.types(own)), written=True) for sql in on.values()]
        same = [f"{key.sql} = __o{place}" for place, key in enumerate(keys)]
        if [key.type for key in keys] != [others[name] for name in on]:
            raise SqlError("joins columns of unlike types")
        if gold.within is not None:
            names.append(f"epoch_us({double_quoted(gold.within.joins_on)}) AS __other_at")
            same += _bounds(gold.within)
        other = f"(SELECT {', '.join(names)} FROM {rows})"
        rows = f"{own} SEMI JOIN {other} ON {' AND '.join(same)}"
    return GoldKeys(f"SELECT DISTINCT {listed} FROM {rows}", RECORD, (*RECORD, *number))


def _bounds(within: Within) -> Iterator[str]:
    """Conditions that two rows are near enough in event time."""
    at = f"epoch_us({double_quoted(within.on)})"
    yield f"__other_at >= {at} + ({length_of(within.after).milliseconds * 1000})"
    yield f"__other_at <= {at} + ({length_of(within.before).milliseconds * 1000})"
