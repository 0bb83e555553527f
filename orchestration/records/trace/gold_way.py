"""The gold tables that a row of silver has reached, and what it changed in them.

A gold table's row is found by the key that its declaration makes of the row. What it was before is the
version before the micro-batch that has read the row; other rows may have changed it in the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from common.declare import Aggregate, ChangeFeed, Custom, Gold, History, Join, Upsert, View, Window
from common.delta.checkpoint import delta_position_of
from common.errors import SqlError, TableError, first_line
from common.sql.duckdb_text import expression
from common.sql.quoting import double_quoted
from orchestration.access.declaration.lineage import sources
from orchestration.records.audit.table_log import TableCommit
from orchestration.records.proof.definitions import START, windows_of
from orchestration.records.trace.behind import RECORD, group_keys, on_columns, source_of, view_rows
from orchestration.records.trace.tables import Tables, commit_document

_MOST_ROWS = 5
_MOST_BATCHES = 20
_MOST_READ = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table that gold tables read.

    Attributes:
        table: The table.
        version: The version in which they were written.
        sql: A query that gives them; None where it is not known which rows of the table they are.
    """

    table: str
    version: int
    sql: str | None


def reached(tables: Tables, rows: Rows, *, has_values: bool) -> list[dict[str, Any]]:
    """The gold tables that rows of a table have reached, each with those that read it in turn."""
    found = []
    for gold in tables.pipeline.gold:
        names = gold.sources if isinstance(gold, View) else sources(gold)
        if rows.table in names:
            found.append(_in_gold(tables, gold, names, rows, has_values=has_values))
    return found


def _in_gold(
    tables: Tables, gold: Gold, names: Sequence[str], rows: Rows, *, has_values: bool
) -> dict[str, Any]:
    told: dict[str, Any] = {"table": gold.table, "kind": type(gold).__name__, "rows": [], "why": ""}
    batches = _read_by(tables, gold.table, names.index(rows.table), rows.version)
    if not batches:
        return {
            **told,
            **commit_document(None),
            "why": "not read yet, or its commit is gone from the log",
            "gold": [],
        }
    batch, following = batches[-1], None
    try:
        keys = None if rows.sql is None else gold_keys(tables, gold, rows.table, rows.sql)
        if keys is None:
            told["why"] = "its rows are not looked up: a function of your own makes them"
        else:
            for batch in batches:
                told["rows"] = _changes(tables, gold, batch, keys, has_values=has_values)
                if any(row["change"] != "unchanged" for row in told["rows"]):
                    break
            following = _rows_of(tables, gold, batch.last.version, keys)
            if any(row["change"] == "deleted" for row in told["rows"]):
                following += f" UNION ALL BY NAME {_rows_of(tables, gold, batch.before, keys)}"
    except (SqlError, TableError) as error:
        told["why"] = f"its rows are not looked up: {first_line(error)}"
    told |= commit_document(batch.last)
    after = Rows(gold.table, batch.last.version, following)
    return {**told, "gold": reached(tables, after, has_values=has_values)}


@dataclass(frozen=True, slots=True)
class _Batch:
    """A micro-batch of a gold table: its first and its last commit, of which most have one."""

    first: TableCommit
    last: TableCommit

    @property
    def before(self) -> int:
        """The version before it; -1 if it has created the table."""
        return self.first.version - 1


def _read_by(tables: Tables, table: str, source: int, version: int) -> list[_Batch]:
    """The micro-batches of a table that have read a version of one of its sources, in part or to its end."""
    found: list[_Batch] = []
    is_done = False
    for one in tables.log(table).commits:
        if one.batch_id is None:
            continue
        if found and (one.query_id, one.batch_id) == (found[-1].last.query_id, found[-1].last.batch_id):
            found[-1] = _Batch(found[-1].first, one)
            continue
        end = None if is_done else delta_position_of(one.metadata.get("positions") or (), source)
        if is_done or len(found) == _MOST_BATCHES:
            break
        if end is None or end.version < version:
            continue
        if end.version > version or end.in_snapshot or end.index >= 0:
            found.append(_Batch(one, one))
        is_done = end.version > version and not end.in_snapshot
    return found


@dataclass(frozen=True, slots=True)
class _Keys:
    """Rows of a gold table, by some of its columns.

    Attributes:
        sql: A query for the values of the columns.
        columns: The columns; without any, all rows of the table.
        row: Columns that identify one of these rows, where they are known.
    """

    sql: str
    columns: tuple[str, ...]
    row: tuple[str, ...]


def gold_keys(tables: Tables, gold: Gold, table: str, sql: str) -> _Keys | None:
    """The gold table's rows that rows of one of its sources belong to; None for a function's table.

    Args:
        tables: The tables.
        gold: The declaration.
        table: The source.
        sql: A query that gives the source's rows.

    Raises:
        SqlError: The key's SQL is not known to mean the same in DuckDB, or a view's row has no key.
    """
    rows, window = f"({sql})", ""
    where = None if isinstance(gold, View | Custom) else gold.where
    if where is not None and table == gold.reads:
        rows = f"(SELECT * FROM {rows} WHERE {expression(where)})"
    match gold:
        case Upsert() | ChangeFeed() | History():
            columns = gold.columns if isinstance(gold.columns, Mapping) else {}
            named = {name: columns.get(name, f"`{name}`") for name in gold.key}
            more = ("valid_from",) if isinstance(gold, History) else ()
        case Aggregate():
            named, more = group_keys(gold), ()
            if isinstance(gold.window, Window):
                rows, window = windows_of(rows, gold.window), START
            elif gold.window is not None:
                more = (START,)
        case View():
            return _keys_of_view(tables, gold, table, sql)
        case Join():
            return _keys_of_join(tables, gold, table, rows)
        case _:
            return None
    keys = (*named, *([window] if window else []))
    listed = [f"{expression(text)} AS {double_quoted(name)}" for name, text in named.items()]
    listed += [window] if window else []
    return _Keys(f"SELECT DISTINCT {', '.join(listed) or '1'} FROM {rows}", keys, (*keys, *more))


def _keys_of_view(tables: Tables, view: View, table: str, sql: str) -> _Keys:
    import duckdb

    try:
        found = view_rows(tables, view).following(table, sql)
    except duckdb.Error as error:
        raise TableError(first_line(error)) from error
    listed = ", ".join(map(double_quoted, found.columns)) or "1"
    return _Keys(f"SELECT DISTINCT {listed} FROM {found.name}", found.columns, found.columns)


def _keys_of_join(tables: Tables, gold: Join, table: str, rows: str) -> _Keys:
    """The rows of a join with rows of the one table, or with rows of the other one that match them."""
    number = ("_match",) if gold.mode == "recompute" and gold.how != "semi" else ()
    listed = ", ".join(map(double_quoted, RECORD))
    if table != gold.reads:
        on = on_columns(gold)
        other = f"(SELECT {', '.join(f'{double_quoted(n)} AS __o{p}' for p, n in enumerate(on))} FROM {rows})"
        same = " AND ".join(f"{expression(sql)} = __o{place}" for place, sql in enumerate(on.values()))
        rows = f"{source_of(tables, gold.reads)} SEMI JOIN {other} ON {same}"
    return _Keys(f"SELECT DISTINCT {listed} FROM {rows}", RECORD, (*RECORD, *number))


def _rows_of(tables: Tables, gold: Gold, version: int, keys: _Keys) -> str:
    same = (f"g.{name} IS NOT DISTINCT FROM k.{name}" for name in map(double_quoted, keys.columns))
    source = tables.source(gold.table, version)
    return f"SELECT g.* FROM {source} AS g SEMI JOIN ({keys.sql}) AS k ON {' AND '.join(same) or 'true'}"


def _changes(
    tables: Tables, gold: Gold, batch: _Batch, keys: _Keys, *, has_values: bool
) -> list[dict[str, Any]]:
    """The gold rows of some keys before and after a micro-batch; those that it changed come first."""
    before, after = (
        _by_row(tables.rows(f"{_rows_of(tables, gold, version, keys)} ORDER BY ALL LIMIT {_MOST_READ}"), keys)
        if version >= 0
        else {}
        for version in (batch.before, batch.last.version)
    )
    found = []
    for key in dict.fromkeys((*before, *after)):
        for old, new in _pairs(before.get(key, []), after.get(key, [])):
            row: dict[str, Any] = {"key": dict(zip(keys.row, key, strict=True)), "change": _change(old, new)}
            row["columns"] = [n for n in new or {} if old is not None and old.get(n) != (new or {})[n]]
            found.append({**row, **({"before": old, "after": new} if has_values else {})})
    return sorted(found, key=lambda row: row["change"] == "unchanged")[:_MOST_ROWS]


def _by_row(rows: Sequence[dict[str, Any]], keys: _Keys) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in keys.row), []).append(row)
    return found


def _pairs(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """The rows of one key before and after: equal ones first, the others in their order."""
    others = list(before)
    for row in list(after):
        if row in others:
            others.remove(row)
            after = [each for each in after if each is not row]
            yield row, row
    yield from zip_longest(others, after)


def _change(old: object, new: object) -> str:
    if old is None:
        return "inserted"
    if new is None:
        return "deleted"
    return "unchanged" if old == new else "changed"
