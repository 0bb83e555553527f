"""Builds the queries of a start over empty copies of the tables, before the start changes a table.

A query's columns come from the table that it reads, so a start creates and changes tables in data order. What
it would refuse of the last table is known only when the others have been changed; here they are copies, and
the code is that of the start. The copies are in a temporary folder and have columns and properties, no rows.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.declare import Pipeline, Table
from common.declare.declared import is_outside
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader, commit_name
from common.errors import HistoryGoneError, MedallionError
from orchestration.access.declaration.lineage import sources, written_by
from silver.write.table_columns import EACH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = "medallion."
"""What the names of the engine's own properties begin with: they are about rows, which the copies lack; but
for ``EACH``, which says of what unit the rows are."""


@contextmanager
def copies(spark: SparkSession, pipeline: Pipeline, layout: Layout) -> Iterator[Layout]:
    """The layout of empty copies of a pipeline's tables, with what their checkpoints have committed.

    An error inside the block names the tables' own paths.
    """
    with tempfile.TemporaryDirectory(prefix="medallion-trial-") as folder:
        trial = Layout(f"{folder}/tables", f"{folder}/checkpoints", Path(folder), names=layout.catalog_names)
        for table in known_tables(pipeline):
            copy_empty(spark, table, layout, trial)
        for declared in pipeline.tables:
            _copy_committed(layout, trial, declared)
        try:
            yield trial
        except MedallionError as error:
            _name_own_paths(error, trial, layout)
            raise


def known_tables(pipeline: Pipeline) -> set[str]:
    """The tables that the queries of a pipeline write or read, but those that are named by a path."""
    names = {name for one in pipeline.tables for name in written_by(one)}
    names |= {name for one in pipeline.gold for name in sources(one)}
    names |= {one.table for silver in pipeline.silver for one in silver.lookups}
    return {name for name in names if not is_outside(name)}


def copy_empty(spark: SparkSession, table: str, layout: Layout, trial: Layout) -> None:
    """An empty table with columns, properties and protocol of an existing one, unless the trial has it."""
    path, copy = layout.table_path(table), Path(trial.table_path(table))
    log = LogReader(path)
    if copy.exists() or log.latest_version() is None:
        return
    try:
        protocol, metadata = log.definition()
    except HistoryGoneError:  # of types that delta-rs does not know
        schema = spark.read.format("delta").load(path).schema
        delta_table.ensure(spark, table, str(copy), schema, {delta_table.FEED: "true"})
        return
    had = metadata["configuration"].items()
    kept = {name: value for name, value in had if name == EACH or not name.startswith(_OWN)}
    metadata["configuration"] = kept
    now = int(time.time() * 1000)
    created = {"inCommitTimestamp": now, "timestamp": now, "operation": "CREATE TABLE"}
    actions = ({"commitInfo": created}, {"protocol": protocol}, {"metaData": metadata})
    (copy / "_delta_log").mkdir(parents=True)
    text = "\n".join(map(json.dumps, actions))
    (copy / "_delta_log" / commit_name(0)).write_text(text, encoding="utf-8")


def _copy_committed(layout: Layout, trial: Layout, declared: Table) -> None:
    """Note in the trial's checkpoint that the query has committed a micro-batch, if it has."""
    committed = Checkpoint(layout.checkpoint_path(declared.table)).last_committed()
    if committed is not None:
        commits = Path(trial.checkpoint_path(declared.table), "commits")
        commits.mkdir(parents=True)
        (commits / str(committed)).write_text("v1\n{}", encoding="utf-8")


def _name_own_paths(error: MedallionError, trial: Layout, layout: Layout) -> None:
    """Give the error the paths of the tables in the place of those of their copies."""

    def told(text: str) -> str:
        for table, place in layout.locations.items():
            text = re.sub(rf"{re.escape(trial.table_path(table))}\b", place, text)
        text = text.replace(trial.warehouse, layout.warehouse)
        return text.replace(trial.checkpoints, layout.checkpoints)

    error.args = tuple(told(each) if isinstance(each, str) else each for each in error.args)
