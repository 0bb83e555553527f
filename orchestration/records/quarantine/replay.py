"""Judges quarantined rows again and moves those that pass into silver, each once.

Rows are inserted into silver first, by key, and then deleted from quarantine. A crash in between leaves them
in both tables; the next replay finds them in silver by their coordinates and only deletes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.config.paths import Layout
from common.declare import Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.changes import same
from common.delta.log import LogReader
from common.errors import TableMissingError, UsageError
from common.machine.terminal import count_of
from common.rows.spark_rows import SparkRows
from orchestration.records.quarantine import elements
from orchestration.records.quarantine.contents import missing
from orchestration.records.rejudge.judge_again import persisted, rows_of_events
from orchestration.records.rejudge.select import Say, condition
from orchestration.records.rejudge.stage import refuse_unfinished
from silver.judge import lookups
from silver.judge.read_and_judge import judge, read_rows
from silver.judge.reasons_and_verdict import rules_version
from silver.read.column_names import (
    ACCEPT,
    ELEMENT,
    EMPTY,
    EVENT_TIME,
    KEY,
    META,
    OTHER,
    PLACE,
    QUARANTINE,
    REASONS,
    VERDICT,
    row_coordinates,
    row_place,
)
from silver.read.poison import POISON
from silver.read.unknown_fields import refuse_unknown_fields
from silver.write import known_keys
from silver.write.schema_evolution import evolved
from silver.write.table_columns import accepted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OUTCOME, _TURN, _IN_SILVER = "__outcome", "__turn", "__in_silver"
_INSERT, _PRESENT, _DUPLICATE, _FAIL, _OTHER = "insert", "present", "duplicate", "fail", "other"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay, or of a dry run."""

    table: str
    version: int  # the version of the quarantine table that was read
    selected: int  # rows that match ``where``
    dropped: int  # selected rows without a payload
    older: int  # selected rows that older rules judged and that were therefore skipped
    judged: int = 0  # selected rows that were judged again: passed, failed, and other tables' records
    passed: int = 0
    inserted: int = 0  # rows that passed and are in silver now under their own coordinates
    duplicates: int = 0  # rows that passed, but whose event is in silver from another record
    failed: int = 0
    # Rows that passed, by their former reasons.
    passed_by_reason: Mapping[str, int] = field(default_factory=dict)
    # Rows that still fail, by their new reasons. A row counts for each of its reasons.
    failed_by_reason: Mapping[str, int] = field(default_factory=dict)
    is_dry_run: bool = False
    # Rows that the table's condition ``where`` leaves to other tables, and records without an element; they
    # leave quarantine.
    other: int = 0


def replay(  # noqa: PLR0913  # one per option
    spark: SparkSession,
    pipeline: str,
    silver: Silver,
    layout: Layout,
    *,
    where: str | None = None,
    is_with_new_rules: bool = False,
    is_dry_run: bool = False,
    say: Say = lambda text: None,
) -> Replay:
    """Judge a table's quarantined rows again; the caller holds the leases of silver and its side tables.

    Rows that still fail are not changed. A record with the reason ``poison`` is judged again only by another
    declaration than the one with which it ended the process.

    A row that the condition ``where`` leaves to other tables is only deleted from quarantine; a row on which
    it cannot be decided stays. A row whose event is in silver is only deleted from quarantine. If several
    rows have the same event, the one that was read from Kafka first is inserted.

    Args:
        pipeline: The pipeline's name, for the commits' metadata.
        where: SQL condition over the columns of the quarantine table.
        is_with_new_rules: Also judge rows that an older declaration judged.
        is_dry_run: Only report what would happen.

    Raises:
        TableMissingError: The quarantine table, silver or the table of a lookup does not exist yet.
        UsageError: ``where`` is not a condition over the columns of the quarantine table, or silver keeps the
            newest row of a key.
    """
    pinned = require_replayable(silver, layout)
    aside, path = layout.table_path(silver.quarantine), layout.table_path(silver.table)
    rows = spark.read.format("delta").option("versionAsOf", pinned).load(aside)
    if where is not None:
        rows = rows.where(condition(rows, where, silver.quarantine))
    # The declaration that ended the process by a record would end it again.
    rows = rows.where(_is_older(silver) | ~F.array_contains("reasons", POISON))
    has_payload = F.col("verdict") == QUARANTINE
    is_skipped = F.lit(False) if is_with_new_rules else _is_older(silver)
    counts = rows.agg(F.count("*"), F.count_if(~has_payload), F.count_if(has_payload & is_skipped))
    selected, dropped, older = (int(number) for number in counts.collect()[0])
    result = Replay(silver.table, pinned, selected, dropped, older, is_dry_run=is_dry_run)
    if not (to_judge := selected - dropped - older):
        return result
    say(f"judging {count_of(to_judge, 'rows')} of {silver.quarantine} at version {pinned}")
    with ExitStack() as stack:
        judged = persisted(stack, _judge_again(spark, rows.where(has_payload & ~is_skipped), silver, layout))
        decided = persisted(stack, _with_outcome(judged, silver, delta_table.newest(spark, path)))
        result = _counted(result, decided, rows)
        if not is_dry_run and result.passed + result.other:
            move = _Move(silver, pipeline, layout, {"run_id": uuid.uuid4().hex, "quarantine_version": pinned})
            move.insert(decided, say)
            move.delete(decided, result, say)
    return result


def require_replayable(silver: Silver, layout: Layout) -> int:
    """The newest version of the quarantine table. Call it before Spark's start, to refuse early.

    Raises:
        CheckpointMismatchError: A rebuild or a restatement of the table was cut off.
        TableMissingError: The quarantine table or silver does not exist yet.
        UsageError: Silver keeps the newest row of a key.
    """
    if silver.keep == "newest":
        raise UsageError(
            f'{silver.table} is declared with keep="newest": a replay only inserts, and cannot replace an '
            "older row of a key. To judge all stored records again by today's declaration: medallion restate "
            f"{silver.table} --from 1970-01-01T00:00Z; events that are wrong themselves are sent again, "
            "corrected"
        )
    refuse_unfinished(layout, silver.table)
    path = layout.table_path(silver.table)
    version = LogReader(layout.table_path(silver.quarantine)).latest_version()
    if version is None:
        raise missing(layout, silver)
    if not delta_table.exists(path):
        raise TableMissingError(silver.table, path)
    return version


def _is_older(silver: Silver) -> Column:
    """Whether an older declaration than today's has judged a quarantined row."""
    return ~F.col("rule_version").eqNullSafe(rules_version(silver))


def _judge_again(spark: SparkSession, rows: DataFrame, silver: Silver, layout: Layout) -> DataFrame:
    """Quarantined rows judged by the current rules, without their payloads; elements with their records."""
    lookup_frames = lookups.lookup_frames(spark, silver, layout)

    def judged_by_rules(records: DataFrame) -> DataFrame:
        return judge(read_rows(records.select(*SCHEMA.names), silver), silver, lookup_frames)

    if silver.each is None:
        judged = judged_by_rules(rows)
    else:
        records = elements.records_of(spark, silver, layout, rows)
        judged = elements.judged_of(rows, records, judged_by_rules)
    return judged.withColumn(META, F.col(META).dropFields("key", "value", "headers"))


def _with_outcome(judged: DataFrame, silver: Silver, table: DataFrame) -> DataFrame:
    """Judged rows with their outcome.

    A row that passed is ``present`` if silver has it at the same coordinates; ``duplicate`` if silver or an
    earlier quarantined row has its key from another record; otherwise ``insert``.
    """
    passed = judged.where(F.col(VERDICT) == ACCEPT)
    place = row_place(judged.schema[META].dataType.names)  # type: ignore[attr-defined]
    named = (F.col(own).alias(name) for own, name in zip(row_coordinates(table.columns), place, strict=True))
    places = F.collect_set(F.struct(*named))
    in_silver = rows_of_events(table, passed, silver).groupBy(KEY).agg(places.alias(_IN_SILVER))
    own = F.struct(*(F.col(f"{META}.{name}") for name in place))
    order = Window.partitionBy(VERDICT, KEY).orderBy(F.col(f"{META}.ingested_at"), own)
    outcome = (
        F.when(F.col(VERDICT).isin(OTHER, EMPTY), _OTHER)
        .when(F.col(VERDICT) != ACCEPT, _FAIL)
        .when(F.array_contains(_IN_SILVER, own), _PRESENT)
        .when(F.col(_IN_SILVER).isNotNull() | (F.col(_TURN) > 1), _DUPLICATE)
        .otherwise(_INSERT)
    )
    ranked = judged.withColumn(_TURN, F.row_number().over(order))
    return ranked.join(in_silver, KEY, "left").withColumn(_OUTCOME, outcome).drop(_TURN, _IN_SILVER)


def _counted(result: Replay, decided: DataFrame, rows: DataFrame) -> Replay:
    """A result with the numbers of rows per outcome, and per reason. Spark judges the rows here."""
    outcomes = {row[0]: int(row[1]) for row in decided.groupBy(_OUTCOME).count().collect()}
    failed, other = outcomes.get(_FAIL, 0), outcomes.get(_OTHER, 0)
    judged = sum(outcomes.values())
    leaving = _places_that_leave(decided.where(F.col(_OUTCOME) != _OTHER)).distinct()
    former = rows.select(*leaving.columns, F.col("reasons").alias("__former")).alias("t")
    former = former.join(leaving.alias("s"), same(leaving.columns), "left_semi")
    return replace(
        result,
        judged=judged,
        passed=judged - failed - other,
        inserted=outcomes.get(_INSERT, 0) + outcomes.get(_PRESENT, 0),
        duplicates=outcomes.get(_DUPLICATE, 0),
        failed=failed,
        passed_by_reason=_by_reason(former, "__former") if judged > failed + other else {},
        failed_by_reason=_by_reason(decided.where(F.col(_OUTCOME) == _FAIL), REASONS) if failed else {},
        other=other,
    )


def _places_that_leave(decided: DataFrame) -> DataFrame:
    """What identifies the rows of quarantine that leave it."""
    leaving, place = decided.where(F.col(_OUTCOME) != _FAIL), [F.col(f"{META}.{name}") for name in PLACE]
    if elements.AS_QUARANTINED in decided.columns:
        place.append(F.col(elements.AS_QUARANTINED).alias(ELEMENT))
    return leaving.select(*place)


def _by_reason(frame: DataFrame, reasons: str) -> dict[str, int]:
    found = frame.select(F.explode(reasons).alias("reason")).groupBy("reason").count().collect()
    return {row[0]: int(row[1]) for row in found}


@dataclass(frozen=True, slots=True)
class _Move:
    """The two writes of a replay; both commits carry the metadata ``run``."""

    silver: Silver
    pipeline: str
    layout: Layout
    run: Mapping[str, Any]

    def insert(self, decided: DataFrame, say: Say) -> None:
        """Insert the rows with the outcome ``insert`` into silver."""
        silver = self.silver
        fresh = decided.where(F.col(_OUTCOME) == _INSERT)
        refuse_unknown_fields(fresh, silver)
        newest_ms = F.ceil(F.unix_micros(F.max(EVENT_TIME)) / 1000)
        count, newest_ms = fresh.agg(F.count("*"), newest_ms).collect()[0]
        if not count:
            return
        say(f"inserting {count_of(count, 'rows')} into {silver.table}")
        counts = {"inserted": int(count)}
        metadata = self._metadata(silver.table, counts=counts, newest_event_ms=int(newest_ms))
        path = self.layout.table_path(silver.table)
        known_keys.remember(fresh.sparkSession, path, self._metadata(silver.table), int(newest_ms))
        rows = accepted(SparkRows(fresh.drop(_OUTCOME, elements.AS_QUARANTINED)), count=int(count))
        rows = evolved(rows, silver, self.pipeline, path)
        delta_merge.insert_new(rows.frame, path, metadata, key=silver.event_key)

    def delete(self, decided: DataFrame, result: Replay, say: Say) -> None:
        """Delete the rows that passed, and other tables' records, from quarantine."""
        quarantine, gone = self.silver.quarantine, result.passed + result.other
        say(f"deleting {count_of(gone, 'rows')} from {quarantine}")
        counts = {"replayed": gone, "inserted": result.inserted, "duplicates": result.duplicates}
        if result.other:
            counts["other"] = result.other
        metadata = self._metadata(quarantine, counts=counts)
        path = self.layout.table_path(quarantine)
        leaving = _places_that_leave(decided)
        delta_merge.delete_matching(
            leaving, path, metadata, key=PLACE, nullable=leaving.columns[len(PLACE) :]
        )

    def _metadata(self, table: str, **facts: Any) -> str:
        return delta_table.maintenance_metadata(self.pipeline, table, "replay", **self.run, **facts)
