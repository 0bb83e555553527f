"""Compares the number of a query's state partitions with the setting.

Spark fixes the number of state partitions at a query's first start and silently ignores later changes of the
setting.
"""

from __future__ import annotations

from common.declare import Gold, Silver
from common.delta.checkpoint import Checkpoint


def other_partitions(declared: Silver | Gold, checkpoint: Checkpoint, wanted: int) -> str | None:
    """The warning for a query whose state has another number of partitions; None if the numbers are equal.

    Args:
        wanted: The number of partitions in the session's setting.

    Raises:
        CheckpointMismatchError: The checkpoint has a format that Spark 4.1 does not write.
    """
    has = checkpoint.state_partitions()
    if has is None or has == wanted:
        return None
    read = declared.read_text if isinstance(declared, Silver) else declared.reads
    refill = f"fill the table again from {read}: medallion rebuild {declared.table}"
    return (
        f"{declared.table}: its query has {has} state partitions since its first start, and keeps them: "
        f"spark.shuffle_partitions, which is {wanted} now, does not change them. Set it to {has} again, or, "
        f"to have {wanted}, {refill}"
    )
