"""Compares the rows of a table with the expected rows, as multisets, by row and column. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import nearest
from common.schema.ddl import Field
from orchestration.author.cases.read.case import Place, TextTable
from orchestration.author.cases.read.cells import CellError, Wanted, cell_text, comparable, wanted

Row = Mapping[str, Any]

_WITHOUT_ORDER = ("reasons",)
"""Columns of lists that are compared as sets."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An expected row and the row of the table that is most like it."""

    line: int  # the line of the expected row
    expected: tuple[str, ...]  # the cells that are expected
    found: tuple[str, ...] | None  # the cells of the table's row; None: the table has no such row
    differs: tuple[bool, ...]  # whether each cell differs


@dataclass(frozen=True, slots=True)
class Difference:
    """How a table differs from what a case expects."""

    table: str
    place: Place  # where the expected rows are written
    message: str = ""  # what is wrong with the expectation itself; empty where rows differ
    columns: tuple[str, ...] = ()  # the columns that are compared
    equal: int = 0  # how many rows are as expected
    pairs: tuple[Pair, ...] = ()  # the expected rows that the table lacks
    unexpected: tuple[tuple[str, ...], ...] = ()  # the cells of rows that are not expected


def compare(
    table: str, expected: TextTable, fields: Sequence[Field], rows: Sequence[Row]
) -> Difference | None:
    """The difference between a table's rows and the expected ones; None if there is none.

    Args:
        expected: The expected rows. Without a column every row of the table is unexpected.
    """
    known = {field.name: field for field in fields}
    for name in expected.columns:
        if name not in known:
            text = f"{table} has no column {name!r}; {nearest(name, known)}"
            return Difference(table, expected.place, text)
    columns = expected.columns or _shown_columns(known)
    kinds = [known[name] for name in columns]
    want = []
    for cells, line in zip(expected.rows, expected.lines, strict=True):
        try:
            want.append(
                [wanted_in(name, cell, known[name]) for name, cell in zip(columns, cells, strict=True)]
            )
        except CellError as error:
            return Difference(table, Place(expected.place.file, line), str(error))
    found = [[_value(name, row.get(name), known[name]) for name in columns] for row in rows]
    matched = _match(want, found)
    if len(matched) == len(want) == len(found):
        return None
    left = [number for number in range(len(found)) if number not in matched.values()]
    texts = [
        [cell_text(rows[number].get(field.name), field) for field in kinds] for number in range(len(rows))
    ]
    lacking = [number for number in range(len(want)) if number not in matched]
    pairs = [_pair(expected, number, want[number], found, texts, left) for number in lacking]
    unexpected = tuple(tuple(texts[number]) for number in left)
    return Difference(table, expected.place, "", columns, len(matched), tuple(pairs), unexpected)


def wanted_in(column: str, text: str, field: Field) -> Wanted:
    """What a cell of a column expects.

    Raises:
        CellError: The text is no value of the column's type.
    """
    try:
        found = wanted(text, field)
    except CellError as error:
        raise CellError(f"column {column!r}: {error}") from None
    if column in _WITHOUT_ORDER and isinstance(found.value, tuple):
        return Wanted(found.text, tuple(sorted(found.value)))
    return found


def _value(column: str, value: Any, field: Field) -> Any:
    found = comparable(value, field)
    return tuple(sorted(found)) if column in _WITHOUT_ORDER and isinstance(found, tuple) else found


def _shown_columns(known: Mapping[str, Field]) -> tuple[str, ...]:
    """The columns of a row that is not expected at all: the declared ones."""
    return tuple(name for name in known if not name.startswith("_")) or tuple(known)


def _match(want: Sequence[Sequence[Wanted]], found: Sequence[Sequence[Any]]) -> dict[int, int]:
    """The largest number of pairs of an expected row and a row: expected row -> row."""
    taken: dict[int, int] = {}
    if all(cell.is_exact for row in want for cell in row):
        free: dict[tuple[Any, ...], list[int]] = {}
        for number, values in enumerate(found):
            free.setdefault(tuple(values), []).append(number)
        for number, row in enumerate(want):
            if same := free.get(tuple(cell.value for cell in row)):
                taken[same.pop()] = number
    else:
        fits = [[at for at, values in enumerate(found) if _fits(row, values)] for row in want]
        for number in range(len(want)):
            _augment(number, fits, taken, set())
    return {number: at for at, number in taken.items()}


def _fits(want: Sequence[Wanted], row: Sequence[Any]) -> bool:
    return all(cell.accepts(value) for cell, value in zip(want, row, strict=True))


def _augment(number: int, fits: Sequence[Sequence[int]], taken: dict[int, int], seen: set[int]) -> bool:
    """Find a row for an expected row, moving others to other rows where needed."""
    for at in fits[number]:
        if at in seen:
            continue
        seen.add(at)
        if at not in taken or _augment(taken[at], fits, taken, seen):
            taken[at] = number
            return True
    return False


def _pair(  # noqa: PLR0913, PLR0917
    expected: TextTable,
    number: int,
    want: Sequence[Wanted],
    found: Sequence[Sequence[Any]],
    texts: Sequence[Sequence[str]],
    left: list[int],
) -> Pair:
    """An expected row with the row that is most like it, which is removed from ``left``."""
    cells, line = expected.rows[number], expected.lines[number]

    def equal(at: int) -> int:
        return sum(cell.accepts(value) for cell, value in zip(want, found[at], strict=True))

    near = max(left, key=equal, default=None)
    if near is None or (equal(near) == 0 and len(cells) > 1):
        return Pair(line, cells, None, (False,) * len(cells))
    left.remove(near)
    differs = tuple(not cell.accepts(value) for cell, value in zip(want, found[near], strict=True))
    return Pair(line, cells, tuple(texts[near]), differs)


def describe(difference: Difference) -> str:
    """The difference in a few words: ``1 row differs, 1 row is missing``."""
    return difference.message or ", ".join(_parts(difference))


def _parts(difference: Difference) -> Iterator[str]:
    differing = sum(pair.found is not None for pair in difference.pairs)
    missing = len(difference.pairs) - differing
    for number, verb, verbs in (
        (differing, "differs", "differ"),
        (missing, "is missing", "are missing"),
        (len(difference.unexpected), "is not expected", "are not expected"),
        (difference.equal, "is as expected", "are as expected"),
    ):
        if number:
            yield f"{number} row {verb}" if number == 1 else f"{number} rows {verbs}"
