"""Tables of text: how they are read, what a cell means by its column's type, and how rows are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from common.errors import Problem
from common.schema.ddl import parse
from orchestration.author.cases.compare import Difference, compare, describe
from orchestration.author.cases.read.case import Place, TextTable
from orchestration.author.cases.read.cells import CellError, cell_text, comparable, wanted
from orchestration.author.cases.read.text_table import format_table, parse_table

PLACE = Place(Path("shop.cases.yaml"), 10)


def table(text: str) -> TextTable:
    """A table without mistakes."""
    problems: list[Problem] = []
    found = parse_table(text, PLACE, "silver.orders", problems)
    assert problems == []
    return found


@pytest.mark.parametrize(
    "text",
    [
        "| id | note |\n|----|------|\n| a | x\\|y |\n| b |  |",
        "id | note\n\na | x\\|y\nb | \n",
    ],
)
def test_a_table_is_read_with_and_without_bars_at_the_ends(text: str) -> None:
    found = table(text)
    assert found.columns == ("id", "note")
    assert found.rows == (("a", "x|y"), ("b", ""))
    assert found.lines == (12, 13)


@pytest.mark.parametrize("text", ["none", " none\n", "", "empty"])
def test_a_table_without_rows_has_a_word(text: str) -> None:
    assert (table(text).columns, table(text).rows) == ((), ())


def test_a_row_with_another_number_of_cells_is_named_with_its_line() -> None:
    problems: list[Problem] = []
    found = parse_table("id | n\na | 1 | x\nb | 2", PLACE, "silver.orders", problems)
    assert list(map(str, problems)) == [
        "shop.cases.yaml:11: silver.orders: the row has 3 cells, and the heading 2"
    ]
    assert found.rows == (("b", "2"),)


def test_a_column_that_is_named_twice_is_a_problem() -> None:
    problems: list[Problem] = []
    parse_table("id | id\na | b", PLACE, "silver.orders", problems)
    assert [problem.message for problem in problems] == ["column 'id' is named twice"]


VALUES: list[tuple[str, str, Any]] = [
    ("bigint", "-7", -7),
    ("double", "4.50", 4.5),
    ("double", "NaN", math.nan),
    ("decimal(10,2)", "5.00", Decimal(5)),
    ("boolean", "true", True),
    ("date", "2026-03-01", date(2026, 3, 1)),
    ("timestamp", "2026-03-01T13:00:00+01:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ("timestamp", "2026-03-01 12:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ("timestamp_ntz", "2026-03-01T12:00:00", datetime(2026, 3, 1, 12)),
    ("string", "plain text", "plain text"),
    ("string", '""', ""),
    ("string", '"null"', "null"),
    ("binary", "abc", b"abc"),
    ("binary", "0xff00", b"\xff\x00"),
    ("array<string>", "b, a", ["b", "a"]),
    ("array<int>", "[1, null]", [1, None]),
    ("struct<a int, b timestamp>", '{"a": 1, "b": "2026-03-01T12:00:00Z"}', None),
    ("map<string,double>", '{"a": 1.5}', [("a", 1.5)]),
]


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_a_cell_has_the_value_of_its_columns_type(kind: str, text: str, value: Any) -> None:
    (field,) = parse(f"c {kind}")
    if value is None:
        value = {"a": 1, "b": datetime(2026, 3, 1, 12, tzinfo=UTC)}
    assert wanted(text, field).accepts(comparable(value, field))
    assert not wanted("null", field).accepts(comparable(value, field))


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_the_text_of_a_value_is_read_as_the_same_value(kind: str, text: str, value: Any) -> None:
    (field,) = parse(f"c {kind}")
    if value is None:
        value = {"a": 1, "b": datetime(2026, 3, 1, 12, tzinfo=UTC)}
    assert wanted(cell_text(value, field), field).value == comparable(value, field)


@pytest.mark.parametrize(
    "text", ["", "null", "*", "~1", '"', " padded ", "a|b", "line\nbreak", "\u202edeceit", "-", "none"]
)
def test_the_text_of_a_text_is_read_as_the_same_text_from_a_table(text: str) -> None:
    (field,) = parse("c string")
    cell = cell_text(text, field)
    found = table(format_table(["id", "c"], [["1", cell]]))
    assert wanted(found.rows[0][1], field).value == text


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("int", "4.5", "'4.5' is no int"),
        ("tinyint", "200", "out of the range"),
        ("double", "many", "is no double"),
        ("timestamp", "noon", "write it like 2026-03-01T12:00:00Z"),
        ("timestamp_ntz", "2026-03-01T12:00:00Z", "has a zone"),
        ("boolean", "yes", "write true or false"),
        ("struct<a int>", '{"b": 1}', "no field 'b'"),
        ("array<int>", "[1", "is no array<int> in JSON"),
        ("string", '"open', "is no text in JSON's notation"),
        ("variant", "1", "cannot be compared"),
    ],
)
def test_a_cell_that_is_no_value_of_the_type_is_refused(kind: str, text: str, message: str) -> None:
    (field,) = parse(f"c {kind}")
    with pytest.raises(CellError, match=message.replace("(", r"\(")):
        wanted(text, field)


def differs(expected: str, rows: Sequence[tuple[Any, ...]]) -> Difference | None:
    fields = parse("id string, amount double, reasons array<string>, _kafka_offset bigint")
    found = [dict(zip([field.name for field in fields], row, strict=True)) for row in rows]
    return compare("silver.orders", table(expected), fields, found)


ROWS = [("a", 1.0, ["x", "y"], 0), ("b", 2.25, [], 1), ("b", 2.25, [], 2)]


@pytest.mark.parametrize(
    "expected",
    [
        "id\nb\na\nb",
        "id | amount\nb | 2.25\nb | 2.25\na | 1",
        "id | amount\nb | *\n* | 2.25\na | 1",
        "id | amount\nb | ~2.2\nb | ~2\na | 1",
        "id | reasons\na | y, x\nb | []\nb | []",
        "_kafka_offset\n2\n1\n0",
    ],
)
def test_rows_are_compared_as_a_multiset_by_the_named_columns(expected: str) -> None:
    assert differs(expected, ROWS) is None


@pytest.mark.parametrize(
    ("expected", "says"),
    [
        ("id\na\nb", "1 row is not expected, 2 rows are as expected"),
        ("id\na\nb\nb\nb", "1 row is missing, 3 rows are as expected"),
        ("id | amount\na | 1.5\nb | 2.25\nb | 2.25", "1 row differs, 2 rows are as expected"),
        ("id | amount\na | ~1.1\nb | 2.25\nb | 2.25", "1 row differs, 2 rows are as expected"),
        ("none", "3 rows are not expected"),
        ("idd\na", "silver.orders has no column 'idd'; did you mean 'id'?"),
        ("amount\nmuch", "column 'amount': 'much' is no double"),
    ],
)
def test_a_difference_is_told_in_numbers(expected: str, says: str) -> None:
    found = differs(expected, ROWS)
    assert found is not None
    assert describe(found) == says


def test_a_row_that_differs_is_paired_with_the_row_most_like_it() -> None:
    found = differs("id | amount\nb | 2.25\nb | 9\nz | 7", ROWS)
    assert found is not None
    assert [(pair.line, pair.expected, pair.found, pair.differs) for pair in found.pairs] == [
        (12, ("b", "9"), ("b", "2.25"), (False, True)),
        (13, ("z", "7"), None, (False, False)),
    ]
    assert found.unexpected == (("a", "1.0"),)


def test_of_a_table_that_is_to_be_empty_the_declared_columns_are_shown() -> None:
    found = differs("none", ROWS[:1])
    assert found is not None
    assert (found.columns, found.unexpected) == (("id", "amount", "reasons"), (("a", "1.0", "x, y"),))
