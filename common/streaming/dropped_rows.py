"""Counts that only Spark's operators know, read from the plan of a micro-batch that has run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

DUPLICATES = "numDroppedDuplicateRows"
LATE = "numRowsDroppedByWatermark"
_KEYS = {DUPLICATES: "duplicates", LATE: "late"}


class Dropped:
    """What the running micro-batch of a query drops; its plan is walked once, at the first question.

    Args:
        query: Hands out the query: its first micro-batch may begin before that is known.
    """

    def __init__(self, query: Callable[[], StreamingQuery]) -> None:
        self._query = query

    def counts(self) -> dict[str, int]:
        """Duplicate and late rows that were dropped, summed over all stateful operators of the plan.

        Exact once the batch was consumed whole and only once: persist it first.
        """
        counts = dict.fromkeys(_KEYS.values(), 0)
        for name, metric in self._metrics:
            counts[_KEYS[name]] += int(metric.value())
        return counts

    def forget(self) -> None:
        """Count anew: the micro-batch is worked out again, because its first result could not be kept."""
        for _, metric in self._metrics:
            metric.reset()

    def late_watermark_ms(self) -> int | None:
        """The watermark by which the micro-batch judges rows late, milliseconds since the epoch.

        It is an older one than progress reports show: that of the batch before the last. A row is late when
        its event time is at or before it. None where no operator has one.
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
    """The operators, of the plan that the running micro-batch executes, that drop rows."""
    execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001  # progress comes only after the batch
    nodes: list[Any] = [execution.executedPlan()]
    while nodes:
        node = nodes.pop()
        metrics = node.metrics()
        if any(metrics.contains(name) for name in _KEYS):
            yield node
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))
