"""Declaration and settings made into streams; nothing else constructs them.

Tables are made in data order, because a stream's columns come from the table it reads. A job of one
layer alone waits until the layer before it has made its tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import bronze.stream
import gold.aggregate
import gold.upsert
import silver.stream
from common import delta
from common.declare import Aggregate, Gold, Pipeline, Silver
from common.errors import TableMissingError
from common.identity import check_identity
from common.layout import Layout
from common.settings import Settings
from common.streaming import Stream
from orchestration.kafka import client_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class Wiring:
    """Everything a stream is built from.

    Attributes:
        bootstrap_servers: The broker in force; only bronze needs one.
    """

    spark: SparkSession
    pipeline: Pipeline
    settings: Settings
    layout: Layout
    bootstrap_servers: str

    def streams(self, layer: Layer) -> Iterator[Stream]:
        """The streams of one layer; makes their tables where there are none.

        Raises:
            CheckpointMismatchError: A checkpoint and its table do not belong together.
            PipelineError: A declaration does not fit the data.
            TableShapeError: A table exists with other columns.
        """
        for stream in self._build(layer):
            check_identity(stream.name, self.layout.table_path(stream.name), stream.checkpoint)
            yield stream

    def await_sources(
        self, layers: Sequence[Layer], *, wait: bool, stopping: Callable[[], bool]
    ) -> Iterator[str]:
        """Wait for the tables these layers read and do not make themselves; yields each while it waits.

        Raises:
            TableMissingError: One is missing and ``wait`` is false.
        """
        for table in self._sources(layers):
            path = self.layout.table_path(table)
            told = False
            while not delta.exists(path) and not stopping():
                if not wait:
                    layer = table.partition(".")[0]
                    raise TableMissingError(table, path, f"Run the {layer} job first: medallion run {layer}.")
                if not told:
                    yield table
                    told = True
                time.sleep(0.5)

    def _sources(self, layers: Sequence[Layer]) -> list[str]:
        reads: list[str] = []
        if "silver" in layers and "bronze" not in layers:
            reads += [table.reads for table in self.pipeline.silver]
        if "gold" in layers and "silver" not in layers:
            reads += [table.reads for table in self.pipeline.gold]
        return sorted(set(reads))

    def _build(self, layer: Layer) -> Iterator[Stream]:
        if layer == "bronze":
            for topic in self.pipeline.bronze:
                yield bronze.stream.stream(
                    self.spark,
                    self.pipeline.name,
                    topic,
                    settings=self.settings,
                    layout=self.layout,
                    bootstrap_servers=self.bootstrap_servers,
                    client=client_options(self.settings, self.pipeline, topic),
                )
        elif layer == "silver":
            for table in self.pipeline.silver:
                yield self._silver(table)
        else:
            for declared in self.pipeline.gold:
                yield self._gold(declared)

    def _silver(self, table: Silver) -> Stream:
        return silver.stream.stream(
            self.spark, self.pipeline.name, table, settings=self.settings, layout=self.layout
        )

    def _gold(self, table: Gold) -> Stream:
        build = gold.aggregate.stream if isinstance(table, Aggregate) else gold.upsert.stream
        return build(self.spark, self.pipeline.name, table, settings=self.settings, layout=self.layout)  # type: ignore[arg-type]
