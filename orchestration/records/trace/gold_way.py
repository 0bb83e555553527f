"""The gold tables that a row of silver has reached, and what it changed in them.

A gold table's row is found by the key that its declaration makes of the row. What it was before is the
version before the micro-batch that has read the row; other rows may have changed it in the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.declare import Aggregate, Gold, Upsert, View, Window
from common.delta.checkpoint import delta_position_of
from common.errors import SqlError, TableError
from common.sql.duckdb_text import expression
from common.sql.quoting import double_quoted
from orchestration.access.declaration.lineage import sources
from orchestration.records.audit.table_log import TableCommit
from orchestration.records.proof.definitions import START, windows_of
from orchestration.records.trace.tables import Tables, commit_document

_MOST_ROWS = 5
_MOST_BATCHES = 20


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
        keys = key_rows(gold, rows.sql)
        if keys is None:
            told["why"] = "its rows are not looked up: they have no key that follows from one record"
        else:
            for batch in batches:
                told["rows"] = _changes(tables, gold, batch, keys, has_values=has_values)
                if any(row["change"] != "unchanged" for row in told["rows"]):
                    break
            following = _rows_of(tables, gold, batch.last.version, keys)
            if any(row["change"] == "deleted" for row in told["rows"]):
                following += f" UNION ALL BY NAME {_rows_of(tables, gold, batch.before, keys)}"
    except (SqlError, TableError) as error:
        told["why"] = str(error).splitlines()[0]
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


def key_rows(gold: Gold, sql: str | None, more: Sequence[str] = ()) -> tuple[str, tuple[str, ...]] | None:
    """A query for the keys of the gold table's rows that rows of its source belong to, and the key's columns.

    Args:
        gold: The declaration.
        sql: A query that gives the source's rows; None where they are not known.
        more: Columns of the source that the query gives besides.

    Raises:
        SqlError: The key's SQL is not known to mean the same in DuckDB.
    """
    if sql is None:
        return None
    rows, window = f"({sql})", ""
    if isinstance(gold, Upsert):
        columns = gold.columns if isinstance(gold.columns, Mapping) else {}
        named = {name: columns.get(name, f"`{name}`") for name in gold.key}
    elif isinstance(gold, Aggregate) and (gold.window is None or isinstance(gold.window, Window)):
        by = gold.by or {}
        named = dict(by) if isinstance(by, Mapping) else {name: f"`{name}`" for name in by}
        if gold.where is not None:
            rows = f"(SELECT * FROM {rows} WHERE {expression(gold.where)})"
        if gold.window is not None:
            rows, window = windows_of(rows, gold.window), START
    else:
        return None
    listed = [f"{expression(text)} AS {double_quoted(name)}" for name, text in named.items()]
    keys = (*named, *([window] if window else []))
    columns_of = [*listed, *([window] if window else []), *map(double_quoted, more)]
    return f"SELECT DISTINCT {', '.join(columns_of)} FROM {rows}", keys


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(
        f"g.{double_quoted(name)} IS NOT DISTINCT FROM k.{double_quoted(name)}" for name in keys
    )


def _rows_of(tables: Tables, gold: Gold, version: int, keys: tuple[str, tuple[str, ...]]) -> str:
    source = tables.source(gold.table, version)
    return f"SELECT g.* FROM {source} AS g JOIN ({keys[0]}) AS k ON {_same(keys[1])}"


def _changes(
    tables: Tables, gold: Gold, batch: _Batch, keys: tuple[str, tuple[str, ...]], *, has_values: bool
) -> list[dict[str, Any]]:
    """The gold rows of some keys before and after a micro-batch."""
    versions = [version for version in (batch.before, batch.last.version) if version >= 0]
    states = []
    for version in versions:
        rows = tables.rows(f"{_rows_of(tables, gold, version, keys)} LIMIT {_MOST_ROWS}")
        states.append({tuple(row[name] for name in keys[1]): row for row in rows})
    before, after = states if len(states) > 1 else [{}, *states]
    found = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        found.append(
            {
                "key": dict(zip(keys[1], key, strict=True)),
                "change": _change(old, new),
                "columns": [
                    name for name in new or {} if old is not None and old.get(name) != (new or {})[name]
                ],
                **({"before": old, "after": new} if has_values else {}),
            }
        )
    return found


def _change(old: object, new: object) -> str:
    if old is None:
        return "inserted"
    if new is None:
        return "deleted"
    return "unchanged" if old == new else "changed"
