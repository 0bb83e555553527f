"""A table of results that fits the terminal: no cell is wrapped or cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from common.machine.terminal import packed

_GAP = 3
_MILLISECONDS = re.compile(r"(\d\d:\d\d:\d\d)\.\d{3,6}")


@dataclass(frozen=True)
class Column:
    """A column."""

    name: str  # its heading
    justify: JustifyMethod = "left"  # left or right
    rank: int = 0  # 0 is always shown; of the others, the highest rank is the first to be left out
    is_time: bool = False  # milliseconds are left out where the terminal is too narrow


@dataclass(frozen=True)
class Grid:
    """Rows under headings.

    On a terminal that is too narrow it first shortens times, then leaves columns out (and names them), and at
    last prints each row as lines of names and values.
    """

    columns: Sequence[Column]  # the headings
    rows: Sequence[Sequence[Text | str]]  # one cell per column each
    title: str = ""  # printed above
    note: str = ""  # printed below
    is_packed: bool = False  # rows that do not fit are printed as few lines of ``name value, name value``

    def only(self, *names: str) -> Grid:
        """The grid with these columns alone."""
        kept = [number for number, column in enumerate(self.columns) if column.name in names]
        columns = [self.columns[number] for number in kept]
        return replace(self, columns=columns, rows=[[row[number] for number in kept] for row in self.rows])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if self.title:
            yield Text(self.title, style="italic")
        shown = list(range(len(self.columns)))
        rows = self._texts(is_short=False)
        if self._width(shown, rows) > width:
            rows = self._texts(is_short=True)
        left_out: list[str] = []
        while self._width(shown, rows) > width:
            last = max(shown, key=lambda index: (self.columns[index].rank, index))
            if self.columns[last].rank == 0:
                yield from self._packed(rows, width) if self.is_packed else self._records(rows)
                return
            shown.remove(last)
            left_out.insert(0, self.columns[last].name)
        yield self._table(shown, rows)
        notes = [self.note] if self.note else []
        notes += [f"not shown at {width} columns: {', '.join(left_out)}"] if left_out else []
        for line in packed(notes, width, "; "):
            yield Text(line, style="dim")

    def _texts(self, *, is_short: bool) -> list[list[Text]]:
        return [
            [
                _text(cell, is_short=is_short and column.is_time)
                for cell, column in zip(row, self.columns, strict=True)
            ]
            for row in self.rows
        ]

    def _width(self, shown: Sequence[int], rows: Sequence[Sequence[Text]]) -> int:
        widths = [
            max([cell_len(self.columns[index].name), *(row[index].cell_len for row in rows)])
            for index in shown
        ]
        return sum(widths) + _GAP * (len(shown) - 1)

    def _table(self, shown: Sequence[int], rows: Sequence[Sequence[Text]]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
        for index in shown:
            column = self.columns[index]
            table.add_column(Text(column.name), justify=column.justify, no_wrap=True)
        for row in rows:
            table.add_row(*(row[index] for index in shown))
        return table

    def _packed(self, rows: Sequence[Sequence[Text]], width: int) -> Iterator[Text]:
        for row in rows:
            cells = zip(row[1:], self.columns[1:], strict=True)
            parts = [f"{column.name} {cell.plain}" for cell, column in cells if cell.plain]
            yield Text(row[0].plain, style="bold")
            for line in packed(parts, width - 2):
                yield Text(f"  {line}")

    def _records(self, rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
        names = max((cell_len(column.name) for column in self.columns), default=0)
        for number, row in enumerate(rows):
            if number:
                yield Text()
            for column, cell in zip(self.columns, row, strict=True):
                line = Text.assemble((f"{column.name:<{names}}  ", "bold"), cell)
                line.no_wrap, line.overflow = True, "ignore"
                yield line


def _text(cell: Text | str, *, is_short: bool) -> Text:
    text = cell if isinstance(cell, Text) else Text(cell)
    return Text(_MILLISECONDS.sub(r"\1", text.plain), style=text.style) if is_short else text
