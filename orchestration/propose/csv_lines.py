"""Reads sampled lines of delimited text: separator, header, null marks, and a type per column. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestration.propose.value_shapes import Number, Shape, kind_of_text

_SEPARATORS = (",", ";", "\t", "|")
_NULLS = ("?", "NA", "N/A", "-", "null", "NULL", "\\N")
_FEW_NULLS = ("NA", "-")
"""Marks that are also words: Namibia, a dash. They are null only beside values of another type."""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][\w .()/-]*", re.ASCII)
_MOSTLY = 0.99


@dataclass
class Lines:
    """The lines of a sample, split into fields.

    Attributes:
        names: Names of the columns, from the header line; empty if there is none.
        rows: Fields per line, without the header line.
        odd: Number of lines with another number of fields.
        null_text: The text that stands for null most often; empty for an empty field.
        other_nulls: Per column, further texts that stand for null.
        types: The DDL type per column.
    """

    separator: str
    names: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    odd: int = 0
    null_text: str = ""
    other_nulls: list[list[str]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])


def read(texts: Sequence[str]) -> Lines | None:
    """The lines of a sample; ``None`` if they are no delimited text."""
    for separator in _SEPARATORS:
        rows = [_fields(text, separator) for text in texts]
        widths = Counter(len(row) for row in rows)
        width, number = widths.most_common(1)[0]
        if width > 1 and number > 1 and number >= _MOSTLY * len(rows):
            usual = [row for row in rows if len(row) == width]
            lines = Lines(separator, rows=usual, odd=len(rows) - len(usual))
            _take_header(lines)
            _find_nulls(lines)
            lines.shapes = [_shape(lines, place) for place in range(width)]
            lines.types = [_type(lines, place) for place in range(width)]
            return lines
    return None


def _fields(text: str, separator: str) -> list[str]:
    try:
        rows = list(
            csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""), delimiter=separator, strict=True)
        )
    except csv.Error:
        return []
    return rows[0] if len(rows) == 1 else []


def _take_header(lines: Lines) -> None:
    """Take the first line as names if it has only names, of which no other line has one in its place."""
    first, *rest = lines.rows
    lowered = {text.strip().lower() for text in first}
    if not rest or len(lowered) != len(first) or any(kind_of_text(text) != "other" for text in first):
        return
    if not all(_NAME.fullmatch(text.strip()) and text not in _NULLS for text in first):
        return
    columns = list(zip(*rest, strict=True))
    if any(name in column for name, column in zip(first, columns, strict=True)):
        return
    is_typed = any(_NUMBER.fullmatch(text) or kind_of_text(text) != "other" for row in rest for text in row)
    is_plain = all(text == text.strip() and "_" in text for text in first)
    if is_typed or is_plain:
        lines.names, lines.rows = first, rest


def _find_nulls(lines: Lines) -> None:
    found: Counter[str] = Counter()
    per_column: list[list[str]] = []
    for column in zip(*lines.rows, strict=True):
        values = [text for text in column if text not in _NULLS and text]
        is_typed = bool(values) and all(_kind(text) != "other" for text in values)
        marks = [
            mark
            for mark in (*_NULLS, "")
            if mark in column and (is_typed or mark not in _FEW_NULLS or mark == "")
        ]
        per_column.append(marks)
        found.update({mark: column.count(mark) for mark in marks})
    lines.null_text = found.most_common(1)[0][0] if found else ""
    lines.other_nulls = [[mark for mark in marks if mark != lines.null_text] for marks in per_column]


def _kind(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return "number"
    return "boolean" if text in ("true", "false") else kind_of_text(text)


def _shape(lines: Lines, place: int) -> Shape:
    name = lines.names[place] if lines.names else ""
    shape = Shape(depth=1, name=name)
    for row in lines.rows:
        text = row[place]
        if text == lines.null_text or text in lines.other_nulls[place]:
            continue
        kind = _kind(text)
        shape.add(Number(text) if kind == "number" else (text == "true") if kind == "boolean" else text)
    return shape


def _type(lines: Lines, place: int) -> str:
    """A column with a second null mark is a text, whose marks an expression makes null."""
    return "string" if lines.other_nulls[place] else lines.shapes[place].type
