"""Counts that only Spark's operators know, read from the plan of a micro-batch that has run."""

from __future__ import annotations

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
    execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001  # progress comes only after the batch
    nodes: list[Any] = [execution.executedPlan()]
    while nodes:
        node = nodes.pop()
        metrics = node.metrics()
        for name, key in ((DUPLICATES, "duplicates"), (LATE, "late")):
            if metrics.contains(name):
                counts[key] += int(metrics.apply(name).value())
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))
    return counts
