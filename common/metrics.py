"""Counts that only Spark's operators know, read from the plan of a micro-batch that has run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

DUPLICATES = "numDroppedDuplicateRows"
LATE = "numRowsDroppedByWatermark"


def dropped_by_dedupe(query: StreamingQuery) -> dict[str, int]:
    """Duplicate and late rows that the running micro-batch dropped.

    Exact once the batch was consumed whole and only once: persist it first. Summed over all stateful
    operators of the plan.
    """
    counts = {"duplicates": 0, "late": 0}
    for node in _executed(query):
        metrics = node.metrics()
        for name, key in ((DUPLICATES, "duplicates"), (LATE, "late")):
            if metrics.contains(name):
                counts[key] += int(metrics.apply(name).value())
    return counts


def forget_dropped(query: StreamingQuery) -> None:
    """Count anew: the running micro-batch is worked out again, because its first result could not be kept."""
    for node in _executed(query):
        metrics = node.metrics()
        for name in (DUPLICATES, LATE):
            if metrics.contains(name):
                metrics.apply(name).reset()


def late_watermark_ms(query: StreamingQuery) -> int | None:
    """The watermark by which the running micro-batch judged rows late, milliseconds since the epoch.

    It is an older one than progress reports show: that of the batch before the last. A row is late when
    its event time is at or before it. None where no operator has one.
    """
    found = (node.eventTimeWatermarkForLateEvents() for node in _executed(query) if _judges_late(node))
    return next((int(each.get()) for each in found if each.isDefined()), None)


def _judges_late(node: Any) -> bool:
    return bool(node.metrics().contains(LATE))


def _executed(query: StreamingQuery) -> Iterator[Any]:
    """The operators of the plan that the running micro-batch has executed."""
    execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001  # progress comes only after the batch
    nodes: list[Any] = [execution.executedPlan()]
    while nodes:
        node = nodes.pop()
        yield node
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))
