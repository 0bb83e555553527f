"""Reads sampled lines of delimited text: separator, header and the texts that stand for null. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestration.author.propose.texts.time_layouts import layouts
from orchestration.author.propose.value_shapes import Number, kind_of_text

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
_NAME = re.compile(r"[^\W\d][^\"]{0,59}|[%#]")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_BYTE_ORDER_MARK = "\ufeff"
_MOSTLY = 0.99


@dataclass
class Lines:
    """The lines of a sample, split into fields."""

    separator: str
    # Names of the columns, from the header line; empty if there is none.
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)  # fields per line, without the header line
    places: list[int] = field(default_factory=list)  # the place in the sample of the line of each row
    odd: int = 0  # number of lines with another number of fields
    # Texts that stand for null in every column, besides the empty one.
    nulls: list[str] = field(default_factory=list)
    # Per column, texts that stand for null there and are words in another column.
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
    possible = [lines for separator in _SEPARATORS if (lines := _divided(texts, separator)) is not None]
    if len(possible) > 1 and not any("," in _DECIMAL_COMMA.sub(".", text) for text in texts[1:]):
        possible = [lines for lines in possible if lines.separator != ","]
    if not possible:
        return None
    lines = max(possible, key=lambda lines: lines.width)
    _take_header(lines)
    _find_nulls(lines)
    return None if _is_prose(lines) else lines


def has_header(texts: Sequence[str]) -> bool:
    """Whether lines are delimited text whose first line names the columns."""
    lines = read(texts) if len(texts) > 1 else None
    return lines is not None and bool(lines.header)


def _divided(texts: Sequence[str], separator: str) -> Lines | None:
    """The lines as this separator divides them; ``None`` if they have various numbers of fields."""
    rows = [_fields(text, separator) for text in texts]
    width, number = Counter(len(row) for row in rows).most_common(1)[0]
    if width == 1 or number == 1 or number < _MOSTLY * len(rows):
        return None
    places = [place for place, row in enumerate(rows) if len(row) == width]
    odd = len(rows) - len(places)
    return Lines(separator, rows=[rows[place] for place in places], places=places, odd=odd)


def _fields(text: str, separator: str) -> list[str]:
    try:
        rows = list(
            csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""), delimiter=separator, strict=True)
        )
    except csv.Error:
        return []
    return rows[0] if len(rows) == 1 else []


def _take_header(lines: Lines) -> None:
    """Take the first line as names if it has only names, of which no other line has one in its place.

    The first may lack its name, if it has numbers: those of rows, as pandas writes them.
    """
    first, *rest = lines.rows
    titles = [text.removeprefix(_BYTE_ORDER_MARK).strip() for text in first]
    if not rest or len({title.lower() for title in titles}) != len(titles):
        return
    columns = list(zip(*rest, strict=True))
    has_row_numbers = not titles[0] and all(text.isdigit() for text in columns[0])
    named = list(zip(titles, columns, strict=True))[has_row_numbers:]
    if any(not _NAME.fullmatch(title) or title in _NULLS or title in column for title, column in named):
        return
    is_typed = any(_kind(text) != "other" for row in rest for text in row)
    is_plain = all("_" in title for title in titles)
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
    if text in ("true", "false"):
        return "boolean"
    return "local" if (kind := kind_of_text(text)) == "other" and layouts(text) else kind


def _value(text: str) -> Number | bool | str:
    kind = _kind(text)
    if kind == "number":
        return Number(text)
    return text == "true" if kind == "boolean" else text
