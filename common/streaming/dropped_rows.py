"""Counts the rows that Spark's stateful operators drop; the counters are in the micro-batch's plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

DUPLICATES = "numDroppedDuplicateRows"
LATE = "numRowsDroppedByWatermark"
_KEYS = {DUPLICATES: "duplicates", LATE: "late"}


class DroppedRows:
    """Counts the rows that the running micro-batch of a query drops; the plan is searched at first use.

    Args:
        query: Returns the query, which may not be known yet when its first micro-batch starts.
    """

    def __init__(self, query: Callable[[], StreamingQuery]) -> None:
        self._query = query

    def counts(self) -> dict[str, int]:
        """Number of duplicate and late rows that all stateful operators of the plan have dropped.

        Exact only if the batch was consumed whole and once; persist the batch before reading it twice.
        """
        counts = dict.fromkeys(_KEYS.values(), 0)
        for name, metric in self._metrics:
            counts[_KEYS[name]] += int(metric.value())
        return counts

    def reset(self) -> None:
        """Reset the counters. Call it before the micro-batch is computed a second time."""
        for _, metric in self._metrics:
            metric.reset()

    def late_watermark_ms(self) -> int | None:
        """The watermark that decides which rows of this micro-batch are late, in milliseconds since 1970.

        It is older than the one in progress reports: the watermark of the batch before the last. A row is
        late if its event time is at or before it. None if no operator has a watermark.
        """
        return self._late_watermark_ms

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

    @cached_property
    def _late_watermark_ms(self) -> int | None:
        judging = (node for node in self._operators if node.metrics().contains(LATE))
        found = (node.eventTimeWatermarkForLateEvents() for node in judging)
        return next((int(each.get()) for each in found if each.isDefined()), None)


def _stateful(query: StreamingQuery) -> Iterator[Any]:
    """The operators that drop rows, from the plan of the running micro-batch."""
    execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001  # a progress report comes only after the batch
    nodes: list[Any] = [execution.executedPlan()]
    while nodes:
        node = nodes.pop()
        metrics = node.metrics()
        if any(metrics.contains(name) for name in _KEYS):
            yield node
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))
