"""Chapters of tests/spec in Markdown: blocks of Python declare things, tables say what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CELLS = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"^(`+) ?(.*?) ?\1$")


@dataclass(frozen=True)
class Row:
    """A row of a chapter's table.

    Attributes:
        file: The chapter.
        line: Its line, from 1 on.
        names: What the blocks above it declare.
        head: The cells of the table's head.
        cells: Its cells.
    """

    file: Path
    line: int
    names: dict[str, Any]
    head: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def place(self) -> str:
        """Chapter and line."""
        return f"{self.file.stem}:{self.line}"

    def value(self, column: int) -> Any:
        """A cell as Python, in the place of ``…`` in the head of its column."""
        text = code(self.head[column]).replace("…", code(self.cells[column]), 1)
        return eval(text, self.names)  # noqa: S307  # text of this repository

    def write(self, texts: Mapping[int, str]) -> None:
        """Write other texts into cells, by their columns."""
        cells = [texts.get(column, text).replace("|", r"\|") for column, text in enumerate(self.cells)]
        lines = self.file.read_text(encoding="utf-8").split("\n")
        lines[self.line - 1] = f"| {' | '.join(cells)} |"
        self.file.write_bytes("\n".join(lines).encode())  # a text that is none in UTF-8 leaves the file


def code(cell: str) -> str:
    """The text of a cell that is code."""
    found = _CODE.match(cell)
    assert found is not None, cell
    return found[2]


def text(cell: str) -> str:
    """A text that is shown as code, with two characters for the end of a line and for a tab."""
    marks = {"n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(r"\\([nt\\])", lambda found: marks[found[1]], code(cell))


def rows(file: Path) -> Iterator[Row]:
    """The rows of all tables of a chapter, in its order."""
    names: dict[str, Any] = {}
    head: tuple[str, ...] = ()
    block: list[str] | None = None
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if line.startswith("```"):
            if block is not None:
                names = dict(names)  # a row has the names of the blocks above it
                exec(compile("\n".join(block), file.name, "exec"), names)  # noqa: S102  # text of this repository
            block = None if block is not None else []
        elif block is not None:
            block.append(line)
        elif not line.startswith("|"):
            head = ()
        elif not line.startswith("|---"):
            cells = tuple(one.strip().replace(r"\|", "|") for one in _CELLS.split(line)[1:-1])
            if head:
                yield Row(file, number, names, head, cells)
            head = head or cells
