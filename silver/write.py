"""One micro-batch into silver and quarantine, each once.

Order of effects: the batch is consumed whole and kept, then silver is written, then late rows are kept and
merged into silver, then quarantine. A crash anywhere in between replays the batch; each table skips what
it already has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from common import delta
from common.declare import Silver
from common.delta import MicroBatch
from common.settled import few, of_batch
from common.small import Small
from silver.changes import ChangeWatch
from silver.exact import write_exact
from silver.hand_over import HandOver
from silver.late import LateRows
from silver.rules import version
from silver.tables import accepted, rejected
from silver.tally import Tally, counted, rule_failure
from silver.unknown import evolved, refuse

ACCEPTED = "accepted"
"""The step of a micro-batch that writes silver; every one has it, even without a row."""


def writer(  # noqa: PLR0913, PLR0917  # all that a micro-batch meets
    silver: Silver,
    silver_path: str,
    quarantine_path: str,
    late_rows: LateRows,
    hand_over: HandOver,
    watch: ChangeWatch,
    small: Small,
) -> Callable[[DataFrame, MicroBatch], None]:
    """The ``foreachBatch`` body of a silver table.

    Silver commits for every batch, even without a row, because its commit carries the batch's counts.
    It raises ``RuleFailedError`` before anything is written where a row broke a rule that is to stop it,
    ``UnknownFieldError`` where a value has a field that is to, and ``ForeignChangeError`` where somebody
    else changed what it reads.
    """
    rule_version = version(silver)

    def grown(kept: DataFrame, batch: MicroBatch) -> DataFrame:
        return evolved(accepted(kept), silver, batch.pipeline, silver_path)

    def write(frame: DataFrame, batch: MicroBatch) -> None:
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # Must come before anything may return: Spark marks the batch as done even when its state was not.
            tally = counted(kept, silver.rules)
            less = of_batch(kept, small)
            watch.look_at(batch)
            if tally.failed:
                raise rule_failure(kept, tally, silver.rules, silver.table)
            refuse(kept, silver)
            counts: Mapping[str, Any] = {**_counts(tally), **batch.dropped()}
            if silver.dedupe == "exact":
                counts = write_exact(grown(kept, batch), silver, silver_path, batch, ACCEPTED, counts, less)
            else:
                with (
                    late_rows.of(kept, batch, counts["late"], less) as late,
                    hand_over.fresh(grown(kept, batch), tally.accepted, batch) as (fresh, known),
                ):
                    counts = {
                        **counts,
                        "accepted": tally.accepted - known,
                        "duplicates": counts["duplicates"] + known,
                        "merged": late.merged if late else 0,
                    }
                    if counts["accepted"]:
                        rows = few(fresh, tally.accepted, less)
                        delta.append(rows, silver_path, batch, ACCEPTED, counts, small=less)
                    else:
                        delta.append_nothing(kept.sparkSession, silver_path, batch, ACCEPTED, counts, less)
                    if late:
                        late_rows.write(late, batch, counts, less)
            if bad := tally.quarantined + tally.dropped:
                aside = few(rejected(kept, rule_version), bad, less)
                delta.append(aside, quarantine_path, batch, "quarantine", counts, small=less)
        finally:
            kept.unpersist()

    return write


def _counts(tally: Tally) -> Mapping[str, Any]:
    """What a commit says of the batch's rows."""
    return {
        "accepted": tally.accepted,
        "quarantined": tally.quarantined,
        "dropped": tally.dropped,
        "tombstones": tally.tombstones,
        "rules": dict(tally.rules),
    }
