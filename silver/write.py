"""One micro-batch into silver and quarantine, each once.

Order of effects: the batch is consumed whole and kept, then silver is written, then late rows are kept and
merged into silver, then quarantine. A crash anywhere in between replays the batch; each table skips what
it already has.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from common import delta
from common.delta import MicroBatch
from silver.late import LateRows
from silver.rules import ACCEPT, DROP, QUARANTINE, TOMBSTONE, VERDICT
from silver.tables import accepted, rejected

_ROWS_PER_FILE = 250_000


def writer(
    silver_path: str, quarantine_path: str, late_rows: LateRows
) -> Callable[[DataFrame, MicroBatch], None]:
    """The ``foreachBatch`` body of a silver table.

    Silver commits for every batch, even without a row, because its commit carries the batch's counts.
    """

    def write(frame: DataFrame, batch: MicroBatch) -> None:
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # Must come before anything may return: Spark marks the batch as done even when its state was not.
            found = {row[0]: row[1] for row in kept.groupBy(VERDICT).count().collect()}
            good, bad = found.get(ACCEPT, 0), found.get(QUARANTINE, 0) + found.get(DROP, 0)
            counts = {
                "accepted": good,
                "quarantined": found.get(QUARANTINE, 0),
                "dropped": found.get(DROP, 0),
                "tombstones": found.get(TOMBSTONE, 0),
                **batch.dropped(),
            }
            with late_rows.of(kept, batch, counts.get("late", 0)) as late:
                counts["merged"] = late.merged if late else 0
                delta.append(_packed(accepted(kept), good), silver_path, batch, "accepted", counts)
                if late:
                    late_rows.write(late, batch, counts)
            if bad:
                delta.append(_packed(rejected(kept), bad), quarantine_path, batch, "quarantine", counts)
        finally:
            kept.unpersist()

    return write


def _packed(frame: DataFrame, rows: int) -> DataFrame:
    """The frame in as few files as its rows fill, not one per state partition."""
    return frame.coalesce(max(1, -(-rows // _ROWS_PER_FILE)))
