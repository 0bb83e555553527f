"""Micro-batches of a gold table without a streaming query, for tens of rows: as cases of a pipeline's tests.

Each micro-batch has what the table's sources got since the one before; it is built and written by the query's
own code. Only what Spark keeps for a stream is kept here: the number of the micro-batch, and how far each
source is read. Kinds whose groups or rows are in Spark's state need the stream. Tests compare both ways.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Aggregate, ChangeFeed, Gold, History, Join, Upsert, View
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.streaming.query import failure_of
from gold.query import build_query
from gold.source.stream import CHANGE, at_version
from gold.table.context import Context

Position = Mapping[str, Any] | None
"""How far a source is read, as Spark's offset log writes it; None: it has no row yet."""


def needs_stream(gold: Gold) -> bool:
    """Whether a gold table needs a streaming query: for state, for a start, or for a user's function."""
    if isinstance(gold, Aggregate | Join):
        is_possible = gold.mode in {"recompute", "lookup"}
    else:
        is_possible = isinstance(gold, Upsert | ChangeFeed | History | View)
    return not is_possible or gold.reading.has_start


@dataclass
class MicroBatches:
    """The micro-batches of one gold table."""

    context: Context  # what its query is built from
    gold: Gold
    _query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _next: int = 0
    _read: tuple[Position, ...] = ()

    @cached_property
    def paths(self) -> Sequence[str]:
        """The tables that its query reads as streams, in the order of the query's sources."""
        return tuple(map(self.context.path, self.gold.streamed))

    def write_next(self, *, is_last: bool = False) -> None:
        """Write what came since the micro-batch before, if anything did; create the table if there is none.

        Args:
            is_last: Whether the first micro-batch is written even where there are no rows.

        Raises:
            MedallionError: The micro-batch failed.
        """
        before = self._read or (None,) * len(self.paths)
        now = tuple(_end(path, since) for path, since in zip(self.paths, before, strict=True))
        read = dict(zip(self.paths, zip(before, now, strict=True), strict=True))
        has_come = now != before
        if self._next and not has_come:
            return
        try:
            stream = build_query(
                replace(self.context, read_once=lambda path, feed: self._rows(path, *read[path], feed=feed)),
                self.gold,
            )
            if not has_come and not is_last:
                return
            batch = MicroBatch(
                stream.pipeline,
                stream.name,
                self._query_id,
                self._next,
                now,
                is_first=False,
                before=before if self._next else (),
                declared=stream.declared,
                planned_ms=int(time() * 1000),
            )
            stream.write(stream.frame, batch)
        except (PySparkException, Py4JError) as error:
            raise failure_of(self.gold.table, error) from error
        self._next, self._read = self._next + 1, now

    def _rows(self, path: str, before: Position, now: Position, *, feed: bool) -> DataFrame:
        """The rows that a stream of a table would read from one position to another."""
        spark = self.context.spark
        end = _version(now)
        if before is None or now == before:
            # Also of nothing: the columns decide what the query does with its rows.
            found = at_version(spark, path, None if now == before else end)
            if not feed:
                return found
            commit = {
                "_commit_version": F.lit(end).cast("bigint"),
                "_commit_timestamp": F.current_timestamp(),
            }
            return found.withColumns({CHANGE: F.lit("insert"), **commit})
        start = (_version(before) or 0) + 1
        if feed:
            reader = spark.read.format("delta").option("readChangeFeed", "true")
            return reader.option("startingVersion", start).option("endingVersion", end or start).load(path)
        commits = (LogReader(path).commit(version) for version in range(start, (end or start) + 1))
        added = [file for commit in commits if commit and not commit.is_change for file in commit.added]
        names = [file.path.rpartition("/")[2] for file in added]
        return at_version(spark, path, end).where(F.col("_metadata.file_name").isin(names))


def _end(path: str, before: Position) -> Position:
    """The position after the newest commit of a table; None while it has never had a row."""
    found = LogReader(path).snapshot()
    if found is None or (before is None and found.rows == 0):
        return None
    if before is not None and _version(before) == found.version:
        return before
    is_first = before is None
    return {
        "sourceVersion": 1,
        "reservoirId": found.table_id,
        "reservoirVersion": found.version if is_first else found.version + 1,
        "index": max(found.files - 1, 0) if is_first else -1,
        "isStartingVersion": is_first,
    }


def _version(position: Position) -> int | None:
    """The newest version whose rows lie before a position."""
    return MicroBatch("", "", "", 0, (position,)).source_version()
