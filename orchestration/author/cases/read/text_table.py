r"""Tables of text: a heading and rows, with ``|`` between cells. Pure.

::

    | order_id | amount |
    |----------|--------|
    | a1       | 5.0    |

The line below the heading, and the bars at both ends, may be left out. A bar inside a cell is written ``\|``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from common.errors import Problem
from orchestration.author.cases.read.case import Place, TextTable

NO_ROWS = ("none", "empty")
"""The text of a table without rows."""

_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\s|:+-]+")


def parse_table(text: str, place: Place, what: str, problems: list[Problem]) -> TextTable:
    """The table of a text; its mistakes are added to ``problems``.

    Args:
        text: The text; ``none`` is a table without rows.
        problems: Gets a problem for each row that has another number of cells than the heading.
    """
    if text.strip().lower() in {*NO_ROWS, ""}:
        return TextTable((), (), place, ())
    lines = [
        (place.line + number, _cells(line)) for number, line in enumerate(text.splitlines()) if _is_row(line)
    ]
    (_, columns), rows = lines[0], lines[1:]
    for name in {name for name in columns if columns.count(name) > 1 or not name}:
        text = f"column {name!r} is named twice" if name else "a column has no name"
        problems.append(Problem(what, text, str(place)))
    right = []
    for number, cells in rows:
        if len(cells) == len(columns):
            right.append((number, cells))
            continue
        text = f"the row has {len(cells)} cells, and the heading {len(columns)}"
        problems.append(Problem(what, text, str(Place(place.file, number))))
    return TextTable(columns, tuple(row for _, row in right), place, tuple(number for number, _ in right))


def _is_row(line: str) -> bool:
    return bool(line.strip()) and _RULE.fullmatch(line) is None


def _cells(line: str) -> tuple[str, ...]:
    text = line.strip()
    if text.startswith("|"):
        text = text[1:-1] if text.endswith("|") and not text.endswith("\\|") else text[1:]
    return tuple(cell.strip().replace("\\|", "|") for cell in _BAR.split(text))


def format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The text of a table, its columns aligned; ``none`` for a table without rows."""
    if not rows:
        return NO_ROWS[0]
    return "\n".join(_lines(columns, [[cell.replace("|", "\\|") for cell in row] for row in rows]))


def _lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(cell_len(row[at]) for row in (columns, *rows)) for at in range(len(columns))]
    for row in (columns, *rows):
        padded = (f"{cell}{' ' * (width - cell_len(cell))}" for cell, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(padded)} |"
