r"""The result of a query, as a table for people, as CSV, and as JSON.

In all of them: times in UTC, bytes as UTF-8 text with ``\xNN`` for invalid bytes, decimals exact.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TextIO

from rich import box
from rich.console import Console, ConsoleRenderable, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from common.machine.terminal import escape
from orchestration.access.query.duckdb_views import QueryResult

_INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")}
_NUMBERS = {*_INTEGERS, "INTEGER", "UINTEGER", "DOUBLE", "FLOAT", "DECIMAL"}
_WIDEST_CELL = 60
_MOST_COUNTED = 100_000


def print_table(answer: QueryResult, limit: int, console: Console) -> None:
    """Print the first rows as a table, or as records where the terminal is too narrow, and count the rest."""
    rows = (row for batch in answer.batches for row in batch)
    shown = list(islice(rows, limit))
    if not answer.columns:
        return
    table = _table(answer, shown)
    width = Measurement.get(console, console.options.update(max_width=100_000), table).maximum
    if not console.is_terminal:
        Console(file=console.file, width=max(width, 1)).print(table)
    elif width <= console.width:
        console.print(table)
    else:
        console.print(_records(answer, shown))
    more = sum(1 for _ in islice(rows, _MOST_COUNTED))
    console.print(Text(_footer(len(shown), more), style="dim"))


def write_csv(answer: QueryResult, limit: int | None, to: TextIO) -> None:
    """The rows as CSV with a header; a null is an empty field."""
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in _limited(answer, limit):
        writer.writerow(["" if value is None else plain(value) for value in row])


def write_json(answer: QueryResult, limit: int | None, to: TextIO) -> None:
    """The rows as one JSON array of objects."""
    before = "["
    for row in _limited(answer, limit):
        record = dict(zip(answer.columns, map(_json, row), strict=True))
        to.write(f"{before}\n  {_json_text(record)}")
        before = ","
    to.write("[]\n" if before == "[" else "\n]\n")


def plain(value: object) -> str:
    """A value as text."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return shown_time(value, "microseconds" if value.microsecond % 1000 else "milliseconds")
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case dict() | list():
            return json.dumps(_json(value), ensure_ascii=False)
        case _:
            return str(value)


def shown_time(moment: datetime, timespec: str = "milliseconds") -> str:
    """``2026-03-01 12:00:00.250Z``; without the Z where the column has no time zone."""
    aware = moment.tzinfo is not None
    local = moment.astimezone(UTC).replace(tzinfo=None) if aware else moment
    return local.isoformat(sep=" ", timespec=timespec) + ("Z" if aware else "")


def _limited(answer: QueryResult, limit: int | None) -> Iterable[tuple[Any, ...]]:
    return islice((row for batch in answer.batches for row in batch), limit)


def _table(answer: QueryResult, rows: Iterable[tuple[Any, ...]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for name, kind in zip(answer.columns, answer.types, strict=True):
        number = kind.partition("(")[0] in _NUMBERS and not kind.endswith("]")
        table.add_column(Text(name), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(value, _WIDEST_CELL) for value in row))
    return table


def _records(answer: QueryResult, rows: list[tuple[Any, ...]]) -> ConsoleRenderable:
    def parts() -> Iterator[ConsoleRenderable]:
        for number, row in enumerate(rows, 1):
            grid = Table.grid(padding=(0, 2))
            grid.add_column(style="bold", no_wrap=True)
            grid.add_column(overflow="fold")
            for name, value in zip(answer.columns, row, strict=True):
                grid.add_row(Text(name), _cell(value, 1_000))
            yield Text(f"row {number}", style="dim")
            yield grid

    return Group(*parts())


def _cell(value: object, widest: int) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    text = "".join(letter if letter.isprintable() else escape(letter) for letter in plain(value))
    return Text(text if len(text) <= widest else f"{text[: widest - 1]}…")


def _json_text(value: object) -> str:
    """JSON text in which each character that would control a terminal has JSON's own escape."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    # Outside of strings JSON has printable characters alone.
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _footer(shown: int, more: int) -> str:
    count = f"{shown:,} row{'' if shown == 1 else 's'}"
    if more == 0:
        return count
    if more >= _MOST_COUNTED:
        return f"{count}, and more than {_MOST_COUNTED:,} more; --limit N shows more of them"
    return f"{count}, and {more:,} more; --limit {shown + more} shows all"


def _json(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json(part) for part in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, datetime):
        aware = value.tzinfo is not None
        utc = value.astimezone(UTC).replace(tzinfo=None) if aware else value
        return utc.isoformat() + ("Z" if aware else "")
    return plain(value)
