"""One micro-batch into silver and quarantine, each once.

Order of effects: the batch is consumed whole and kept, then silver is written, then late rows are kept and
merged into silver, then quarantine. A crash anywhere in between replays the batch; each table skips what
it already has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from common.config.driver_limits import DriverLimits
from common.declare import Silver
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.rows.materialized import Settled, few
from common.rows.row_size import RowSizeEstimate
from silver.judge.late_verdict import judge_by
from silver.read.unknown_fields import evolved, refuse
from silver.write.exact_dedupe import write_exact
from silver.write.foreign_changes import ChangeWatch
from silver.write.judged_batch import Judged, consumed
from silver.write.known_keys import HandOver
from silver.write.late_rows import LateRows
from silver.write.table_columns import accepted
from silver.write.verdict_counts import Tally, rule_failure

ACCEPTED = "accepted"
"""The step of a micro-batch that writes silver; every one has it, even without a row."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The ``foreachBatch`` body of a silver table.

    Silver commits for every batch, even without a row, because its commit carries the batch's counts.

    Attributes:
        silver: The declaration.
        bronze_path: The table that it reads.
        silver_path: The table.
        quarantine_path: The table of rows set aside.
        late_rows: Finds late rows, and writes them.
        hand_over: Knows what came past the stream.
        watch: Looks at bronze's commits.
        small: What is worked out in the driver.
        weight: Of its rows.
        rule_version: Of the rules that judge its rows.
    """

    silver: Silver
    bronze_path: str
    silver_path: str
    quarantine_path: str
    late_rows: LateRows
    hand_over: HandOver
    watch: ChangeWatch
    small: DriverLimits
    weight: RowSizeEstimate
    rule_version: str

    def __call__(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write one micro-batch.

        Raises:
            RuleFailedError: A row broke a rule that is to stop the query; nothing is written.
            UnknownFieldError: A value has a field that is to; nothing is written.
            ForeignChangeError: Somebody else changed what it reads; nothing is written.
        """
        judge_by(frame.sparkSession, batch.late_watermark_ms())
        with consumed(frame, batch, self.bronze_path, self.small, self.weight) as whole:
            # Must come before anything may return: Spark marks the batch as done even when its state was not.
            tally = whole.tally(self.silver.rules)
            self.watch.look_at(batch)
            if tally.failed:
                raise rule_failure(whole.frame, tally, self.silver.rules, self.silver.table)
            if self.silver.unknown_fields == "fail" and whole.has_unknown:
                refuse(whole.frame, self.silver)
            judged = whole.weighed(self.weight, tally)
            dropped = batch.dropped()
            counts: Mapping[str, Any] = {**_counts(tally), **dropped, "late": tally.late + dropped["late"]}
            if self.silver.dedupe == "exact":
                rows, path = self._grown(judged, batch), self.silver_path
                counts = write_exact(rows, self.silver, path, batch, ACCEPTED, counts, judged.small)
            else:
                counts = self._write(judged, tally, batch, counts)
            if bad := tally.quarantined + tally.dropped:
                aside = judged.rejected(self.rule_version, bad)
                delta_table.append(
                    aside, self.quarantine_path, batch, "quarantine", counts, small=judged.small
                )

    def _write(
        self, judged: Judged, tally: Tally, batch: MicroBatch, counts: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Write accepted rows and late ones; what the commit counts."""
        less = judged.small
        with (
            self.late_rows.of(judged, batch, tally.late, counts["late"] - tally.late) as late,
            self._fresh(judged, tally.accepted, batch) as (rows, known),
        ):
            counts = {
                **counts,
                "accepted": tally.accepted - known,
                "duplicates": counts["duplicates"] + known,
                "merged": late.merged if late else 0,
            }
            if counts["accepted"]:
                delta_table.append(rows, self.silver_path, batch, ACCEPTED, counts, small=less)
            else:
                session = judged.kept.session
                delta_table.append_nothing(session, self.silver_path, batch, ACCEPTED, counts, less)
            if late:
                self.late_rows.write(late, batch, counts, judged.fewer)
        return counts

    @contextmanager
    def _fresh(self, judged: Judged, number: int, batch: MicroBatch) -> Iterator[tuple[Settled, int]]:
        """Accepted rows that did not come past the stream before, and how many did."""
        if self.hand_over.is_over(batch) and self.silver.unknown_fields != "evolve":
            yield judged.accepted(number), 0
            return
        with self.hand_over.fresh(self._grown(judged, batch), number, batch) as (fresh, known):
            yield few(fresh, number, judged.small), known

    def _grown(self, judged: Judged, batch: MicroBatch) -> DataFrame:
        """Accepted rows with every column that the table has."""
        return evolved(accepted(judged.frame), self.silver, batch.pipeline, self.silver_path)


def _counts(tally: Tally) -> Mapping[str, Any]:
    """What a commit says of the batch's rows."""
    return {
        "accepted": tally.accepted,
        "quarantined": tally.quarantined,
        "dropped": tally.dropped,
        "tombstones": tally.tombstones,
        "rules": dict(tally.rules),
    }
