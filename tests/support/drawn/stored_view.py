"""A view kept over Delta tables: the same life as that of tables in memory, each version a commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from common.config.paths import Layout
from common.declare import Pipeline, Topic, View
from common.delta.micro_batch import MicroBatch
from common.sql.cost import Sizes
from common.sql.statement import Statement
from common.sql.way import Way, whole
from gold.table.context import Context
from gold.view import query as view_query
from tests.conftest import make_settings
from tests.support.crashes import run_through_crashes
from tests.support.drawn.kept_view import Frames, texts

PIPELINE = Pipeline("drawn", bronze=[Topic("drawn")])
CRASHES: list[dict[int, bool]] = [{}, {0: True}, {}, {0: False}, {}]
"""The write at which a micro-batch dies, after it or before it, by the number of its view and its own."""


@dataclass
class StoredLife:
    """The tables of a life as Delta tables, each version a commit that replaces all rows."""

    frames: Frames
    folder: Path
    _numbers: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.settings = make_settings(self.folder, "")
        self.layout = Layout.of(PIPELINE, self.settings)
        for table in self.frames.life.columns:
            for version in range(self.frames.life.last + 1):
                writer = self.frames.rows(table, version).coalesce(1).write.format("delta").mode("overwrite")
                writer.option("delta.enableChangeDataFeed", "true").save(self.layout.table_path(table))

    def view(self, sql: str) -> StoredView:
        """A view of a statement over the tables."""
        return StoredView(self, View(f"v{next(self._numbers)}", sql=sql))


@dataclass
class StoredView:
    """A view over Delta tables; each attempt at a micro-batch takes its statement's way, or is computed whole.

    Attributes:
        stored: Its tables.
        view: Its declaration.
        rows: Its table: each row as plain values, and how often it is there.
    """

    stored: StoredLife
    view: View
    rows: Counter[Any] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        pipeline = replace(PIPELINE, gold=[self.view])
        context = Context(self.stored.frames.spark, pipeline, self.stored.settings, self.stored.layout)
        self.stream = view_query.build_query(context, self.view)
        self._random = Random(self.view.sql)

    def write(self, batch_id: int, version: int) -> None:
        """A micro-batch that reads all tables to a version; one that dies is written once more."""
        positions = tuple({"reservoirVersion": version + 1, "index": -1} for _ in self.view.sources)
        batch = MicroBatch("drawn", self.view.table, "q", batch_id, positions)
        empty = self.stored.frames.spark.range(0).selectExpr("0 as source")
        crashes = CRASHES[(int(self.view.name.removeprefix("v")) + batch_id) % len(CRASHES)]
        with mock.patch.object(view_query, "chosen", self._chosen):
            run_through_crashes(partial(self.stream.write, empty, batch), crashes)
        path = self.stored.layout.table_path(self.view.table)
        self.rows = Counter(texts(self.stored.frames.spark.read.format("delta").load(path)))

    def _chosen(self, statement: Statement, way: Way, sizes: Sizes) -> Way:
        assert not [each for each in sizes.rows if sizes.rows[each] is None or sizes.changed[each] is None]
        return self._random.choice([way, whole("it is drawn")])
