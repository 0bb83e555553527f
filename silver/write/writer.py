"""One micro-batch into silver and quarantine, each once.

Order of effects: the batch is read whole and kept, then silver is written, then late rows are appended to
their table and to silver, then quarantine. A crash anywhere in between replays the batch; each table skips
the steps that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from common.config.driver_limits import DriverLimits
from common.declare import Silver
from common.delta import table as delta_table
from common.delta.foreign_commits import CommitWatch
from common.delta.lease.release import own_release
from common.delta.match.batch_match import SideStep, StepHistory
from common.delta.micro_batch import MicroBatch
from common.rows.row_size import RowSizeEstimate
from common.rows.rows import Rows
from silver.judge.late_verdict import set_late_watermark
from silver.judge.reasons_and_verdict import JUDGED_BY, RELEASE
from silver.read.column_names import EMPTY, OTHER
from silver.read.unknown_fields import refuse_unknown_fields
from silver.write.exact_dedupe import write_exact
from silver.write.judged_batch import JudgedBatch, consume_once
from silver.write.known_keys import KeysWrittenOutsideStream
from silver.write.late_rows import STEP as LATE_STEP
from silver.write.late_rows import LateRows
from silver.write.schema_evolution import evolved
from silver.write.table_columns import accepted, rejected
from silver.write.verdict_counts import Tally, count_verdicts, rule_failure

ACCEPTED = "accepted"
"""The step of a micro-batch that writes silver; every batch has it, even without a row."""

QUARANTINED = "quarantine"
"""The step of a micro-batch that writes quarantine."""


def side_steps(silver: Silver, path: Callable[[str], str]) -> tuple[SideStep, ...]:
    """The steps that not every micro-batch of a silver table has."""
    return (
        SideStep(LATE_STEP, silver.table, path(silver.table), ("merged",)),
        SideStep(LATE_STEP, silver.late_table, path(silver.late_table), ("late",)),
        SideStep(QUARANTINED, silver.quarantine, path(silver.quarantine), ("quarantined", "dropped")),
    )


def side_paths(silver: Silver, path: Callable[[str], str]) -> dict[str, str]:
    """Per step that writes a side table, the path of that table."""
    return {LATE_STEP: path(silver.late_table), QUARANTINED: path(silver.quarantine)}


@dataclass(frozen=True, slots=True)
class Writer:
    """The ``foreachBatch`` body of a silver table.

    Silver commits every batch, even without a row, because its commit carries the batch's counts.
    """

    silver: Silver
    bronze_paths: Sequence[str]  # the tables that it reads, in the order of the query's sources
    silver_path: str  # the table
    quarantine_path: str  # the table of rejected rows
    late_rows: LateRows  # finds late rows, and writes them
    known_keys: KeysWrittenOutsideStream  # recognises duplicates of rows that a first load or a replay wrote
    watches: Sequence[CommitWatch]  # check the commits of each bronze table
    limits: DriverLimits  # what may be computed in the driver
    row_size: RowSizeEstimate  # of judged rows
    rule_version: str  # identifies the rules that judge its rows
    rule_marks: Mapping[str, str]  # marks of what decides a verdict, for the metadata of commits
    steps: StepHistory  # the newest micro-batch of each step that writes a side table

    def __call__(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write one micro-batch.

        Raises:
            RuleFailedError: A row broke a rule that is to stop the query; nothing is written.
            UnknownFieldError: A value has an unknown field, which is to stop the query; nothing is written.
            ForeignChangeError: Another writer changed rows that it reads; nothing is written.
        """
        set_late_watermark(frame.sparkSession, batch.late_watermark_ms())
        limits = batch.limits(self.limits)
        with consume_once(frame, batch, self.bronze_paths, limits, self.row_size) as whole:
            self.write_judged(whole, batch)

    def write_judged(self, whole: JudgedBatch, batch: MicroBatch) -> None:
        """Write the judged rows of one micro-batch, from which late rows are marked and duplicates dropped.

        Raises:
            RuleFailedError: A row broke a rule that is to stop the query; nothing is written.
            UnknownFieldError: A value has an unknown field, which is to stop the query; nothing is written.
            ForeignChangeError: Another writer changed rows that it reads; nothing is written.
        """
        batch = replace(batch, facts={JUDGED_BY: dict(self.rule_marks), RELEASE: own_release()})
        # Must come before anything may return: Spark marks the batch as done even when its state was not.
        tally = count_verdicts(whole.rows, self.silver.rules)
        for watch in self.watches:
            watch.look_at(batch)
        if tally.failed:
            raise rule_failure(whole.rows.frame, tally, self.silver.rules, self.silver.table)
        if tally.with_unknown_fields:
            refuse_unknown_fields(whole.rows.frame, self.silver)
        judged = whole.measured(self.row_size, tally)
        dropped = batch.dropped()
        counts: Mapping[str, Any] = {**_counts(tally), **dropped, "late": tally.late + dropped["late"]}
        bad = tally.quarantined + tally.dropped
        batch = self.steps.with_steps(batch, {LATE_STEP: counts["late"] > 0, QUARANTINED: bad > 0})
        if self.silver.where is not None:
            counts = {**counts, OTHER: tally.other + dropped.get(OTHER, 0)}
        if self.silver.each is not None:
            counts = {**counts, EMPTY: tally.empty}
        rows = accepted(judged.rows, count=tally.accepted)
        rows = evolved(rows, self.silver, batch.pipeline, self.silver_path)
        if self.silver.dedupe == "exact":
            counts = write_exact(rows, self.silver, self.silver_path, batch, ACCEPTED, counts)
        else:
            counts = self._write(rows, judged, tally, batch, counts)
        if bad:
            aside = rejected(judged.rows, self.rule_version, bad)
            delta_table.append(aside, self.quarantine_path, batch, QUARANTINED, counts)

    def _write(
        self, rows: Rows, judged: JudgedBatch, tally: Tally, batch: MicroBatch, counts: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Write accepted rows and late ones; returns the counts that the commit has."""
        with (
            self.late_rows.of(judged, batch, tally.late, counts["late"] - tally.late) as late,
            self.known_keys.fresh(rows, batch) as (fresh, known),
        ):
            counts = {
                **counts,
                "accepted": tally.accepted - known,
                "duplicates": counts["duplicates"] + known,
                "merged": late.merged if late else 0,
            }
            if counts["accepted"]:
                delta_table.append(fresh, self.silver_path, batch, ACCEPTED, counts)
            else:
                delta_table.append_nothing(judged.rows, self.silver_path, batch, ACCEPTED, counts)
            if late:
                self.late_rows.write(late, batch, counts)
        return counts


def _counts(tally: Tally) -> Mapping[str, Any]:
    """The counts of the batch's rows for the commit's metadata."""
    return {
        "accepted": tally.accepted,
        "quarantined": tally.quarantined,
        "dropped": tally.dropped,
        "tombstones": tally.tombstones,
        "rules": dict(tally.rules),
    }
