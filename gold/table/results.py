"""Writes what Spark hands out of a query's state in one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.rows.rows import Rows


def write_results(  # noqa: PLR0913  # a write and all that its commit says
    rows: Rows,
    path: str,
    batch: MicroBatch,
    counts: Mapping[str, Any],
    *,
    step: str,
    key: Sequence[str] | None = None,
) -> None:
    """Add the rows to a table, or put them in the place of those with their key.

    The first micro-batch replaces what a lost checkpoint has left behind.

    Args:
        rows: The rows that were handed out; with a key, one row per key.
        step: Names the write among the query's writes.
        key: Columns that identify a row, compared null-safe; None: every row is added.
    """
    if key is not None and batch.batch_id > 0:
        delta_merge.replace_groups(
            rows.frame, path, batch, counts, touched=rows, group=key, key=key, step=step
        )
    else:
        mode = "overwrite" if batch.batch_id == 0 else "append"
        delta_table.append(rows, path, batch, step, counts, mode=mode)
