"""What every gold query is built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from common.config.driver_limits import DriverLimits
from common.config.pace import trigger_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Gold, Pipeline, Publish
from common.delta.checkpoint import Checkpoint
from common.delta.micro_batch import MicroBatch
from common.rows.spark_rows import BytesRead, SparkRows
from common.streaming.query import OutputMode, Stream


@dataclass(frozen=True)
class Context:
    """Where the tables of a pipeline are, and the session that reads and writes them."""

    spark: SparkSession
    pipeline: Pipeline
    settings: Settings
    layout: Layout
    # Gives the rows of a table for one micro-batch, by its path and whether from its change data feed; None:
    # a query reads its tables as streams.
    read_once: Callable[[str, bool], DataFrame] | None = None

    def path(self, table: str) -> str:
        """The path of a table of the pipeline, or of a Delta table that is named by its path."""
        return self.layout.table_path(table)

    @property
    def limits(self) -> DriverLimits:
        """What may be computed, read and written in the driver."""
        return self.settings.driver_limits

    @cached_property
    def replaced(self) -> frozenset[str]:
        """Silver tables whose rows are replaced by newer ones."""
        return frozenset(each.table for each in self.pipeline.silver if each.keep == "newest")

    def checkpoint(self, gold: Gold | Publish) -> str:
        """The checkpoint of a gold table's query."""
        return self.layout.checkpoint_path(gold.table)

    def begins_whole(self, gold: Gold | Publish) -> bool:
        """Whether the next micro-batch of a query is its first and takes all that its source has."""
        return gold.reading.event_time_order and Checkpoint(self.checkpoint(gold)).last_planned() is None

    def query(
        self,
        gold: Gold | Publish,
        frame: DataFrame,
        write: Callable[[SparkRows, MicroBatch], None],
        *,
        output_mode: OutputMode = "append",
        without_rows: bool = False,
    ) -> Stream:
        """The query of a declaration.

        Args:
            frame: What the query reads, as a streaming frame.
            write: Writes one micro-batch: its rows, not computed yet, and its identity.
            without_rows: Whether a micro-batch without rows follows one that moved the watermark.
        """
        limits = self.limits

        def write_batch(rows: DataFrame, batch: MicroBatch) -> None:
            write(SparkRows(rows, None, batch.limits(limits), BytesRead(rows)), batch)

        return Stream(
            pipeline=self.pipeline.name,
            name=gold.table,
            frame=frame,
            write=write_batch,
            checkpoint=self.checkpoint(gold),
            trigger=trigger_of(gold, self.settings),
            output_mode=output_mode,
            without_rows=without_rows,
            begins_whole=self.begins_whole(gold),
        )
