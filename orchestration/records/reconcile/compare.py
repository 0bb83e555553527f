"""Compares two tables row by row, by their key, with DuckDB: each side is read once, differing rows twice.

Each side becomes a table of its keys with a digest of the compared columns; a full join of both finds the
keys that one side lacks, that a side has twice, and whose digests differ. Larger than memory, DuckDB keeps
them in files. Only then are the rows of the first differing keys read whole.

The columns of the other side are read by the types of the pipeline's table. A value that cannot be read so,
or only by losing digits, differs; it is never rounded to an equal one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from common.errors import UsageError, first_line, nearest
from common.sql.quoting import double_quoted, standard_text
from gold.table.identity import ELEMENT, MATCH, RECORD
from orchestration.access.query.allowed_sql import refuse_unsafe_expression
from orchestration.access.query.duckdb_views import Database
from orchestration.records.reconcile.text_values import holds, is_nested
from silver.read.column_names import INGESTED_AT, KAFKA_TIMESTAMP, WATERMARK

Kind = Literal["missing", "extra", "differs", "repeated"]

KINDS: Mapping[Kind, str] = {
    "missing": "the other side has the key, the table lacks it",
    "extra": "the table has the key, the other side lacks it",
    "differs": "both have the key, other columns differ",
    "repeated": "a side has the key more than once",
}
"""What can be wrong with a key."""

OWN = frozenset({*RECORD, KAFKA_TIMESTAMP, INGESTED_AT, ELEMENT, MATCH, WATERMARK})
"""The columns that the engine adds to a table, which no source has."""

KEY_CANNOT_BE_READ = "of the other side cannot be read as"
"""A part of the error of a key that is none of the type of the table's key."""

_MOST_AHEAD = "5 minutes"
"""By how much the source's clock may be ahead of this machine's."""
_RANGES = 10
_SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that is not the same on both sides."""

    kind: Kind  # see ``KINDS``
    key: Mapping[str, Any]  # its values by column
    columns: tuple[str, ...]  # the columns that differ; empty unless the kind is ``differs``
    here: Mapping[str, Any] | None  # the row of the table; None if it has none
    there: Mapping[str, Any] | None  # the row of the other side, in the types of the table
    counts: tuple[int, int]  # how many rows each side has of the key: here, there


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from one value of the key's first column, inclusive, to the next range's, exclusive."""

    first: Any  # where it begins; the lowest key for the first range
    here: int  # rows of the table
    there: int  # rows of the other side
    wrong: int  # keys that are not the same


@dataclass
class Comparison:
    """The result."""

    rows_here: int = 0  # rows of the table
    rows_there: int = 0  # rows of the other side
    equal: int = 0  # keys that are the same on both sides
    kinds: dict[str, int] = field(default_factory=dict)  # number of keys by what is wrong with them
    # Keys that differ, whose row of the other side is newer than all that the table has read, and not ahead
    # of the clock.
    not_yet: int = 0
    not_yet_since: datetime | None = None  # the time of the oldest of them; None without any
    # Keys that differ, whose row of the other side is of a time that has not come: they are wrong.
    ahead: int = 0
    farthest: datetime | None = None  # the latest of these times; None without any
    settled: int = 0  # keys that differed, and no longer did when they were compared again
    # The first differing keys, in the order of the keys.
    differences: list[Difference] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)  # the keys by range; empty where nothing is wrong
    columns: tuple[str, ...] = ()  # the columns that were compared, besides the key
    left_out: tuple[str, ...] = ()  # columns of one side that the other lacks

    @property
    def wrong(self) -> int:
        """Number of keys that are not the same, without those that are only not read yet."""
        return sum(self.kinds.values())


@dataclass(frozen=True)
class Sides:
    """The two relations, and which of their columns are compared."""

    database: Database  # where both are readable
    here: str  # the pipeline's table, in a FROM clause
    there: str  # the other side, in a FROM clause
    key: Sequence[str]  # the key's columns
    # What a column of the table is on the other side, in SQL; unset: the column of its name.
    expressions: Mapping[str, str] = field(default_factory=dict)
    only: Sequence[str] = ()  # the columns to compare; unset: all that both have, but the engine's own
    changed_at: str | None = None  # the other side's column with the time of a row's last change; unset: none
    read_until: datetime | None = None  # the newest time that the table has read

    @cached_property
    def here_types(self) -> dict[str, str]:
        """The table's columns with DuckDB's types."""
        return self._types(self.here)

    @cached_property
    def there_types(self) -> dict[str, str]:
        """The other side's columns with DuckDB's types."""
        return self._types(self.there)

    @cached_property
    def there_columns(self) -> dict[str, tuple[str, str]]:
        """The table's columns that the other side has, each as its SQL and its type there.

        Names differ by case where systems do, as ``ID`` and ``id``; one that fits two columns fits none.
        """
        found = {}
        for name in self.here_types:
            if (other := _same_name(name, self.there_types)) is not None:
                found[name] = (double_quoted(other), self.there_types[other])
        return found | {name: (f"({text})", self._type_of(name)) for name, text in self.expressions.items()}

    def compared(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The columns to compare with their types, and the names of those that are left out.

        Raises:
            UsageError: A column that is named is on one side only, SQL of a column is wrong, the key has a
                nested column, or there is no column to compare.
        """
        here, known = self.here_types, self.there_columns
        for name in (*self.key, *self.only, *self.expressions):
            if name not in here:
                raise UsageError(f"the table has no column {name}; {nearest(name, here)}")
            if name not in known:
                raise UsageError(self._lacking(name))
        if self.changed_at is not None and _same_name(self.changed_at, self.there_types) is None:
            advice = nearest(self.changed_at, self.there_types)
            raise UsageError(f"the other side has no column {self.changed_at}; {advice}")
        for name in self.key:
            if is_nested(here[name]):
                raise UsageError(
                    f"the key {name} is of type {here[name]}; a key has columns of single values only: name "
                    "others with --key"
                )
        wanted = self.only or [name for name in here if name in known and name not in OWN]
        columns = {name: here[name] for name in wanted if name not in self.key}
        left_out = () if self.only else self._left_out()
        if not (columns or self.only) and set(here) - OWN - set(self.key):
            raise UsageError(
                "the other side has no column of the table but the key, so that no value would be compared. "
                f"One side only has: {', '.join(left_out)}. Say what a column is there: --map COLUMN=SQL; or "
                f"compare the keys alone: --column {self.key[0]}"
            )
        return columns, left_out

    def _lacking(self, name: str) -> str:
        text = f"the other side has no column {name}; {nearest(name, self.there_types)}"
        advice = f"Say what it is there: --map {name}=SQL"
        return f"{text}. {advice}" + ("; or name other columns: --key COLUMN" if name in self.key else "")

    def _left_out(self) -> tuple[str, ...]:
        """The columns that one side lacks, but the engine's own and those that expressions read."""
        here = [name for name in self.here_types if name not in self.there_columns]
        read = {*self.here_types, *self._read_by_expressions(), self.changed_at or ""}
        there = [name for name in self.there_types if _same_name(name, read) is None]
        return tuple(sorted({*here, *there} - OWN))

    def _read_by_expressions(self) -> Iterator[str]:
        for text in self.expressions.values():
            ((parsed,),) = self.database.connection.execute(
                "SELECT json_serialize_sql(?)", [f"SELECT ({text})"]
            ).fetchall()
            yield from _columns_of(json.loads(parsed))

    def _type_of(self, name: str) -> str:
        import duckdb

        text = self.expressions[name]
        refuse_unsafe_expression(self.database.connection, f"--map {name}={text}", text)
        try:
            return self._types(f"(SELECT ({text}) AS x FROM {self.there})")["x"]
        except (duckdb.ParserException, duckdb.BinderException) as error:
            raise UsageError(f"--map {name}={text}: {first_line(error)}") from error

    def _types(self, relation: str) -> dict[str, str]:
        found = self.database.connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        return {str(row[0]): str(row[1]) for row in found}


def _same_name(name: str, names: Collection[str]) -> str | None:
    """Of these names the same one, or else the only one that differs by case alone."""
    if name in names:
        return name
    found = [other for other in names if other.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def _columns_of(node: object) -> Iterator[str]:
    """The names in references to columns, in SQL as DuckDB serializes it."""
    if isinstance(node, list):
        for each in node:
            yield from _columns_of(each)
    elif isinstance(node, dict):
        if node.get("class") == "COLUMN_REF":
            yield from node["column_names"]
        for each in node.values():
            yield from _columns_of(each)


def compare(sides: Sides, limit: int, *, is_again: bool = False) -> Comparison:
    """Compare both sides; see the module.

    Args:
        limit: Most differing keys that are read whole.
        is_again: Only keys that differed in the comparison before, in the same database, are wrong.

    Raises:
        UsageError: A column is not there, or SQL of a column is wrong.
        duckdb.InvalidInputException: A key of the other side is none of the key's type.
        duckdb.Error: A side cannot be read.
    """
    columns, left_out = sides.compared()
    work = _Work(sides, columns)
    work.read()
    wrong = work.keep_wrong(is_again=is_again)
    found = Comparison(
        rows_here=work.number("SELECT coalesce(sum(n), 0) FROM __here"),
        rows_there=work.number("SELECT coalesce(sum(n), 0) FROM __there"),
        equal=work.number("SELECT (SELECT count(*) FROM __here) - count(here) FROM __unlike"),
        kinds=dict.fromkeys(KINDS, 0) | wrong,
        not_yet=work.number("SELECT count(*) FROM __unlike WHERE is_newer"),
        not_yet_since=work.run("SELECT min(changed) FROM __unlike WHERE is_newer")[0][0],
        ahead=work.number("SELECT count(*) FROM __unlike WHERE is_ahead"),
        farthest=work.run("SELECT max(changed) FROM __unlike WHERE is_ahead")[0][0],
        columns=tuple(columns),
        left_out=left_out,
    )
    if is_again:
        found.settled = work.number("SELECT (SELECT count(*) FROM __before) - count(*) FROM __wrong")
    if found.wrong:
        found.differences = list(work.differences(limit))
        found.ranges = list(work.ranges())
    return found


_KIND = """CASE WHEN coalesce(h.n, 0) > 1 OR coalesce(t.n, 0) > 1 THEN 'repeated'
    WHEN h.n IS NULL THEN 'missing' WHEN t.n IS NULL THEN 'extra'
    WHEN h.digest <> t.digest THEN 'differs' END"""


@dataclass(frozen=True)
class _Work:
    """The steps of a comparison, each a table or a view of the database.

    ``k0``, ``k1`` … are the columns of the key, ``v0`` … the compared ones, ``b0`` … the texts of values of
    the other side that are none of the column's type.
    """

    sides: Sides
    columns: Mapping[str, str]

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return self.sides.database.connection.execute(sql).fetchall()

    def number(self, sql: str) -> int:
        """The one number of a statement."""
        return int(self.run(sql)[0][0])

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key's columns in the steps."""
        return tuple(f"k{number}" for number in range(len(self.sides.key)))

    def same(self, one: str, other: str) -> str:
        """The condition that two rows have one key; a null is a value like any other."""
        return " AND ".join(f"{one}.{key} IS NOT DISTINCT FROM {other}.{key}" for key in self.keys)

    def read(self) -> None:
        """Both sides as keys with a digest."""
        values = ", ".join(f"v{number}, b{number}" for number in range(len(self.columns)))
        for side, rows in (("here", self._rows_here()), ("there", self._rows_there())):
            self.run(f"CREATE OR REPLACE TEMP VIEW __{side}_rows AS {rows}")
            self.run(
                f"CREATE OR REPLACE TEMP TABLE __{side} AS SELECT {', '.join(self.keys)}, count(*) AS n, "
                f"bit_xor(hash({values or '0'})) AS digest, max(changed) AS changed "
                f"FROM __{side}_rows GROUP BY {', '.join(self.keys)}"
            )

    def _rows_here(self) -> str:
        parts = [f"{double_quoted(name)} AS k{number}" for number, name in enumerate(self.sides.key)]
        for number, name in enumerate(self.columns):
            parts += [f"{double_quoted(name)} AS v{number}", f"NULL::VARCHAR AS b{number}"]
        return f"SELECT {', '.join(parts)}, NULL::TIMESTAMPTZ AS changed FROM {self.sides.here}"

    def _rows_there(self) -> str:
        parts = []
        for number, name in enumerate(self.sides.key):
            kind = self.sides.here_types[name]
            value, is_other = self._read_as(name, kind)
            message = standard_text(f"the key {name} {KEY_CANNOT_BE_READ} {kind}: ")
            refused = f"error({message} || CAST({self._there(name)} AS VARCHAR))"
            parts.append(f"CASE WHEN {is_other} THEN {refused} ELSE {value} END AS k{number}")
        for number, (name, kind) in enumerate(self.columns.items()):
            value, is_other = self._read_as(name, kind)
            text = f"CASE WHEN {is_other} THEN CAST({self._there(name)} AS VARCHAR) END"
            parts += [f"CASE WHEN NOT ({is_other}) THEN {value} END AS v{number}", f"{text} AS b{number}"]
        changed = "NULL" if self.sides.changed_at is None else double_quoted(self.sides.changed_at)
        parts.append(f"CAST({changed} AS TIMESTAMPTZ) AS changed")
        return f"SELECT {', '.join(parts)} FROM {self.sides.there}"

    def _there(self, name: str) -> str:
        return self.sides.there_columns[name][0]

    def _read_as(self, name: str, kind: str) -> tuple[str, str]:
        """A column of the other side by the table's type, and the condition that it cannot be read so."""
        given, there = self.sides.there_columns[name]
        value = f"TRY_CAST({given} AS {kind})"
        if there == kind:
            return given, "false"
        if there == "VARCHAR":
            is_same = holds(given, value, kind)
        else:
            is_same = f"TRY_CAST({value} AS {there}) IS NOT DISTINCT FROM {given}"
        return value, f"{given} IS NOT NULL AND ({value} IS NULL OR NOT coalesce({is_same}, false))"

    def keep_wrong(self, *, is_again: bool) -> dict[str, int]:
        """The keys that are not the same, and those of them that are wrong; returns how many by kind."""
        until = self.sides.read_until
        is_ahead = f"coalesce(t.changed > now() + INTERVAL {_MOST_AHEAD}, false)"
        is_newer = (
            "false"
            if until is None
            else f"coalesce(t.changed > TIMESTAMPTZ '{until.isoformat()}', false) AND NOT {is_ahead}"
        )
        if is_again:
            self.run("CREATE OR REPLACE TEMP TABLE __before AS FROM __wrong")
        keys = ", ".join(f"CASE WHEN h.n IS NULL THEN t.{key} ELSE h.{key} END AS {key}" for key in self.keys)
        self.run(
            f"CREATE OR REPLACE TEMP TABLE __unlike AS SELECT {keys}, h.n AS here, t.n AS there, "
            f"{_KIND} AS kind, {is_newer} AS is_newer, {is_ahead} AS is_ahead, t.changed AS changed "
            f"FROM __here AS h FULL JOIN __there AS t ON {self.same('h', 't')} "
            f"WHERE {_KIND} IS NOT NULL"
        )
        still = f" SEMI JOIN __before AS b ON {self.same('u', 'b')}" if is_again else ""
        self.run(
            "CREATE OR REPLACE TEMP TABLE __wrong AS SELECT u.* EXCLUDE (changed, is_ahead) "
            f"FROM __unlike AS u{still} WHERE NOT is_newer"
        )
        return {
            str(kind): int(count) for kind, count in self.run("SELECT kind, count(*) FROM __wrong GROUP BY 1")
        }

    def differences(self, limit: int) -> Iterator[Difference]:
        """The first differing keys, with the row of each side."""
        keys = ", ".join(self.keys)
        self.run(f"CREATE OR REPLACE TEMP TABLE __first AS FROM __wrong ORDER BY {keys} LIMIT {limit}")
        rows = {side: self._rows_of_first(side) for side in ("here", "there")}
        unlike = self._unlike()
        for *key, here, there, kind, _ in self.run(f"SELECT * FROM __first ORDER BY {keys}"):
            one, other = (rows[side].get(str(key)) for side in ("here", "there"))
            yield Difference(
                kind,
                dict(zip(self.sides.key, key, strict=True)),
                unlike[str(key)] if kind == "differs" else (),
                one,
                other,
                (here or 0, there or 0),
            )

    def _rows_of_first(self, side: str) -> dict[str, dict[str, Any]]:
        """The rows of a side with the first differing keys, by key; of a repeated key any one."""
        keys = ", ".join(self.keys)
        self.run(
            f"CREATE OR REPLACE TEMP TABLE __{side}_first AS SELECT DISTINCT ON ({keys}) * "
            f"FROM __{side}_rows AS r SEMI JOIN __first AS f ON {self.same('r', 'f')}"
        )
        values = "".join(f", v{number}, b{number}" for number in range(len(self.columns)))
        found = {}
        for row in self.run(f"SELECT {keys}{values} FROM __{side}_first"):
            key, rest = list(row[: len(self.keys)]), row[len(self.keys) :]
            read = zip(rest[::2], rest[1::2], strict=True)
            found[str(key)] = {
                name: value if text is None else Unreadable(text)
                for name, (value, text) in zip(self.columns, read, strict=True)
            }
        return found

    def _unlike(self) -> dict[str, tuple[str, ...]]:
        """The columns that differ, by key; of the keys of ``__first`` that both sides have."""
        keys = ", ".join(f"h.{key}" for key in self.keys)
        values = "".join(
            f", h.v{number} IS DISTINCT FROM t.v{number} OR t.b{number} IS NOT NULL"
            for number in range(len(self.columns))
        )
        found = self.run(
            f"SELECT {keys}{values} FROM __here_first AS h JOIN __there_first AS t ON {self.same('h', 't')}"
        )
        return {
            str(list(row[: len(self.keys)])): tuple(
                name for name, differs in zip(self.columns, row[len(self.keys) :], strict=True) if differs
            )
            for row in found
        }

    def ranges(self) -> Iterator[Range]:
        """About ten ranges of as many keys each."""
        parts = ", ".join(str(number / _RANGES) for number in range(_RANGES))
        sample = f"(SELECT k0 FROM __here UNION ALL SELECT k0 FROM __there) USING SAMPLE {_SAMPLE} ROWS"
        (bounds,) = self.run(f"SELECT quantile_disc(k0, [{parts}]) FROM {sample}")[0]
        firsts = sorted(set(bounds or ()))
        for number, first in enumerate(firsts):
            here, there = (self._count(side, firsts, number) for side in ("__here", "__there"))
            yield Range(first, here, there, self._count("__wrong", firsts, number, "count(*)"))

    def _count(
        self, table: str, firsts: Sequence[Any], number: int, what: str = "coalesce(sum(n), 0)"
    ) -> int:
        """The rows of a range; the first begins with the lowest key and nulls, the last has no end."""
        parts, values = [], []
        if number:
            parts, values = ["k0 >= ?"], [firsts[number]]
        if number + 1 < len(firsts):
            parts, values = [*parts, "k0 < ?"], [*values, firsts[number + 1]]
        condition = " AND ".join(parts) or "true"
        if not number:
            condition = f"(({condition}) OR k0 IS NULL)"
        found = self.sides.database.connection.execute(
            f"SELECT {what} FROM {table} WHERE {condition}", values
        )
        (count,) = found.fetchone() or (0,)
        return int(count)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value of the other side that the column's type does not hold without loss."""

    text: str  # it, as text

    def __str__(self) -> str:
        return f"{self.text} (the column's type does not hold it)"
