"""Writes changed rows into the tables of a silver query, each by one commit: a reader sees no mixed table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.changes import changes_between
from common.delta.delta_rs import ACTION
from common.delta.log import LogReader
from common.rows.spark_rows import SparkRows
from orchestration.records.rejudge.select import Say
from silver.write import known_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ReplacedTable:
    """A silver table whose stored rows are replaced; the base of what replaces them."""

    spark: SparkSession
    pipeline: Pipeline  # the pipeline with the declaration of today
    settings: Settings
    layout: Layout  # where its tables are
    silver: Silver  # the table
    say: Say  # called with what is done, as sentences

    @property
    def path(self) -> str:
        """The table's path."""
        return self.layout.table_path(self.silver.table)

    @property
    def tables(self) -> dict[str, str]:
        """The path of each table of the query, in the order of writing: silver is the last."""
        return {name: self.layout.table_path(name) for name in (*self.silver.side_tables, self.silver.table)}

    def versions(self) -> dict[str, int]:
        """The version of each table now."""
        return {name: LogReader(path).latest_version() or 0 for name, path in self.tables.items()}

    def remember_keys(self, newest_ms: int | None) -> None:
        """Have the live query look up the keys of rows up to an event time, which its state does not know."""
        metadata = delta_table.maintenance_metadata(self.pipeline.name, self.silver.table, "evolution")
        known_keys.remember(self.spark, self.path, metadata, newest_ms)


def has_columns(path: str, rows: DataFrame) -> bool:
    """Whether a table has the columns of some rows, and no others."""
    have, want = (
        delta_table.column_types(each.schema) for each in (delta_table.newest(rows.sparkSession, path), rows)
    )
    return not delta_table.shape_difference(have, want)


def make_equal(path: str, rows: DataFrame, metadata: str, *, key: Sequence[str]) -> None:
    """Make a table equal to some rows, by one commit, which is empty if they are equal.

    Only what differs is written, and readers of the change data feed see no more; where the columns differ,
    all rows are, as where the table has a key twice, or rows without one: a change is for all rows of a key.
    """
    if not has_columns(path, rows):
        delta_table.replace_all(rows, path, metadata)
        return
    before = delta_table.newest(rows.sparkSession, path)
    lacks_key = f"`{key[0]}` is null"  # of rows by other programs
    if not before.groupBy(*key).count().where(f"count > 1 or {lacks_key}").isEmpty():
        delta_table.replace_all(rows.select(*before.columns), path, metadata)
        return
    with SparkRows(changes_between(before, rows, key)).kept() as kept:
        numbers = kept.count_by(ACTION)
        delta_merge.write_changes(kept, path, metadata, key=key, numbers=numbers)


def has_run(path: str, since: int, run_id: str) -> bool:
    """Whether a table has a commit of a run after a version."""
    return any(one.metadata.get("run_id") == run_id for one in LogReader(path).commits(since + 1))
