"""The statements of TPC-H and TPC-DS, as DuckDB's extensions have them, and small lives of their tables.

A statement is made a view as its author would: ``limit`` at its end goes, as a table has no order, and an
output column has a name that a Delta table may have. Values are drawn from the constants that the statements
compare columns with, so that few rows meet every condition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from common.errors import SqlError
from common.sql.reading import statement as tree_of
from common.sql.statement import Statement, read_statement
from tests.support.drawn.tables import Life, Row

_LIMIT = re.compile(r"\s+limit\s+\d+\s*;?\s*$", re.IGNORECASE)
_QUOTED = re.compile(r'"([^"]*)"')
_NO_NAME = re.compile(r"has an output column without a name, (.*); give it", re.DOTALL)
_KEYS = range(1, 7)
"""Values of what tables are joined by."""
_FIRST_DAY, _DAYS = date(1992, 1, 1), 4_000


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes:
        name: ``tpch`` or ``tpcds``.
        statements: Its statements by their numbers, each as a view.
        columns: The columns of its tables, with Spark's types.
    """

    name: str
    statements: Mapping[int, str]
    columns: Mapping[str, Mapping[str, str]]

    def read(self, number: int) -> Statement:
        """A statement as the engine reads it."""
        return read_statement(self.statements[number], {name: [*each] for name, each in self.columns.items()})


@cache
def benchmark(name: str) -> Benchmark:
    """``tpch`` or ``tpcds``."""
    with duckdb.connect() as connection:
        folder = Path(import_module(f"duckdb_extension_{name}").__path__[0])
        (extension,) = folder.glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
        connection.execute({"tpch": "CALL dbgen(sf=0)", "tpcds": "CALL dsdgen(sf=0)"}[name])
        columns: dict[str, dict[str, str]] = {}
        listed = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
        listed += " ORDER BY table_name, column_index"
        for table, column, kind in connection.execute(listed).fetchall():
            columns.setdefault(table, {})[column] = {"VARCHAR": "string", "INTEGER": "int"}.get(
                kind, kind.lower()
            )
        texts = connection.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall()
    return Benchmark(name, {number: _as_view(text, columns) for number, text in texts}, columns)


def _as_view(sql: str, columns: Mapping[str, Mapping[str, str]]) -> str:
    sql = _QUOTED.sub(lambda name: "`{}`".format(re.sub(r"\W+", "_", name[1])), _LIMIT.sub("", sql))
    names = {name: [*each] for name, each in columns.items()}
    while True:
        try:
            read_statement(sql, names)
        except SqlError as error:
            found = _NO_NAME.search(str(error))
            if found is None or error.at is None:
                raise
            end = error.at + len(found[1])
            sql = f"{sql[:end]} AS column_{end}{sql[end:]}"
        else:
            return sql


# Tables


@dataclass
class Drawer:
    """Draws rows of a benchmark's tables.

    Attributes:
        of: The benchmark.
        random: Where chance comes from.
    """

    of: Benchmark
    random: Random
    _pools: Mapping[str, Sequence[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._pools = _constants(self.of)

    def life(self, rows: int) -> Life:
        """Tables that are loaded, get rows, have rows corrected, lose some, are emptied and filled again."""
        changes = {table: self._changes(table, rows) for table in self.of.columns}
        return Life(self.of.columns, changes)

    def _changes(self, table: str, rows: int) -> list[list[tuple[int, Row]]]:
        there = [self._row(table) for _ in range(rows)]
        found = [[(1, row) for row in there]]
        for step in ("insert", "correct", "delete", "empty", "fill"):
            # Of some commits a table is not: then the others change beside it.
            share = {"insert": 0.0, "correct": 0.3, "delete": 0.4, "empty": 1.0, "fill": 0.0}[step]
            is_still = step in {"insert", "correct", "delete"} and self.random.random() < 0.3
            gone = [] if is_still else [row for row in there if self.random.random() < share]
            came = {"insert": 4, "correct": len(gone), "fill": rows // 2}.get(step, 0) * (not is_still)
            news = [
                self._near(table, gone[place]) if place < len(gone) else self._row(table)
                for place in range(came)
            ]
            there = [*_without(there, gone), *news]
            found.append([*((-1, row) for row in gone), *((1, row) for row in news)])
        return found

    def _row(self, table: str) -> Row:
        return tuple(self._value(name, kind) for name, kind in self.of.columns[table].items())

    def _near(self, table: str, row: Row) -> Row:
        """A row with some other values."""
        kinds = self.of.columns[table].items()
        return tuple(
            self._value(name, kind) if self.random.random() < 0.2 else value
            for (name, kind), value in zip(kinds, row, strict=True)
        )

    def _value(self, name: str, kind: str) -> Any:
        random = self.random
        if random.random() < 0.04:
            return None
        if name.endswith(("key", "_sk")):
            return random.choice(_KEYS)
        if (pool := self._pools.get(name)) and random.random() < 0.85:
            value = _as_kind(random.choice(pool), kind)
            if isinstance(value, date):
                return value + timedelta(days=random.choice([0, 0, 20, 45]))
            return value if value is None or isinstance(value, str) else value + random.choice([0, 0, 0, 1])
        others: Mapping[str, Any] = {
            "date": _FIRST_DAY + timedelta(days=random.randrange(_DAYS)),
            "decimal": Decimal(random.choice([0, 1, 250, 4_999, 31_000])) / 100,
            "string": random.choice("abc"),
        }
        return others.get(kind.partition("(")[0], random.choice(_KEYS))


def _without(rows: Sequence[Row], gone: Sequence[Row]) -> list[Row]:
    left, found = Counter(map(repr, gone)), []
    for row in rows:
        if left[repr(row)]:
            left[repr(row)] -= 1
        else:
            found.append(row)
    return found


def _as_kind(value: str, kind: str) -> Any:
    try:
        if kind == "date":
            return date.fromisoformat(value)
        if kind.startswith("decimal"):
            return Decimal(value).quantize(Decimal("0.01"))
        return int(Decimal(value)) if kind in {"int", "bigint"} else value
    except (ValueError, ArithmeticError):
        return None


def _constants(of: Benchmark) -> Mapping[str, Sequence[str]]:
    """The constants that the statements compare each column with; of bounds, what is between them too."""
    found: dict[str, dict[str, None]] = {}
    for sql in of.statements.values():
        for node in tree_of(sql).find_all(
            exp.EQ, exp.In, exp.Between, exp.Like, exp.GT, exp.GTE, exp.LT, exp.LTE
        ):
            columns = [each.name.lower() for each in node.find_all(exp.Column)]
            values = [
                _shown(each)
                for each in node.find_all(exp.Literal)
                if each.find_ancestor(exp.Interval) is None
            ]
            if isinstance(node, exp.Between) and len(values) == 2 and all(map(_is_number, values)):
                values.append(str((Decimal(values[0]) + Decimal(values[1])) / 2))
            for column in set(columns) if len(set(columns)) == 1 else ():
                found.setdefault(column, {}).update(dict.fromkeys(values))
    return {column: [*values] for column, values in found.items()}


def _shown(literal: exp.Literal) -> str:
    return str(literal.name).replace("%", "x")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


# Answers


def answers(
    of: Benchmark, life: Life, version: int, numbers: Sequence[int]
) -> dict[int, list[Row] | duckdb.Error]:
    """DuckDB's rows of each statement's own text, or why it has none."""
    found: dict[int, list[Row] | duckdb.Error] = {}
    with duckdb.connect() as connection:
        for table, columns in of.columns.items():
            kinds = ", ".join(
                f"{name} {'VARCHAR' if kind == 'string' else kind}" for name, kind in columns.items()
            )
            connection.execute(f"CREATE TABLE {table} ({kinds})")
            rows = [dict(zip(columns, row, strict=True)) for row in life.rows(table, version)]
            if rows:
                loaded = pa.Table.from_pylist(rows)
                connection.register("loaded", loaded)
                connection.execute(f"INSERT INTO {table} SELECT * FROM loaded")
        for number in numbers:
            try:
                found[number] = connection.execute(of.statements[number].replace("`", '"')).fetchall()
            except duckdb.Error as error:
                found[number] = error
    return found


def differences(have: Sequence[Row], want: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
    """Rows without one like it on the other side, paired; numbers may differ in their last digits."""
    ours, theirs = (sorted((tuple(map(_plain, row)) for row in rows), key=_order) for rows in (have, want))
    if len(ours) != len(theirs):
        return [(None, row) for row in theirs if row not in ours] + [
            (row, None) for row in ours if row not in theirs
        ]
    return [(one, other) for one, other in zip(ours, theirs, strict=True) if not _alike(one, other)]


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def _order(row: Row) -> Any:
    texts = tuple(str(each) for each in row if not isinstance(each, float))
    return texts, tuple(
        (each is None, 0.0 if each is None else round(each, 1)) for each in row if _is_value(each)
    )


def _is_value(each: Any) -> bool:
    return each is None or isinstance(each, float)


def _alike(one: Row, other: Row) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(
        abs(a - b) <= 1e-4 * max(1.0, abs(a), abs(b))
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in pairs
    )
