"""What ``medallion test`` prints: a line per case, and the rows that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from common.machine.terminal import packed, visible, wrapped
from orchestration.author.cases.compare import Difference, Pair, describe
from orchestration.author.cases.read.case import Case
from orchestration.author.cases.run_case import Outcome

_MOST_ROWS = 20
"""Most rows of a table that are printed."""

_INDENT = " " * 8
_GAP = "   "
_ARROW = " -> "

Line = tuple[str, list[Text]]
"""A mark, and a cell per column."""


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print a case's line, and below it what differs."""
    word, style = ("ok", "green") if outcome.has_passed else ("FAIL", "bold red")
    head = f"  {word:<4}  {outcome.seconds:4.1f} s  "
    width = console.width if console.is_terminal else 10_000
    name = wrapped(visible(outcome.case.name), width, indent=" " * len(head), used=len(head))
    console.print(Text.assemble("  ", (f"{word:<4}", style), head[6:], name), soft_wrap=True)
    if outcome.error is not None:
        text = f"line {outcome.case.place.line}: {outcome.error}"
        _print(console, Text(wrapped(visible(text), width - len(_INDENT), indent="  ")))
    for difference in outcome.differences:
        text = f"line {difference.place.line}, {difference.table}: {describe(difference)}"
        _print(console, Text(wrapped(visible(text), width - len(_INDENT)), "bold"))
        for line in _rows(difference, width - len(_INDENT)):
            _print(console, line)


def summary(outcomes: Sequence[Outcome], seconds: float, started: float | None, unchanged: int = 0) -> str:
    """The last line: how many cases passed, failed or were left out as unchanged, and how long it took."""
    failed = sum(not outcome.has_passed for outcome in outcomes)
    parts = [f"{len(outcomes) - failed} passed"] + ([f"{failed} failed"] if failed else [])
    parts += [f"{unchanged} passed before and unchanged"] if unchanged else []
    after = f", after {started:.1f} s for the start of Spark" if started is not None else ""
    return f"{', '.join(parts)} in {seconds:.1f} s{after}"


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """An outcome for ``--json``."""
    return {
        "case": outcome.case.name,
        "file": str(outcome.case.place.file),
        "line": outcome.case.place.line,
        "passed": outcome.has_passed,
        "seconds": round(outcome.seconds, 3),
        "error": None if outcome.error is None else str(outcome.error),
        "differences": [
            {
                "table": each.table,
                "line": each.place.line,
                "message": describe(each),
                "columns": list(each.columns),
                "expected": [
                    {"line": p.line, "row": list(p.expected), "found": p.found and list(p.found)}
                    for p in each.pairs
                ],
                "unexpected": [list(row) for row in each.unexpected],
            }
            for each in outcome.differences
        ],
    }


def failure_text(outcome: Outcome, width: int = 100) -> str:
    """Why a case failed, as plain text."""
    lines = [f"{outcome.case.place}: {outcome.case.name}"]
    if outcome.error is not None:
        lines.append(str(outcome.error))
    for difference in outcome.differences:
        lines.append(f"{difference.place}  {difference.table}: {describe(difference)}")
        lines += [f"  {line.plain}" for line in _rows(difference, width)]
    return visible("\n".join(lines))


def file_of(case: Case) -> str:
    """The file of a case, relative to the current folder where it is below it."""
    return str(case.place).rpartition(":")[0]


def _print(console: Console, text: Text) -> None:
    for line in text.split("\n"):
        console.print(Text(_INDENT) + line, soft_wrap=True)


def _rows(difference: Difference, width: int) -> Iterator[Text]:
    """The rows that differ: as a table where that fits, else a few lines per row."""
    if difference.message:
        return
    lines = [*map(_pair_line, difference.pairs), *map(_unexpected_line, difference.unexpected)]
    shown = lines[:_MOST_ROWS]
    widths = [
        max([cell_len(name), *(cells[at].cell_len for _, cells in shown)])
        for at, name in enumerate(difference.columns)
    ]
    if sum(widths) + len(_GAP) * (len(widths) - 1) + 2 <= width:
        yield Text("  ") + _joined([Text(name, "dim") for name in difference.columns], widths)
        for mark, cells in shown:
            yield Text(f"{mark} ", _style(mark)) + _joined(cells, widths)
    else:
        for mark, cells in shown:
            yield from _record(mark, cells, difference.columns, width)
    if len(lines) > len(shown):
        yield Text(f"… and {len(lines) - len(shown)} more rows; --json has all of them", "dim")


def _pair_line(pair: Pair) -> Line:
    if pair.found is None:
        return "-", [Text(visible(cell), "red") for cell in pair.expected]
    cells = zip(pair.expected, pair.found, pair.differs, strict=True)
    return "~", [
        Text.assemble((visible(want), "red"), _ARROW, (visible(found), "green"))
        if differs
        else Text(visible(found))
        for want, found, differs in cells
    ]


def _unexpected_line(row: Sequence[str]) -> Line:
    return "+", [Text(visible(cell), "green") for cell in row]


def _style(mark: str) -> str:
    return {"-": "red", "+": "green"}.get(mark, "yellow")


def _joined(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for cell, width in zip(cells, widths, strict=True):
        line.append_text(cell)
        line.append(" " * (width - cell.cell_len) + _GAP)
    line.rstrip()
    return line


def _record(mark: str, cells: Sequence[Text], columns: Sequence[str], width: int) -> Iterator[Text]:
    """A row as lines of names and values; of a row that differs the first column and those that differ."""
    named = [
        f"{name} {cell.plain}"
        for at, (name, cell) in enumerate(zip(columns, cells, strict=True))
        if mark != "~" or at == 0 or _ARROW in cell.plain
    ]
    for number, line in enumerate(packed(named, width - 2)):
        yield Text(f"{mark} " if number == 0 else "  ", _style(mark)) + Text(line)
