"""Rebuilds a gold table from silver: moves its checkpoint aside, so that the next start refills the table.

Nothing is deleted. The table keeps its versions, and readers see its old rows until the first micro-batch
replaces all of them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from common.config.paths import Layout, is_local
from common.declare import Bronze, Custom, Gold, Pipeline, Silver
from common.delta.checkpoint import Checkpoint
from common.delta.lease.job_leases import TableLeases
from common.errors import UsageError


def refill(pipeline: Pipeline, layout: Layout, table: str) -> str | None:
    """Move a gold table's checkpoint aside.

    Returns:
        The checkpoint's new path; None if there was no checkpoint.

    Raises:
        LeaseHeldError: A job writes the table.
        PipelineError: The pipeline declares no table of that name.
        UsageError: The table cannot be rebuilt.
    """
    gold, checkpoint = checkpoint_to_move(pipeline, layout, table)
    with TableLeases(layout, (gold.table, *gold.side_tables), "rebuild"):
        return move_aside(checkpoint)


def checkpoint_to_move(pipeline: Pipeline, layout: Layout, table: str) -> tuple[Gold, str]:
    """The declaration of a gold table, and the path of its checkpoint.

    Raises:
        PipelineError: The pipeline declares no table of that name.
        UsageError: The table cannot be rebuilt.
    """
    gold = _gold(pipeline, table)
    checkpoint = layout.checkpoint_path(gold.table)
    if not is_local(checkpoint):
        raise UsageError(
            f"{table}: its checkpoint {checkpoint} is in an object store, which cannot rename a folder. "
            "Stop the gold job, move everything under the checkpoint elsewhere, and start the job again: the "
            "job refills the table."
        )
    layout.require_own((gold.table,))
    return gold, checkpoint


def move_aside(checkpoint: str) -> str | None:
    """Rename a checkpoint that no query uses; its new path, or None if there is none."""
    if not Checkpoint(checkpoint).exists():
        return None
    moved = f"{checkpoint}__before_{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    Path(checkpoint).rename(moved)
    return moved


def _gold(pipeline: Pipeline, table: str) -> Gold:
    declared = pipeline.table(table)
    if isinstance(declared, Bronze):
        raise UsageError(
            f"{table} is bronze: records that Kafka no longer has would be lost. Only silver and gold can be "
            "rebuilt."
        )
    if isinstance(declared, Silver):
        raise UsageError(
            f"{table} is silver: it is filled beside the live table, in a process of its own: medallion "
            f"rebuild {table}"
        )
    if isinstance(declared, Custom):
        raise UsageError(
            f"{table} is written by a function of your own, and its first micro-batch would not replace the "
            "rows in the tables. Move its tables and its checkpoint away yourself, and start the gold job."
        )
    return declared
