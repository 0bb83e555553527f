"""Make a gold table anew from silver: its checkpoint goes aside, and the next start fills the table again.

Nothing is deleted: the table keeps its versions, and people read it as it is until the first micro-batch
puts new rows in place of all that it has.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from common.config.paths import Layout, is_local
from common.declare import Custom, Gold, Pipeline, Silver, Topic
from common.delta.checkpoint import Checkpoint
from common.errors import UsageError
from common.machine.table_lease import Leases


def rebuild(pipeline: Pipeline, layout: Layout, table: str) -> str | None:
    """Move a gold table's checkpoint aside; where it is now, or ``None`` where there was none.

    Raises:
        LeaseHeldError: A job writes the table.
        PipelineError: The pipeline declares no such table.
        UsageError: It is not one that can be made anew.
    """
    gold = _gold(pipeline, table)
    checkpoint = layout.checkpoint_path(gold.table)
    if not is_local(checkpoint):
        raise UsageError(
            f"{table}: its checkpoint {checkpoint} is in an object store, which cannot rename a folder. "
            "Stop the gold job, move all that is under it elsewhere, and start the job again: it fills the "
            "table anew."
        )
    with Leases(layout.leases, (gold.table, *gold.side_tables), "rebuild"):
        if not Checkpoint(checkpoint).exists():
            return None
        moved = f"{checkpoint}__before_{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        Path(checkpoint).rename(moved)
        return moved


def _gold(pipeline: Pipeline, table: str) -> Gold:
    declared = pipeline.table(table)
    if isinstance(declared, Topic):
        raise UsageError(
            f"{table} is bronze: what Kafka has forgotten would be lost. Only gold is made anew."
        )
    if isinstance(declared, Silver):
        raise UsageError(
            f"{table} is silver: its readers would get every row again. Only gold is made anew; to make "
            "silver anew, declare it under a new name."
        )
    if isinstance(declared, Custom):
        raise UsageError(
            f"{table} is written by a function of your own, and its first micro-batch would not replace what "
            "the tables hold. Move its tables and its checkpoint away yourself, and start the gold job."
        )
    return declared
