"""The planted bugs: each replaces a text of one file, and some test must notice it.

``bugs.tsv`` has a line per bug. In the texts of a table ``⏎`` stands for the end of a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

BUGS = Path(__file__).with_name("bugs.tsv")
_LINE_END = "⏎"
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Bug:
    """A planted bug.

    Attributes:
        why: What the bug does.
        of: What it is a bug of, separated by ``; ``: a class of a pipeline file, a command (``medallion
            audit``), or how a promise of docs/architecture.md begins; empty: only of its file's wing.
        file: The file.
        old: The text that is replaced: it occurs once in the file.
        new: The text in its place.
        tests: Files and folders of ``tests/`` in which a test must fail, separated by blanks.
        caught_by: The test that failed: the runner writes it, and begins with it the next time.
    """

    why: str
    of: str
    file: str
    old: str
    new: str
    tests: str
    caught_by: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """What it is a bug of, one by one."""
        return tuple(self.of.split("; ")) if self.of else ()

    @property
    def is_unit(self) -> bool:
        """Whether its tests start no JVM, no broker and no command."""
        return all(test.startswith("unit") for test in self.tests.split())

    def planted_in(self, text: str) -> str:
        """The text of its file, with the bug.

        Raises:
            ValueError: The text that it replaces occurs not once.
        """
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(f"{self.why}: {self.file} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


def read_rows(kind: type[_Row], table: Path) -> list[_Row]:
    """The rows of a table in its order, below a line with the names of the columns."""
    lines = table.read_text(encoding="utf-8").split("\n") if table.exists() else []
    return [kind(*(cell.replace(_LINE_END, "\n") for cell in line.split("\t"))) for line in lines[1:] if line]


def write_rows(kind: type[Any], rows: Iterable[Any], table: Path) -> None:
    """Replace a table's rows."""
    lines = ["\t".join(field.name for field in fields(kind))]
    lines += ["\t".join(str(cell).replace("\n", _LINE_END) for cell in astuple(row)) for row in rows]
    table.write_text("\n".join([*lines, ""]), encoding="utf-8")
