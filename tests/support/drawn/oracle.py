"""What Spark and DuckDB give for a statement's own text, over a version of its tables; nothing of the engine's."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException

from tests.support.drawn.kept_view import Frames
from tests.support.drawn.tables import Row, plain

_TABLE = re.compile(r"\b(silver|gold)\.(\w+)")
_MOST_AT_ONCE = 50

Result = Counter[Any] | PySparkException
"""A statement's rows, or why Spark does not give them."""


@contextmanager
def databases(spark: Any) -> Iterator[None]:
    """The databases in which a statement finds its tables by their own names."""
    for name in ("silver", "gold"):
        spark.sql(f"create database {name}")
    yield
    for name in ("silver", "gold"):
        spark.sql(f"drop database {name} cascade")


def set_tables(frames: Frames, version: int) -> None:
    """Give the tables of the databases their rows of a version."""
    for table in frames.life.columns:
        rows = frames.life.rows(table, version)
        kind = ", ".join(f"`{name}`: {each}" for name, each in frames.life.columns[table].items())
        text = _quoted(json.dumps([_as_json(row, frames.life.columns[table]) for row in rows]))
        frames.spark.sql(
            f"create or replace view {table} as select found.* from "
            f"(select explode(from_json({text}, 'array<struct<{kind}>>')) as found)"
        )


def _as_json(row: Row, columns: Mapping[str, str]) -> Mapping[str, Any]:
    return dict(zip(columns, map(_json_value, row), strict=True))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return value


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def names_of(frames: Frames, sql: str) -> list[str]:
    """The names of a statement's columns, in small letters; ``many_rows`` has set the tables."""
    found = frames.spark.sql(_TABLE.sub(lambda name: _view(name[0]), sql))
    return [name.lower() for name in found.columns]


def many_rows(frames: Frames, version: int, statements: Sequence[str]) -> list[Result]:
    """The rows of each of many statements over one version of drawn tables, by few queries."""
    for table in frames.life.columns:
        frames.rows(table, version).createOrReplaceTempView(_view(table))
    return rows_of(frames.spark, [_TABLE.sub(lambda name: _view(name[0]), sql) for sql in statements])


def rows_of(spark: Any, statements: Sequence[str]) -> list[Result]:
    """The rows of each of many statements, by few queries."""
    found: dict[int, Result] = {}
    valid: dict[int, str] = {}
    for place, sql in enumerate(statements):
        own = sql.strip().rstrip(";")
        try:
            names = spark.sql(own).columns
        except PySparkException as error:
            found[place] = error
        else:
            valid[place] = _as_texts(place, f"({own}\n)", len(names))
    found |= _together(spark, valid, list(valid))
    return [found[place] for place in range(len(statements))]


def rows_of_frames(spark: Any, frames: Sequence[Any]) -> list[Result]:
    """The rows of each of many frames, by few queries."""
    for place, frame in enumerate(frames):
        frame.createOrReplaceTempView(f"__frame_{place}")
    texts_ = {
        place: _as_texts(place, f"__frame_{place}", len(each.columns)) for place, each in enumerate(frames)
    }
    found = _together(spark, texts_, list(texts_))
    return [found[place] for place in range(len(frames))]


def _as_texts(place: int, relation: str, columns: int) -> str:
    names = ", ".join(f"c{at}" for at in range(columns))
    row = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    # Spark reads no >>> behind the words struct and map, so the statement stands before them.
    return f"(from {relation} as t({names}) select {place} as n, {row} as row)"


def _together(spark: Any, statements: Mapping[int, str], places: Sequence[int]) -> dict[int, Result]:
    """The rows of some statements, run as one, and by halves where that fails."""
    found: dict[int, Result] = {place: Counter() for place in places}
    for first in range(0, len(places), _MOST_AT_ONCE):
        some = places[first : first + _MOST_AT_ONCE]
        try:
            rows = spark.sql("\nunion all\n".join(statements[each] for each in some)).collect()
        except PySparkException as error:
            if len(some) == 1:
                found[some[0]] = error
                continue
            half = len(some) // 2
            found |= _together(spark, statements, some[:half]) | _together(spark, statements, some[half:])
            continue
        for place, text in rows:
            found[place][tuple(plain(each) for each in json.loads(text).values())] += 1  # type: ignore[index]
    return found


def _view(table: str) -> str:
    return table.replace(".", "__")
