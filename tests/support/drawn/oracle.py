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
from pyspark.sql import functions as F

from tests.support.drawn.kept_view import Frames
from tests.support.drawn.tables import Row, plain

_TABLE = re.compile(r"\b(silver|gold)\.(\w+)")

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
    found = frames.spark.sql(_over_views(sql))
    return [name.lower() for name in found.columns]


def many_rows(frames: Frames, version: int, statements: Sequence[str]) -> list[Result]:
    """The rows of each of many statements over one version of drawn tables."""
    _set_views(frames, version)
    return rows_of(frames.spark, [_over_views(sql) for sql in statements])


def other_plans(frames: Frames, version: int, pairs: Sequence[tuple[str, ...]]) -> list[int]:
    """The places of those pairs of statements that Spark analyzes otherwise, or refuses one of: rows may differ."""
    _set_views(frames, version)
    return [place for place, pair in enumerate(pairs) if not _is_one_plan(frames.spark, pair)]


def _is_one_plan(spark: Any, pair: Sequence[str]) -> bool:
    try:
        one, other = (spark.sql(_over_views(sql).strip().rstrip(";")) for sql in pair)
    except PySparkException:
        return False
    return bool(one.sameSemantics(other))


def _set_views(frames: Frames, version: int) -> None:
    for table in frames.life.columns:
        frames.rows(table, version).createOrReplaceTempView(_view(table))


def _over_views(sql: str) -> str:
    return _TABLE.sub(lambda name: _view(name[0]), sql)


def rows_of(spark: Any, statements: Sequence[str]) -> list[Result]:
    """The rows of each of many statements."""
    return [_rows_of(spark, sql.strip().rstrip(";")) for sql in statements]


def _rows_of(spark: Any, sql: str) -> Result:
    try:
        frame = spark.sql(sql)
    except PySparkException as error:
        return error
    return rows_of_frames([frame])[0]


def rows_of_frames(frames: Sequence[Any]) -> list[Result]:
    """The rows of each of many frames, each by a query of its own: in one of many a failure costs them all."""
    found: list[Result] = []
    for frame in frames:
        named = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
        try:
            texts = named.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect()
        except PySparkException as error:
            found.append(error)
        else:
            found.append(Counter(tuple(map(plain, json.loads(text).values())) for (text,) in texts))
    return found


def _view(table: str) -> str:
    return table.replace(".", "__")
