"""Finds the records that an erasure removes, by topic, partition and offset.

A record matches by its row in silver or in the late table, or by its bytes in bronze or in quarantine, read
as the declaration of today reads them. With the row of an event its copies are found too: records that were
left out as its duplicates. A silver table of several bronze tables may have left out as a duplicate what is
the row of another silver table: then its own row of the event is found, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.config.driver_limits import DriverLimits
from common.config.paths import Layout
from common.declare import Silver
from common.delta import table as delta_table
from common.errors import UsageError, first_line
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.spark.broadcast import broadcast_if_small
from orchestration.records.rejudge.select import (
    Say,
    condition,
    coordinates_of,
    renamed,
    tables_with_own_row,
)
from silver.judge.dedupe import key_text
from silver.judge.read_and_judge import read_rows
from silver.read.column_names import COORDINATES, ELEMENT, META, PLACE
from silver.read.where import is_other_record
from silver.write.table_columns import placed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = "__key_text"

_IN_DRIVER = DriverLimits(rows=100_000)
"""Up to this many coordinates or keys are collected."""


def kept(stack: ExitStack, frame: DataFrame) -> Rows:
    """The rows of a frame, computed once, until the end of the block: few of them are in the driver.

    What is computed from them has a short plan: Spark plans each step anew.
    """
    return stack.enter_context(SparkRows(frame, None, _IN_DRIVER).kept(whole=True))


def matching_records(  # noqa: PLR0913
    stack: ExitStack,
    spark: SparkSession,
    silver: Silver,
    readers: Sequence[Silver],
    layout: Layout,
    *,
    where: str,
    say: Say,
) -> Rows:
    """Records that match a condition, and all copies of the events whose rows match.

    Grain: one row per record: topic, partition, offset.

    Args:
        stack: Releases the records, and what they were found with.
        silver: The table whose columns the condition is about.
        readers: All existing silver tables that may have the same records.
        where: SQL condition over silver's columns; null is no match.

    Raises:
        UsageError: ``where`` is no condition over silver's columns, or fails on a row.
    """
    finder = _Finder(stack, spark, layout, say)
    try:
        found = kept(stack, finder.matching(silver, where))
    except PySparkException as error:
        raise UsageError(f"--where: {first_line(error)}. Nothing was erased.") from error
    before = -1
    while before != found.count:
        before = found.count
        for reader in readers:
            if len(reader.sources) > 1:
                found = finder.with_originals(reader, readers, found)
            found = finder.with_copies(reader, found)
        if len(readers) == 1:
            break  # copies of one table's rows have no row in it, so they have no copies there
    return found


class _Finder:
    """Reads the tables of an erasure."""

    def __init__(self, stack: ExitStack, spark: SparkSession, layout: Layout, say: Say) -> None:
        self.stack, self.spark, self.layout, self.say = stack, spark, layout, say

    def table(self, name: str) -> DataFrame | None:
        """A table's newest version; None where there is no table."""
        path = self.layout.table_path(name)
        return self.spark.read.format("delta").load(path) if delta_table.exists(path) else None

    def matching(self, silver: Silver, where: str) -> DataFrame:
        """Records whose row in silver or late, or whose bytes in bronze or quarantine, meet the condition."""
        rows = self.table(silver.table)
        if rows is None:
            raise AssertionError(silver.table)
        matches = condition(rows, where, silver.table)
        found = [rows.where(matches).select(*_placed())]
        if (late := self.table(silver.late_table)) is not None:
            found.append(_like(late, rows).where(matches).select(*_placed()))
        # Bronze last: by its name the step is reported, and it takes the longest.
        for name in (silver.quarantine, *silver.sources):
            if (raw := self.table(name)) is not None:
                if ELEMENT in raw.columns:
                    raw = raw.where(F.col(ELEMENT).isNull())  # an element is found in its record's bytes
                self.say(f"reading the records of {name}")
                found.append(_typed(raw, silver, rows).where(matches).select(*_placed()))
        return reduce(DataFrame.unionAll, found).distinct()

    def with_copies(self, silver: Silver, found: Rows) -> Rows:
        """The records and their copies: records that a table left out as duplicates of rows that are erased.

        Only an event that has no other row in the table is erased with its copies.
        """
        lost = self._lost(silver, found)
        raw = self._raw(silver)
        if lost is None or not raw:
            return found
        self.say(f"looking for copies of {lost.count:,} events of {silver.table} in {silver.read_text}")
        events = broadcast_if_small(lost.frame, lost.count)
        same = kept(self.stack, _keys(raw, silver).join(events, _KEY, "left_semi").select(*PLACE))
        others = reduce(DataFrame.unionAll, self._with_own_row(silver, same))
        copies = same.frame.join(others, list(PLACE), "left_anti")
        return kept(self.stack, found.frame.union(copies).distinct())

    def with_originals(self, silver: Silver, readers: Sequence[Silver], found: Rows) -> Rows:
        """The records, and the rows of which a table left out as duplicates what other tables have as rows.

        Only of events that are erased from another table of the same key.
        """
        rows, raw = self._events(silver), self._raw(silver)
        if rows is None or not raw:
            return found
        for other in readers:
            is_alike = other.table != silver.table and other.event_key == silver.event_key
            lost = self._lost(other, found) if is_alike else None
            if lost is None:
                continue
            few = broadcast_if_small(found.frame, found.count)
            events = broadcast_if_small(lost.frame, lost.count)
            here = _keys(raw, silver).join(few, list(PLACE), "left_semi")
            same = kept(self.stack, here.join(events, _KEY, "left_semi"))
            owned = reduce(DataFrame.unionAll, self._with_own_row(silver, same))
            left_out = same.frame.join(owned, list(PLACE), "left_anti").select(_KEY).distinct()
            originals = rows.join(F.broadcast(left_out), _KEY, "left_semi").select(*PLACE)
            found = kept(self.stack, found.frame.union(originals).distinct())
        return found

    def _events(self, silver: Silver) -> DataFrame | None:
        """The rows of a silver table: coordinates and key text; None where there is no table."""
        rows = self.table(silver.table)
        if rows is None:
            return None
        return rows.select(*_placed(), key_text(rows, silver.event_key).alias(_KEY))

    def _lost(self, silver: Silver, found: Rows) -> Rows | None:
        """The events of which all rows of a table are erased, by key text; None where no row is erased."""
        rows = self._events(silver)
        if rows is None or not found.count:
            return None
        few = broadcast_if_small(found.frame, found.count)
        gone = kept(self.stack, rows.join(few, list(PLACE), "left_semi").select(_KEY).distinct())
        if not gone.count:
            return None
        other = rows.join(few, list(PLACE), "left_anti").select(_KEY)
        other = other.join(broadcast_if_small(gone.frame, gone.count), _KEY, "left_semi").distinct()
        lost = kept(self.stack, gone.frame.join(other, _KEY, "left_anti"))
        return lost if lost.count else None

    def _raw(self, silver: Silver) -> list[DataFrame]:
        """The bronze tables that a silver table reads."""
        return [one for one in map(self.table, silver.sources) if one is not None]

    def _with_own_row(self, silver: Silver, records: Rows) -> list[DataFrame]:
        """Those of some records that have a row of their own: they are nobody's duplicates."""
        few = broadcast_if_small(records.frame, records.count)
        return [
            rows.select(*renamed(coordinates_of(name), PLACE)).join(few, list(PLACE), "left_semi")
            for name in tables_with_own_row(silver)
            if (rows := self.table(name)) is not None
        ]


def _typed(raw: DataFrame, silver: Silver, like: DataFrame) -> DataFrame:
    """Raw records with silver's columns; a column that today's declaration does not give is null."""
    rows = _own_records(raw, silver)
    return _like(
        rows.withColumns({name: F.col(f"{META}.{field}") for name, field in placed(SparkRows(rows)).items()}),
        like,
    )


def _own_records(raw: DataFrame, silver: Silver) -> DataFrame:
    """Raw records read as silver reads them, without those of other tables (``Silver.where``)."""
    return read_rows(raw.select(*SCHEMA.names), silver).where(~is_other_record())


def _like(rows: DataFrame, like: DataFrame) -> DataFrame:
    """Rows with all columns of another frame; those that they lack are null."""
    lacking = {
        field.name: F.lit(None).cast(field.dataType)
        for field in like.schema
        if field.name not in rows.columns
    }
    return rows.withColumns(lacking) if lacking else rows


def _keys(tables: Sequence[DataFrame], silver: Silver) -> DataFrame:
    """The events of raw records: coordinates and key text; without tombstones that silver only counts."""
    keys = []
    for raw in tables:
        typed = _own_records(raw, silver)
        if silver.tombstones != "keep":
            typed = typed.where(F.col(f"{META}.value").isNotNull())
        text = key_text(typed, silver.event_key).alias(_KEY)
        keys.append(typed.select(*(f"{META}.{name}" for name in PLACE), text))
    return reduce(DataFrame.unionAll, keys)


def _placed() -> list[Column]:
    """The coordinates of silver's rows, under bronze's names."""
    return renamed(COORDINATES, PLACE)
