"""A view kept over tables in memory, by the engine's own query of views: without files, and so many a second.

The session that the engine is given reads frames instead of Delta tables, and the view's table is a multiset
in Python. All between the two is the engine's: what it makes of the statement at a start, which rows or keys
a micro-batch touches, and the rows that it computes again. A micro-batch that fails at a row leaves the table
and its versions as they were, and the next one reads what both have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from common.config.driver_limits import DriverLimits
from common.declare import View
from common.delta.micro_batch import MicroBatch
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from gold.table import maintained
from gold.view import query as view_query
from tests.support.drawn.tables import Life, plain

_WEIGHT = "__weight"
_LIMITS = DriverLimits(1_000, 10_000, fsync=False)


@dataclass
class Frames:
    """A session that reads the versions of tables in memory, each under its name."""

    spark: Any
    life: Life
    _known: dict[tuple[str, int, int | None], DataFrame] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)

    @property
    def read(self) -> _Reader:
        """A reader of frames."""
        return _Reader(self)

    def rows(self, table: str, version: int) -> DataFrame:
        """A version of a table."""
        key = (table, version, None)
        if key not in self._known:
            self._known[key] = self._frame(table, self.life.rows(table, version))
        return self._known[key]

    def feed(self, table: str, first: int, last: int) -> DataFrame:
        """What some versions add and take away, as a change data feed has it."""
        key = (table, first, last)
        if key not in self._known:
            found = [each for version in self.life.changes[table][first : last + 1] for each in version]
            rows = [(*row, "insert" if sign > 0 else "delete") for sign, row in found]
            self._known[key] = self._frame(table, rows, ", _change_type string")
        return self._known[key]

    def _frame(self, table: str, rows: Sequence[Sequence[Any]], more: str = "") -> DataFrame:
        schema = StructType.fromDDL(self.life.ddl(table) + more)
        arrow = to_arrow_schema(schema)
        columns = [
            pa.array([_as_arrow(row[place]) for row in rows], arrow.field(place).type)
            for place in range(len(schema))
        ]
        found: DataFrame = self.spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema)
        return found


def _as_arrow(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) and value.keys() != {"a", "b"} else value


@dataclass
class _Reader:
    frames: Frames
    options: dict[str, Any] = field(default_factory=dict)

    def format(self, name: str) -> _Reader:
        assert name == "delta"
        return self

    def option(self, name: str, value: Any) -> _Reader:
        return replace(self, options={**self.options, name: value})

    def load(self, path: str) -> DataFrame:
        if "readChangeFeed" in self.options:
            return self.frames.feed(path, self.options["startingVersion"], self.options["endingVersion"])
        return self.frames.rows(path, self.options.get("versionAsOf", 0))


class _Lazy(SparkRows):
    """Rows that are computed when they are asked for, and not before."""

    def derive(self, frame: DataFrame, count: int | None = None) -> SparkRows:
        return _Lazy(frame, count, self.limits)

    @contextmanager
    def kept(self, **_: Any) -> Iterator[Rows]:
        yield self


@dataclass
class KeptView:
    """A view over tables in memory.

    Attributes:
        name: Its name.
        sql: Its statement.
        frames: Its tables.
        rows: Its table: each row as plain values, and how often it is there.
        first: What its first micro-batch writes; ``rows`` is to be set to it.
        versions: The versions of its tables that its last commit names.
    """

    name: str
    sql: str
    frames: Frames
    rows: Counter[Any] = field(default_factory=Counter)
    first: DataFrame | None = None
    versions: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        self.view = View(self.name, sql=self.sql)
        with _no_files(self):
            self.kept: Any = view_query.build_query(_context(self.frames), self.view)

    def write(self, batch_id: int, version: int) -> None:
        """A micro-batch that reads all tables to a version; the first one sets ``first`` alone."""
        positions = tuple({"reservoirVersion": version + 1, "index": -1} for _ in self.view.sources)
        batch = MicroBatch("drawn", self.view.table, "q", batch_id, positions)
        rows = (SparkRows if batch_id else _Lazy)(self.frames.spark.range(0), 0, _LIMITS)
        rows.session = self.frames  # type: ignore[assignment]  # reads as a session does
        with _no_files(self):
            self.kept.write(rows, batch)


def _context(frames: Frames) -> Any:
    """What a query is built from."""
    return SimpleNamespace(
        spark=frames,
        path=lambda table: table,
        query=lambda gold, frame, write: write.__self__,
        pipeline=SimpleNamespace(name="drawn", gold=[], with_feed=frozenset()),
        read_once=None,
    )


@contextmanager
def _no_files(view: KeptView) -> Iterator[None]:
    """Inside of the block the view's table is in memory."""
    table = _Table(view)

    def last_commit(path: str, name: str) -> Mapping[str, Any] | None:
        return None if view.versions is None else {"query_id": "q", "counts": {"versions": view.versions}}

    nothing = view.frames.spark.range(0)
    with ExitStack() as stack:
        for owner, name, other in (
            (view_query, "multiset", table),
            (view_query, "last_commit_metadata", last_commit),
            (view_query, "keeps_feed", lambda context, path: True),
            (view_query, "stream", lambda *_, **__: nothing),
            (view_query, "refuse_other_meaning", lambda *_: None),
            (view_query.create, "ensure", lambda *_, **__: None),
            (maintained, "delta_table", table),
        ):
            stack.enter_context(mock.patch.object(owner, name, other))
        yield


@dataclass
class _Table:
    """Stands for the files of a view's table."""

    view: KeptView
    MERGE = "merge"

    def is_written(self, *_: Any) -> bool:
        return False

    def append(self, rows: Rows, path: str, batch: Any, step: str, counts: Any, **_: Any) -> None:
        self._done(counts)
        self.view.first = rows.frame

    def append_nothing(self, rows: Any, path: str, batch: Any, step: str, counts: Any) -> None:
        self._done(counts)

    def change(self, changes: Rows, path: str, batch: Any, counts: Any) -> None:
        frame = changes.frame
        names = [name for name in frame.columns if name != _WEIGHT]
        found = frame.select(_as_text(names).alias("row"), f"`{_WEIGHT}`").collect()
        for text, weight in found:
            self.view.rows[_row(text)] += weight
        lacked = {row: count for row, count in self.view.rows.items() if count < 0}
        assert not lacked, f"the table lacks rows that a change takes away: {lacked}"
        self.view.rows = +self.view.rows
        self._done(counts)

    def replace(self, rows: Rows, keys: Rows | None, path: str, batch: Any, counts: Any) -> None:
        new = Counter(texts(rows.frame))
        self._done(counts)  # not where the statement fails at a row: the next micro-batch reads both versions
        if keys is None:
            self.view.rows = new
            return
        names = list(keys.columns)
        places = [list(rows.columns).index(name) for name in names]
        touched = set(texts(keys.frame))
        kept = {row: n for row, n in self.view.rows.items() if _of(row, places) not in touched}
        outside = [row for row in new if _of(row, places) not in touched]
        assert not outside, f"rows of keys that are not touched: {outside}"
        self.view.rows = Counter(kept) + new

    def _done(self, counts: Mapping[str, Any]) -> None:
        self.view.versions = counts["versions"]


def _of(row: Any, places: Sequence[int]) -> Any:
    return tuple(row[place] for place in places)


def _as_text(names: Sequence[str]) -> Any:
    from pyspark.sql import functions as F

    columns = [F.col(f"`{name}`").alias(f"c{place}") for place, name in enumerate(names)]
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def texts(frame: DataFrame) -> list[Any]:
    """The rows of a frame as plain values that are equal where Spark's grouping finds them equal."""
    return [_row(row[0]) for row in frame.select(_as_text(frame.columns)).collect()]


def _row(text: str) -> Any:
    return tuple(plain(each) for each in json.loads(text).values())
