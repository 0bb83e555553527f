"""Why a gold table has no row of a record that it has read, in words: what it waits for, or what is amiss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.declare import Aggregate, Gold, History, Join, View, Window
from orchestration.access.query.shown_values import iso
from orchestration.records.proof.definitions import END, IN_ROWS, windows_of
from orchestration.records.trace.gold_keys import AT, GoldKeys
from orchestration.records.trace.tables import Tables

_WHERE = "where is not true for it"


def comes_later(gold: Gold) -> bool:
    """Whether rows may come in a later micro-batch than the one that reads the record."""
    return isinstance(gold, (Aggregate, Join)) and gold.mode in {"append", "stream"}


def why_no_row(tables: Tables, gold: Gold, table: str, rows: str, keys: GoldKeys) -> str:
    """Why there is no row.

    Args:
        table: The source that has the record.
        rows: A query for the record's rows there.
        keys: The gold table's rows that they belong to.

    Raises:
        TableError: A table cannot be read.
    """
    if isinstance(gold, View):
        return "no row: its statement gave none for this record, with the other tables as it has read them"
    found = tables.rows(f"SELECT * FROM ({keys.sql}) LIMIT 1")
    if isinstance(gold, Aggregate):
        return _of_group(tables, gold, rows, found)
    if not found and gold.where is not None and table == gold.reads:
        return f"no row: the record does not count: {_WHERE}"
    if isinstance(gold, Join):
        return _of_join(gold, table)
    return _of_interval(gold, found) if isinstance(gold, History) else "no row of its key"


def _of_interval(gold: History, found: Sequence[Mapping[str, object]]) -> str:
    if all(row[AT] is None for row in found):
        return f"no row: {gold.valid_by} is null"
    return "no row: the record begins no interval and ends none"


def _of_group(tables: Tables, gold: Aggregate, rows: str, found: Sequence[Mapping[str, object]]) -> str:
    if not found or found[0].get(AT, "") is None:
        conditions = [] if gold.where is None else [_WHERE]
        conditions += [] if gold.window is None else [f"its {gold.window.on} is null"]
        return f"no row: the record does not count: {' or '.join(conditions)}"
    behind = f"the watermark, {gold.watermark} behind the newest event"
    if gold.mode == "append" and isinstance(gold.window, Window):
        source = tables.source(gold.table)
        windows = windows_of(f"({rows})", gold.window)
        (of_record,) = tables.rows(f"SELECT max({IN_ROWS[END]}) AS at FROM {windows}")
        (written,) = tables.rows(f"SELECT max({END}) AS at FROM {source}")
        if written["at"] is None or written["at"] < of_record["at"]:
            return f"no row yet: it waits until {behind}, has passed {iso(of_record['at'])}"
    elif gold.mode == "append":
        text = f"no row yet: it waits until {behind}, has passed the end of the session"
        return f"{text}; a record later than the watermark does not count"
    elif gold.watermark is None:
        return "no row of its group"
    return f"no row: the record was later than {behind}: its window was closed"


def _of_join(gold: Join, table: str) -> str:
    if gold.within is None:
        other = gold.joins if table == gold.reads else gold.reads
        return f"no row: nothing in {other} matches it"
    alone = " and a row without a match for the watermark" if gold.how == "left" else ""
    late = f"{gold.within.watermark} for {gold.reads}, {gold.within.joins_watermark} for {gold.joins}"
    return f"no row yet: a pair waits for both rows{alone}; later than the watermark ({late}) none is joined"
