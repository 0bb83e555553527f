"""What Spark and DuckDB give for a statement's own text, over a version of its tables; nothing of the engine's."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException

from tests.support.drawn.kept_view import Frames, texts
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


def set_tables(frames: Frames, tables: Iterable[str], version: int) -> None:
    """Give tables of the databases their rows of a version."""
    for table in tables:
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


def rows_of(spark: Any, sql: str) -> Result:
    """The rows of a statement."""
    try:
        return Counter(texts(spark.sql(sql)))
    except PySparkException as error:
        return error


@dataclass
class ManyRows:
    """The rows of many statements over one version of drawn tables, by few queries."""

    frames: Frames
    version: int

    def __post_init__(self) -> None:
        for table in self.frames.life.columns:
            self.frames.rows(table, self.version).createOrReplaceTempView(_view(table))

    def of(self, statements: Sequence[str]) -> list[Result]:
        """The rows of each statement."""
        spark = self.frames.spark
        found: list[Result | None] = [None] * len(statements)
        texts_: dict[int, str] = {}
        for place, sql in enumerate(statements):
            try:
                own = _TABLE.sub(lambda name: _view(name[0]), sql)
                names = spark.sql(own).columns
            except PySparkException as error:
                found[place] = error
                continue
            named = ", ".join(f"c{at}" for at in range(len(names)))
            fields = f"to_json(struct(*), map('ignoreNullFields', 'false'))"
            texts_[place] = f"select {place} as n, {fields} as row from ({own}\n) as t({named})"
        places = list(texts_)
        for first in range(0, len(places), _MOST_AT_ONCE):
            self._together(places[first : first + _MOST_AT_ONCE], texts_, found)
        return [each for each in found if each is not None]

    def _together(
        self, places: Sequence[int], statements: Mapping[int, str], found: list[Result | None]
    ) -> None:
        """Run some statements as one, and by halves where that fails."""
        try:
            rows = self.frames.spark.sql("\nunion all\n".join(statements[each] for each in places)).collect()
        except PySparkException as error:
            if len(places) == 1:
                found[places[0]] = error
                return
            half = len(places) // 2
            self._together(places[:half], statements, found)
            self._together(places[half:], statements, found)
            return
        for place in places:
            found[place] = Counter()
        for place, text in rows:
            found[place][tuple(plain(each) for each in json.loads(text).values())] += 1  # type: ignore[index]


def _view(table: str) -> str:
    return table.replace(".", "__")
