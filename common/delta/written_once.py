"""Whether a table has a micro-batch already: what keeps one that Spark repeats from being written twice.

A commit's metadata names the query (by the id that lives in its checkpoint) and the batch that wrote it.
Spark replays at most one batch: the one that was running when the query ended, as the first of its next run.
So the first batch of a run looks into the table's log whether the table has it already, and every later one
is new: a table has one writer, which holds its lease. A batch may have several commits in one table, each a
step of its own: a replay does the steps that the table lacks. Delta's own transaction ids would do the same,
but rebuild the whole state of the table at every commit: five times the CPU of a small append.
"""

from __future__ import annotations

from common.delta.match.checkpoint_match import commits_metadata
from common.delta.micro_batch import MicroBatch


def is_written(path: str, batch: MicroBatch, step: str) -> bool:
    """Whether the table has a step of a batch: the process that wrote it ended before Spark recorded that.

    Searches from the newest commit down, no further than the batch before.
    """
    if not batch.is_first:
        return False
    for metadata in commits_metadata(path, batch.query):
        if metadata["query_id"] != batch.query_id or metadata["batch_id"] < batch.batch_id:
            return False
        if metadata["batch_id"] > batch.batch_id or metadata.get("step") == step:
            return True
    return False
