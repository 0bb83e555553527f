"""The tables of drawn statements, their values, and lives of them: what each version adds and takes away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

Row = tuple[Any, ...]

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "silver.orders": {
        "id": "int",
        "k": "string",
        "number": "string",
        "date_text": "string",
        "time_text": "string",
        "yes": "string",
        "v": "int",
        "n": "bigint",
        "d": "double",
        "p": "decimal(10,2)",
        "day": "date",
        "at": "timestamp",
        "flag": "boolean",
        "mixed": "string",
        "unit": "string",
        "tags": "array<string>",
        "m": "map<string,int>",
        "st": "struct<a:int,b:string>",
    },
    "gold.orders": {
        "id": "bigint",
        "k": "string",
        "score": "int",
        "big": "bigint",
        "amount": "decimal(12,3)",
        "day": "date",
        "at": "timestamp",
        "ok": "boolean",
        "d": "double",
        "nums": "array<int>",
        "@timestamp": "string",
        "st": "struct<a:int,b:string>",
    },
    "silver.q1": {
        "k": "string",
        "order": "int",
        "y--1": "int",
        "$id": "string",
        "v": "double",
        "day": "date",
        "note": "string",
        "x": "string",
    },
}
"""Two tables of one name, a table named as a program may name its own, and columns of odd names."""

_TEXTS = [None, "a", "b", "a", "b", "c", "A"]
_NUMBERS = [None, 1, 2, 9, 10, 9, 10, 100, -3]
_DAYS = [None, date(2026, 1, 9), date(2026, 1, 10), date(2026, 1, 9), date(1999, 12, 31)]
_TIMES = [None, *(datetime(2026, 1, day, hour, tzinfo=UTC) for day, hour in ((9, 0), (10, 0), (9, 13)))]
_DOUBLES = [None, 0.0, -0.0, 1.0, 2.5, 9.0, 10.0, float("nan"), float("inf")]
_DECIMALS = [None, Decimal(1), Decimal("1.50"), Decimal(9), Decimal(10), Decimal("-3.25")]

VALUES: Mapping[str, Sequence[Any]] = {
    "k": _TEXTS,
    "x": _TEXTS,
    "number": [None, "1", "2", "9", "09", "10", "9", "10", " 10"],
    "date_text": [None, "2026-01-09", "2026-1-9", "2026-01-10", "2026-1-10"],
    "time_text": [None, "2026-01-09 00:00:00", "2026-01-10", "2026-01-09 13:00:00"],
    "yes": [None, "true", "false", "t", "no", "1"],
    "mixed": [None, "1", "9", "10", "x", "", "a b", "O'Brien"],
    "unit": ["DAY", "MONTH", "HOUR", "YEAR", None],
    "note": [None, "", "a b a", "O'Brien", 'say "hi"', "x -- y", "a\\b", "/* c */", "é"],
    "@timestamp": [None, "2026-01-09", "x"],
    "$id": [None, "a", "b", "9"],
    "tags": [None, [], ["a"], ["a", "b"], [None], ["b", "a", "a"]],
    "nums": [None, [], [1], [9, 10], [None, 2]],
    "m": [None, {}, {"a": 1}, {"a": 2, "b": None}, {"b": 9}],
    "st": [None, {"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 9, "b": "a"}],
}
"""Values by the column's name; of all other columns by the column's type."""

_BY_TYPE: Mapping[str, Sequence[Any]] = {
    "int": _NUMBERS,
    "bigint": _NUMBERS,
    "double": _DOUBLES,
    "decimal(10,2)": _DECIMALS,
    "decimal(12,3)": _DECIMALS,
    "date": _DAYS,
    "timestamp": _TIMES,
    "boolean": [None, True, False],
}


@dataclass(frozen=True)
class Life:
    """What became of some tables.

    Attributes:
        columns: Each table's columns, with their types.
        changes: For each table and each of its versions the rows that it adds (1) and takes away (-1).
    """

    columns: Mapping[str, Mapping[str, str]]
    changes: Mapping[str, Sequence[Sequence[tuple[int, Row]]]]

    @property
    def last(self) -> int:
        """The number of the last version."""
        return max(map(len, self.changes.values())) - 1

    def rows(self, table: str, version: int) -> list[Row]:
        """The rows of a version."""
        found: list[Row] = []
        for sign, row in (change for each in self.changes[table][: version + 1] for change in each):
            if sign > 0:
                found.append(row)
            else:
                found.pop(next(place for place, one in enumerate(found) if repr(one) == repr(row)))
        return found

    def ddl(self, table: str) -> str:
        """The columns as Spark reads them."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns[table].items())


def draw_life(random: Random, versions: int, rows: int = 6) -> Life:
    """A life of all tables of ``COLUMNS``; in each version some of them change."""
    changes: dict[str, list[list[tuple[int, Row]]]] = {table: [] for table in COLUMNS}
    ids = iter(range(1, 10_000))
    for version in range(versions):
        for table, found in changes.items():
            added = rows if version == 0 else random.choice([0, 1, 2, 2, 3])
            news = [(1, _row(random, table, next(ids))) for _ in range(added)]
            there = Life(COLUMNS, {table: found}).rows(table, version - 1) if version else []
            gone = random.sample(there, min(len(there), random.choice([0, 0, 1, 2])))
            found.append([*((-1, row) for row in gone), *news])
    return Life(COLUMNS, changes)


def _row(random: Random, table: str, number: int) -> Row:
    return tuple(
        number if name == "id" else random.choice(VALUES.get(name) or _BY_TYPE[kind])
        for name, kind in COLUMNS[table].items()
    )


def counted(rows: Sequence[Any]) -> Counter[Any]:
    """The multiset of rows; equal are values that are equal in Spark's grouping, and sums up to their last digits."""
    return Counter(plain(row) for row in rows)


def plain(value: Any) -> Any:  # noqa: PLR0911  # one return per kind of value
    """A value that Python compares as Spark's grouping does."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return "NaN" if value != value else float(f"{value + 0.0:.9g}") + 0.0  # noqa: PLR0124
    if isinstance(value, Decimal):
        return value.normalize() + 0
    if isinstance(value, Mapping):
        return tuple(sorted((repr(plain(key)), plain(each)) for key, each in value.items()))
    if isinstance(value, bytearray | bytes):
        return bytes(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(plain, value))
    return value
