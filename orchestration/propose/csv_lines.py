"""Reads sampled lines of delimited text: separator, header and the texts that stand for null. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestration.propose.value_shapes import Number, kind_of_text

_SEPARATORS = (",", ";", "\t", "|")
_NULLS = ("?", "NA", "N/A", "n/a", "#N/A", "-", "null", "NULL", "None", "NaN", "nan", "\\N")
_WORDS = {
    "NA": re.compile(r"[A-Z]{2}"),
    "-": re.compile(r"[^\w\s]"),
    "None": None,
    "NaN": None,
    "nan": None,
}
"""Marks that are also words, each with the texts beside which it is one: Namibia among codes of countries.

They are null only if a column of another type has them.
"""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][\w .()/-]*", re.ASCII)
_MOSTLY = 0.99


@dataclass
class Lines:
    """The lines of a sample, split into fields.

    Attributes:
        header: Names of the columns, from the header line; empty if there is none.
        rows: Fields per line, without the header line.
        places: The place in the sample of the line of each row.
        odd: Number of lines with another number of fields.
        nulls: Texts that stand for null in every column, besides the empty one.
        other_nulls: Per column, texts that stand for null there and are words in another column.
    """

    separator: str
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    odd: int = 0
    nulls: list[str] = field(default_factory=list)
    other_nulls: list[list[str]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    def documents(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Each row as a document with these names; a null field is not in it."""
        return (self._document(names, row) for row in self.rows)

    def all_documents(self, names: Sequence[str], texts: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Each further line as such a document, without the header line and lines of other widths."""
        for text in texts:
            row = _fields(text, self.separator)
            if len(row) == self.width and row != self.header:
                yield self._document(names, row)

    def _document(self, names: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
        return {
            name: _value(text)
            for name, text, others in zip(names, row, self.other_nulls, strict=True)
            if text and text not in self.nulls and text not in others
        }


def read(texts: Sequence[str]) -> Lines | None:
    """The lines of a sample; ``None`` if they are no delimited text."""
    for separator in _SEPARATORS:
        rows = [_fields(text, separator) for text in texts]
        widths = Counter(len(row) for row in rows)
        width, number = widths.most_common(1)[0]
        if width > 1 and number > 1 and number >= _MOSTLY * len(rows):
            places = [place for place, row in enumerate(rows) if len(row) == width]
            lines = Lines(separator, rows=[rows[place] for place in places], places=places)
            lines.odd = len(rows) - len(places)
            _take_header(lines)
            _find_nulls(lines)
            return None if _is_prose(lines) else lines
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
    is_typed = any(_kind(text) != "other" for row in rest for text in row)
    is_plain = all(text == text.strip() and "_" in text for text in first)
    if is_typed or is_plain:
        lines.header, lines.rows, lines.places = first, rest, lines.places[1:]


def _is_prose(lines: Lines) -> bool:
    """Whether commas may be those of sentences: blanks follow them, and no column has a name or a type."""
    columns = [Counter(column) for column in zip(*lines.rows, strict=True)]
    return (
        not lines.header
        and not any(map(_is_typed, columns))
        and any(text.startswith(" ") for column in columns[1:] for text in column)
    )


def _find_nulls(lines: Lines) -> None:
    columns = [Counter(column) for column in zip(*lines.rows, strict=True)]
    typed = [_is_typed(column) for column in columns]
    found = [
        mark
        for mark in _NULLS
        if any(
            mark in column and (is_typed or mark not in _WORDS)
            for column, is_typed in zip(columns, typed, strict=True)
        )
    ]
    words = {mark for mark in found if any(_is_word(mark, column) for column in columns)}
    lines.nulls = [mark for mark in found if mark not in words]
    lines.other_nulls = [
        [mark for mark in found if mark in words and mark in column and is_typed]
        for column, is_typed in zip(columns, typed, strict=True)
    ]


def _values(column: Counter[str]) -> Counter[str]:
    return Counter({text: number for text, number in column.items() if text and text not in _NULLS})


def _is_typed(column: Counter[str]) -> bool:
    values = _values(column)
    others = sum(number for text, number in values.items() if _kind(text) == "other")
    return bool(values) and others <= (1 - _MOSTLY) * values.total()


def _is_word(mark: str, column: Counter[str]) -> bool:
    """Whether the column has the mark among texts that look like it."""
    like, values = _WORDS.get(mark), _values(column)
    if like is None or mark not in column:
        return False
    return 2 * sum(number for text, number in values.items() if like.fullmatch(text)) > values.total()


def _kind(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return "number"
    return "boolean" if text in ("true", "false") else kind_of_text(text)


def _value(text: str) -> Number | bool | str:
    kind = _kind(text)
    if kind == "number":
        return Number(text)
    return text == "true" if kind == "boolean" else text
