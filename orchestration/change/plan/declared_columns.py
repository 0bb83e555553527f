"""The columns that a pipeline's declarations give its tables, by the code of a start.

The queries of silver and gold are built over empty copies of the tables, in a temporary folder: nothing of
the pipeline's own tables and checkpoints is written, and no row is read.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Bronze, Join, Pipeline, Stateful, Table
from common.declare.declared import is_outside
from common.delta.log import column_types
from common.errors import MedallionError
from orchestration.access.declaration.lineage import sources
from orchestration.run.trial import copy_empty
from orchestration.run.wiring import Wiring

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class DeclaredColumns:
    """What was found."""

    # Per table, the declared columns with their types.
    columns: dict[str, Mapping[str, str]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)  # per query that cannot be built, the error


def declared_columns(
    spark: SparkSession, pipeline: Pipeline, settings: Settings, layout: Layout
) -> DeclaredColumns:
    """The columns of all silver and gold tables as declared.

    Args:
        layout: Where its tables are; only their columns are read.
    """
    found = DeclaredColumns()
    with tempfile.TemporaryDirectory(prefix="medallion-plan-") as folder:
        trial = Layout(f"{folder}/tables", f"{folder}/checkpoints", Path(folder), names=layout.catalog_names)
        wiring = Wiring(spark, pipeline, settings, trial, "")
        for topic in pipeline.bronze:
            copy_empty(spark, topic.table, layout, trial)
        looked_up = {each.table for silver in pipeline.silver for each in silver.lookups}
        for table in sorted(looked_up):
            if not is_outside(table):
                copy_empty(spark, table, layout, trial)
        for declared in wiring.tables("silver"):
            _build(wiring, trial, declared, found)
        for table in sorted(looked_up):
            if table.startswith("gold.") and not is_outside(table):
                shutil.rmtree(trial.table_path(table), ignore_errors=True)
        for declared in wiring.tables("gold"):
            if isinstance(declared, Join) and declared.joins_a_table:
                copy_empty(spark, declared.joins, layout, trial)
            # Its first micro-batch alone reads the initial table, which may be gone since.
            without = replace(declared, initial=None) if isinstance(declared, Stateful) else declared
            _build(wiring, trial, without, found)
    return found


def _build(wiring: Wiring, trial: Layout, declared: Table, found: DeclaredColumns) -> None:
    """Build one query, and read the columns of the tables that it creates."""
    if isinstance(declared, Bronze) or any(source in found.faults for source in sources(declared)):
        return  # the fault is that of its source
    try:
        wiring.stream(declared)
    except MedallionError as error:
        found.faults[declared.table] = str(error)
        return
    for name in (declared.table, *declared.side_tables):
        found.columns[name] = column_types(trial.table_path(name))
