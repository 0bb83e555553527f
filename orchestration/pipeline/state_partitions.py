"""Whether a query's state is divided as the setting says, and what to do where it is not.

Spark divides a state once, at the query's first start, and passes over a setting that was changed since
without a word.
"""

from __future__ import annotations

from common.declare import Gold, Silver
from common.delta.checkpoint import Checkpoint


def other_partitions(declared: Silver | Gold, checkpoint: Checkpoint, wanted: int) -> str | None:
    """What there is to say of a query that is about to start; ``None`` where all is as it is set.

    Args:
        declared: The table that the query feeds.
        checkpoint: The query's.
        wanted: How many partitions the session has now.

    Raises:
        CheckpointMismatchError: The checkpoint is not what Spark 4.1 writes.
    """
    has = checkpoint.state_partitions()
    if has is None or has == wanted:
        return None
    if isinstance(declared, Silver):
        anew = "declare the table under a new name: the readers of this one would get every row again"
    else:
        anew = f"have it filled anew from {declared.reads}: medallion rebuild {declared.table}"
    return (
        f"{declared.table}: its state partitions are {has} since the query's first start, and stay {has}: "
        f"spark.shuffle_partitions, which is {wanted} now, does not change them. Set it to {has} again, or, "
        f"to have {wanted}, {anew}"
    )
