"""The tables of a statement at two versions each: that of the last commit, and that of the micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from common.delta.log import LogReader
from common.errors import MedallionError
from common.rows.rows import Rows
from common.sql.relations import Scan
from gold.source.stream import CHANGE, REMOVED, at_version
from gold.table.pruning import within_bounds

WEIGHT = "__weight"
"""How often a change adds its row; negative: takes it away."""


@dataclass(frozen=True)
class Near:
    """Values near which the rows of a table lie that are sought; so files without any of them are skipped."""

    values: Rows
    columns: Mapping[str, str]  # column of ``values`` -> column of the table, as SQL text


@dataclass(frozen=True)
class Versions:
    """The sources of a micro-batch."""

    session: SparkSession
    paths: Mapping[str, str]  # the path of each table
    # The version of each table that the last commit names, None where it had none; None: no commit names
    # versions.
    before: Mapping[str, int | None] | None
    now: Mapping[str, int | None]  # the version that the micro-batch has read to
    # Whether the micro-batch has failed at a row before. Then nothing is computed of a row that has come
    # since the last commit and is corrected by now.
    is_again: bool = field(default=False, kw_only=True)

    def changed(self, table: str) -> bool:
        """Whether the micro-batch brings commits of a table."""
        return self._before(table) != self.now[table]

    def changed_rows(self, table: str, log: LogReader) -> int | None:
        """The rows of a table that the micro-batch's commits have changed; None where one does not say it."""
        first, last = self._before(table), self.now[table]
        if first == last:
            return 0
        if first is None or last is None:
            return rows_now(log)
        with suppress(MedallionError, OSError):
            changed = [
                each.changed_rows for each in log.commits(first + 1, last) if each.added or each.removed
            ]
            log.forget_before(last)
            return None if None in changed else sum(each or 0 for each in changed)
        return None

    def _before(self, table: str) -> int | None:
        return None if self.before is None else self.before.get(table)

    def rows(self, scan: Scan, *, before: bool = False, near: Near | None = None) -> DataFrame:
        """The rows of a table as the statement names its columns, as they are now or were before.

        Args:
            before: The version of the last commit, not that of the micro-batch.
            near: At least the rows that have one of these values are there; others may be left out.
        """
        version = self._before(scan.table) if before else self.now[scan.table]
        rows = at_version(self.session, self.paths[scan.table], version)
        return named(rows if near is None else within_bounds(rows, near.values, near.columns), scan)

    def changes(self, scan: Scan) -> DataFrame:
        """The rows that the commits since then took away and added, with their ``WEIGHT``."""
        path, first = self.paths[scan.table], self._before(scan.table)
        if first is None:
            return self.rows(scan).withColumn(WEIGHT, F.lit(1))
        reader = self.session.read.format("delta").option("readChangeFeed", "true")
        feed = reader.option("startingVersion", first + 1).option("endingVersion", self.now[scan.table])
        weight = F.when(F.col(CHANGE).isin(*REMOVED), -1).otherwise(1).alias(WEIGHT)
        return named(feed.load(path), scan, weight)


def rows_now(log: LogReader) -> int | None:
    """The rows of a table as it is now; None where its log does not say it."""
    with suppress(MedallionError, OSError):
        found = log.snapshot()
        return None if found is None else found.rows
    return None


def named(rows: DataFrame, scan: Scan, *more: Column) -> DataFrame:
    """The rows of a table as the statement names its columns."""
    read = [F.col(f"`{column}`").alias(name) for column, name in scan.read]
    return rows.select(*(read or [F.lit(1).alias("__row")]), *more)
