"""Counts rows that a query drops on their way, by counters in the plan of its running micro-batch.

Spark's stateful operators count duplicates and late rows; ``count_rows`` counts rows by a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from common.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

DUPLICATES = "numDroppedDuplicateRows"
LATE = "numRowsDroppedByWatermark"
_KEYS = {DUPLICATES: "duplicates", LATE: "late"}
_COUNTED = "medallion.counted"


def count_rows(frame: DataFrame, name: str, condition: Column) -> DataFrame:
    """The same rows of a stream; ``DroppedRows.counts`` has how many of a micro-batch meet the condition.

    Once per query. The count is exact if the micro-batch is computed whole and once.
    """
    from pyspark.sql import functions as F  # loaded when it is used: the module is without Spark

    return frame.observe(_COUNTED, F.count(F.when(condition, F.lit(1))).alias(name))


class DroppedRows:
    """Counts the rows that the running micro-batch of a query drops; the plan is searched at first use.

    Args:
        query: Returns the query, which may not be known yet when its first micro-batch starts.
    """

    def __init__(self, query: Callable[[], StreamingQuery]) -> None:
        self._query = query

    def counts(self) -> dict[str, int]:
        """Number of duplicate and late rows that all stateful operators of the plan have dropped.

        With ``count_rows`` in the query also the number of rows that it counted, under its name.
        Exact only if the batch was consumed whole and once; persist the batch before reading it twice.
        """
        counts = dict.fromkeys(_KEYS.values(), 0)
        for name, metric in self._metrics:
            counts[_KEYS[name]] += int(metric.value())
        return counts | jvm.observed_counts(jvm.last_execution(self._query()), _COUNTED)

    def reset(self) -> None:
        """Reset the counters. Call it before the micro-batch is computed a second time."""
        for _, metric in self._metrics:
            metric.reset()
        jvm.reset_observed_counts(jvm.last_execution(self._query()))

    def late_watermark_ms(self) -> int | None:
        """The watermark that decides which rows of this micro-batch are late, in milliseconds since 1970.

        It is older than the one in progress reports: the watermark of the batch before the last. A row is
        late if its event time is at or before it. None if no operator has a watermark.
        """
        return self._late_watermark_ms

    def closing_watermark_ms(self) -> int | None:
        """The watermark up to which this micro-batch closes windows; None if no operator has one."""
        found = (node.eventTimeWatermarkForEviction() for node in self._judging)
        return next((int(each.get()) for each in found if each.isDefined()), None)

    @cached_property
    def _operators(self) -> tuple[Any, ...]:
        return tuple(_stateful(self._query()))

    @cached_property
    def _metrics(self) -> tuple[tuple[str, Any], ...]:
        found = []
        for node in self._operators:
            metrics = node.metrics()
            found += [(name, metrics.apply(name)) for name in _KEYS if metrics.contains(name)]
        return tuple(found)

    @property
    def _judging(self) -> Iterator[Any]:
        return (node for node in self._operators if node.metrics().contains(LATE))

    @cached_property
    def _late_watermark_ms(self) -> int | None:
        found = (node.eventTimeWatermarkForLateEvents() for node in self._judging)
        return next((int(each.get()) for each in found if each.isDefined()), None)


def _stateful(query: StreamingQuery) -> Iterator[Any]:
    """The operators that drop rows, from the plan of the running micro-batch."""
    # Not from a progress report: Spark publishes one only after the micro-batch.
    nodes: list[Any] = [jvm.last_execution(query).executedPlan()]
    while nodes:
        node = nodes.pop()
        metrics = node.metrics()
        if any(metrics.contains(name) for name in _KEYS):
            yield node
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))
