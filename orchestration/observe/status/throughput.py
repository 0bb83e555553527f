"""The reading rate of a query, from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from common.delta.checkpoint import Checkpoint, PlannedBatch

WINDOW_SECONDS = 60


def rate_per_second(
    checkpoint: Checkpoint,
    newest: int | None,
    at: datetime,
    read: Callable[[PlannedBatch | None, PlannedBatch], int | None],
) -> float | None:
    """Rows per second over the micro-batches that ended in the last 60 seconds.

    The rows are divided by the time since the first of these micro-batches began, so that the rate is correct
    for a query that has just started and for one whose micro-batches take minutes.

    Args:
        read: Counts the rows between two positions; a start of None means the beginning.

    Returns:
        0 if no micro-batch ended; None if the number of rows is not known.
    """
    now_ms = at.timestamp() * 1000
    last = checkpoint.planned_batch(newest)
    first = None
    batch = newest
    while (
        batch is not None and batch >= 0 and _ended_since(checkpoint, batch, now_ms - WINDOW_SECONDS * 1000)
    ):
        entry = checkpoint.planned_batch(batch)
        if entry is None:
            break
        first, batch = entry, batch - 1
    if first is None or last is None:
        return 0.0
    before = checkpoint.planned_batch(first.batch_id - 1)
    if before is None and first.batch_id > 0:
        before = first  # the entry before it is purged: count from the first remaining one
    rows = read(before, last)
    return None if rows is None else rows / max(1.0, (now_ms - first.timestamp_ms) / 1000)


def _ended_since(checkpoint: Checkpoint, batch: int, since_ms: float) -> bool:
    ended = checkpoint.committed_ms(batch)
    return ended is not None and ended >= since_ms
