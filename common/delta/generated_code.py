"""For which micro-batches Spark generates code.

Spark writes code for each plan, compiles it and drops it with the plan. For few rows that costs more than to
evaluate the plan as it is; for many rows the code pays for itself. A micro-batch is planned before its rows
are known, so the setting follows the micro-batch before: one that falls behind gets generated code from the
next micro-batch on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.delta.match.source_match import Source
from common.delta.micro_batch import MicroBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW = 10_000
"""Rows up to which a micro-batch is cheaper without generated code; docs/performance.md has the figures."""

SETTINGS: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of a query's session while its micro-batches have few rows."""


@dataclass
class GeneratedCode:
    """Chooses for one running query.

    Attributes:
        sources: The tables that the query reads as streams, in the order of its checkpoint; none: it reads
            Kafka.
        before: The session's own settings while those of few rows are set; None: they are its own.
    """

    sources: Sequence[Source]
    before: Mapping[str, str] | None = None

    def follow(self, spark: SparkSession, batch: MicroBatch) -> None:
        """Set what the next micro-batch is planned with, by the rows of this one.

        Args:
            spark: The session of the query, a copy that is the query's own.
            batch: The micro-batch that has ended.
        """
        if self._has_few_rows(batch) is (self.before is not None):
            return
        wanted = self.before
        if wanted is None:
            self.before = {name: str(spark.conf.get(name)) for name in SETTINGS}
            wanted = SETTINGS
        else:
            self.before = None
        for name, value in wanted.items():
            spark.conf.set(name, value)

    def _has_few_rows(self, batch: MicroBatch) -> bool:
        if self.sources:
            read = batch.backlog([source.path for source in self.sources])
            rows = read.rows if read else None
        else:
            rows = batch.most_records()
        return rows is not None and rows <= FEW
