"""The gold tables that a row of silver has reached, each with those that read it in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.declare import Gold, Join, View
from common.errors import SqlError, TableError, first_line
from orchestration.access.declaration.lineage import read_tables
from orchestration.records.trace.gold_keys import gold_keys
from orchestration.records.trace.gold_rows import Batch, GoldChange, GoldRows, Rows, newest_batch, read_by
from orchestration.records.trace.tables import Tables, commit_document

_MOST_ROWS = 5
_NOT_READ = "not read yet, or its commit is gone from the log"


def reached(tables: Tables, rows: Rows, *, has_values: bool) -> list[dict[str, Any]]:
    """The gold tables that rows of a table have reached, each with those that read it in turn."""
    found = []
    for gold in tables.pipeline.gold:
        names = read_tables(gold)
        if rows.table in names:
            found.append(_in_gold(tables, gold, names, rows, has_values=has_values))
    return found


def passed(tables: Tables, table: str, version: int) -> list[dict[str, Any]]:
    """The gold tables that have read a version of a table, by their logs alone; no row is looked up."""
    found = []
    for gold in tables.pipeline.gold:
        names = read_tables(gold)
        if table not in names:
            continue
        batches = read_by(tables, gold.table, names.index(table), version)
        last = batches[-1].last if batches else None
        why = "of so many records its rows are not looked up: trace one by its offset"
        told = {"table": gold.table, "kind": type(gold).__name__, "rows": []}
        told |= {"why": why if last else _NOT_READ, **commit_document(last)}
        found.append({**told, "gold": []})  # whether it has passed the record on, only its rows say
    return found


def _in_gold(
    tables: Tables, gold: Gold, names: Sequence[str], rows: Rows, *, has_values: bool
) -> dict[str, Any]:
    told: dict[str, Any] = {"table": gold.table, "kind": type(gold).__name__, "rows": [], "why": ""}
    batches = read_by(tables, gold.table, names.index(rows.table), rows.version)
    if not batches:
        why = _NOT_READ
        if isinstance(gold, Join) and gold.mode == "lookup" and rows.table == gold.joins:
            why = f"not followed: each row of {gold.reads} looks this table up once, when it comes"
        return {**told, **commit_document(None), "why": why, "gold": []}
    batch = batches[-1]
    following: Rows | None = Rows(gold.table, batch.last.version, None, rows.place, rows.is_gone)
    try:
        found = _looked_up(tables, gold, rows, batches)
        if found is None:
            told["why"] = "its rows are not looked up: a function of your own makes them"
        else:
            rows_there, batch, changes = found
            told["rows"] = [one.document(has_values=has_values) for one in changes[:_MOST_ROWS]]
            told["why"] = "" if changes else rows_there.why_none(batch)
            following = rows_there.following(batch, changes)
    except (SqlError, TableError) as error:
        told["why"] = f"its rows are not looked up: {first_line(error)}"
    told |= commit_document(batch.last)
    more = [] if following is None else reached(tables, following, has_values=has_values)
    return {**told, "gold": more}


def _looked_up(
    tables: Tables, gold: Gold, rows: Rows, batches: Sequence[Batch]
) -> tuple[GoldRows, Batch, list[GoldChange]] | None:
    """The gold rows, the micro-batch that brought them, what it made of them; None for a function's table.

    Of a view the other tables count as each micro-batch has read them: first those that have read the rows,
    then the newest one, as a row may wait for one of another table.
    """
    if rows.sql is None:
        return None
    if not isinstance(gold, View):
        keys = gold_keys(tables, gold, rows.table, rows.sql)
        there = None if keys is None else GoldRows(tables, gold, rows, keys)
        return None if there is None else (there, *there.found(batches))
    newest = newest_batch(tables, gold.table)
    found: list[tuple[GoldRows, Batch, list[GoldChange]]] = []
    for batch in batches if newest in batches else (*batches, newest):
        keys = gold_keys(tables, gold, rows.table, rows.sql, batch.last.counts.get("versions"))
        assert keys is not None  # only tables of functions have none  # noqa: S101
        there = GoldRows(tables, gold, rows, keys)
        found.append((there, *there.found([batch])))
        if any(one.change != "unchanged" for one in found[-1][2]):
            return found[-1]
    return next((each for each in found if each[2]), found[-1])
