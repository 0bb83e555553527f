"""What every gold query is built from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import SparkSession

from common.config.driver_limits import DriverLimits
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Gold, Pipeline


@dataclass(frozen=True)
class Context:
    """Where the tables of a pipeline are, and the session that reads and writes them."""

    spark: SparkSession
    pipeline: Pipeline
    settings: Settings
    layout: Layout

    def path(self, table: str) -> str:
        """Where a table of the pipeline is."""
        return self.layout.table_path(table)

    @property
    def limits(self) -> DriverLimits:
        """What is worked out, read and written in the driver."""
        return self.settings.driver_limits

    @cached_property
    def replaced(self) -> frozenset[str]:
        """Silver tables whose rows are replaced by newer ones."""
        return frozenset(each.table for each in self.pipeline.silver if each.keep == "newest")

    def checkpoint(self, gold: Gold) -> str:
        """The checkpoint of a gold table's query."""
        return self.layout.checkpoint_path(gold.table)
