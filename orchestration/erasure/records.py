"""Finds the records that an erasure removes, by topic, partition and offset.

A record matches by its row in silver or in the late table, or by its bytes in bronze or in quarantine, read
as the declaration of today reads them. With the row of an event its copies are found too: records that were
left out as its duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.config.paths import Layout
from common.declare import Silver
from common.delta import table as delta_table
from common.errors import UsageError
from common.spark.broadcast import broadcast_if_small
from silver.judge.dedupe import event_key, key_text
from silver.judge.judge import read_rows
from silver.read.column_names import COORDINATES, META, PLACE
from silver.write.table_columns import PLACED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = "__key_text"

Say = Callable[[str], None]


def matching_records(  # noqa: PLR0913
    spark: SparkSession,
    silver: Silver,
    readers: Sequence[Silver],
    layout: Layout,
    *,
    where: str,
    say: Say,
) -> DataFrame:
    """Records that match a condition, and all copies of the events whose rows match. Persisted.

    Grain: one row per record: topic, partition, offset.

    Args:
        spark: The session.
        silver: The table whose columns the condition is about.
        readers: All existing silver tables that read the same bronze table: they have the same records.
        layout: Paths of the tables.
        where: SQL condition over silver's columns; null is no match.
        say: Reports each step.

    Raises:
        UsageError: ``where`` is no condition over silver's columns, or fails on a row.
    """
    finder = _Finder(spark, layout, say)
    found = finder.matching(silver, where).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        count, before = found.count(), -1
    except PySparkException as error:
        raise UsageError(f"--where: {_first_line(error)}. Nothing was erased.") from error
    while before != count:
        before = count
        for reader in readers:
            found, count = finder.with_copies(reader, found, count)
        if len(readers) == 1:
            break  # copies of one table's rows have no row in it, so they have no copies there
    return found


class _Finder:
    """Reads the tables of an erasure.

    Attributes:
        spark: The session.
        layout: Paths of the tables.
        say: Reports each step.
    """

    def __init__(self, spark: SparkSession, layout: Layout, say: Say) -> None:
        self.spark, self.layout, self.say = spark, layout, say

    def table(self, name: str) -> DataFrame | None:
        """A table's newest version; None where there is no table."""
        path = self.layout.table_path(name)
        return self.spark.read.format("delta").load(path) if delta_table.exists(path) else None

    def matching(self, silver: Silver, where: str) -> DataFrame:
        """Records whose row in silver or late, or whose bytes in bronze or quarantine, meet the condition."""
        rows = self.table(silver.table)
        if rows is None:
            raise AssertionError(silver.table)
        condition = _condition(rows, where, silver)
        found = [rows.where(condition).select(*_placed())]
        if (late := self.table(silver.late_table)) is not None:
            found.append(_like(late, rows).where(condition).select(*_placed()))
        for name in (silver.reads, silver.quarantine):
            if (raw := self.table(name)) is not None:
                self.say(f"reading the records of {name}")
                found.append(_typed(raw, silver, rows).where(condition).select(*_placed()))
        return reduce(DataFrame.unionAll, found).distinct()

    def with_copies(self, silver: Silver, found: DataFrame, count: int) -> tuple[DataFrame, int]:
        """The records and their copies: records that a table left out as duplicates of rows that are erased.

        Only an event that has no other row in the table is erased with its copies.

        Args:
            silver: The table.
            found: The records that are erased; persisted, and released where copies are added.
            count: How many there are.

        Returns:
            All records, persisted, and their number.
        """
        rows, raw = self.table(silver.table), self.table(silver.reads)
        if rows is None or raw is None or not count:
            return found, count
        with ExitStack() as stack:
            key = event_key(silver)
            rows = rows.select(*_placed(), key_text(rows, key).alias(_KEY))
            few = broadcast_if_small(found, count)
            gone = _kept(stack, rows.join(few, list(PLACE), "left_semi").select(_KEY).distinct())
            number = gone.count()
            if not number:
                return found, count
            self.say(f"looking for copies of {number:,} events of {silver.table} in {silver.reads}")
            other = rows.join(few, list(PLACE), "left_anti").select(_KEY)
            other = other.join(broadcast_if_small(gone, number), _KEY, "left_semi").distinct()
            lost = broadcast_if_small(gone.join(other, _KEY, "left_anti"), number)
            same = _kept(stack, _keys(raw, silver).join(lost, _KEY, "left_semi").select(*PLACE))
            others = self._with_own_row(silver, same, same.count())
            copies = reduce(lambda left, each: left.join(each, list(PLACE), "left_anti"), others, same)
            more = found.union(copies).distinct().persist(StorageLevel.MEMORY_AND_DISK)
            count = more.count()
            found.unpersist()
            return more, count

    def _with_own_row(self, silver: Silver, records: DataFrame, count: int) -> list[DataFrame]:
        """Those of some records that have a row of their own: they are nobody's duplicates."""
        tables = [(silver.table, _placed()), (silver.quarantine, [F.col(name) for name in PLACE])]
        if silver.late == "keep":
            tables.append((silver.late_table, _placed()))
        few = broadcast_if_small(records, count)
        return [
            rows.select(*columns).join(few, list(PLACE), "left_semi").distinct()
            for name, columns in tables
            if (rows := self.table(name)) is not None
        ]


def _condition(rows: DataFrame, where: str, silver: Silver) -> Column:
    """The condition, which fits the columns of silver."""
    try:
        condition = F.expr(f"({where})")
        rows.where(condition).schema  # noqa: B018  # resolves the condition's columns
    except PySparkException as error:
        names = ", ".join(rows.columns)
        raise UsageError(
            f"--where: {_first_line(error)}. The columns of {silver.table} are: {names}."
        ) from error
    return condition


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]


def _typed(raw: DataFrame, silver: Silver, like: DataFrame) -> DataFrame:
    """Raw records with silver's columns; a column that today's declaration does not give is null."""
    rows = read_rows(raw.select(*SCHEMA.names), silver)
    return _like(rows.withColumns({name: F.col(f"{META}.{field}") for name, field in PLACED.items()}), like)


def _like(rows: DataFrame, like: DataFrame) -> DataFrame:
    """Rows with all columns of another frame; those that they lack are null."""
    lacking = {
        field.name: F.lit(None).cast(field.dataType)
        for field in like.schema
        if field.name not in rows.columns
    }
    return rows.withColumns(lacking) if lacking else rows


def _keys(raw: DataFrame, silver: Silver) -> DataFrame:
    """The events of raw records: coordinates and key text; without tombstones that silver only counts."""
    typed = read_rows(raw.select(*SCHEMA.names), silver)
    if silver.tombstones != "keep":
        typed = typed.where(F.col(f"{META}.value").isNotNull())
    places = (F.col(f"{META}.{name}").alias(name) for name in PLACE)
    return typed.select(*places, key_text(typed, event_key(silver)).alias(_KEY))


def _kept(stack: ExitStack, frame: DataFrame) -> DataFrame:
    """The frame, persisted until the end of the block."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    stack.callback(kept.unpersist)
    return kept


def _placed() -> list[Column]:
    """The coordinates of silver's rows, under bronze's names."""
    return [F.col(own).alias(name) for own, name in zip(COORDINATES, PLACE, strict=True)]
