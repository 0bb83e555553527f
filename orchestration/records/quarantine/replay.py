"""Judges quarantined rows again and moves those that pass into silver, each once.

Rows are inserted into silver first, by key, and then deleted from quarantine. A crash in between leaves them
in both tables; the next replay finds them in silver by their coordinates and only deletes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.config.paths import Layout
from common.declare import Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.errors import TableMissingError, UsageError
from common.rows.spark_rows import SparkRows
from common.spark.broadcast import broadcast_if_small
from orchestration.access.progress.switch_record import refuse_unfinished
from orchestration.records.quarantine.contents import missing
from silver.judge import lookups
from silver.judge.dedupe import event_key
from silver.judge.judge import judge, read_rows
from silver.judge.rules import rules_version
from silver.read.column_names import (
    ACCEPT,
    EVENT_TIME,
    KEY,
    META,
    OTHER,
    PLACE,
    QUARANTINE,
    REASONS,
    VERDICT,
)
from silver.read.poison import POISON
from silver.read.unknown_fields import refuse_unknown_fields
from silver.write.known_keys import REPLAYED, replayed_ms
from silver.write.schema_evolution import evolved
from silver.write.table_columns import accepted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OUTCOME, _TURN, _IN_SILVER = "__outcome", "__turn", "__in_silver"
_INSERT, _PRESENT, _DUPLICATE, _FAIL, _OTHER = "insert", "present", "duplicate", "fail", "other"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay, or of a dry run.

    Attributes:
        version: The version of the quarantine table that was read.
        selected: Rows that match ``where``.
        dropped: Selected rows without a payload.
        older: Selected rows that older rules judged and that were therefore skipped.
        judged: Selected rows that were judged again: passed, failed, and other tables' records.
        inserted: Rows that passed and are in silver now under their own coordinates.
        duplicates: Rows that passed, but whose event is in silver from another record.
        passed_by_reason: Rows that passed, by their former reasons.
        failed_by_reason: Rows that still fail, by their new reasons. A row counts for each of its reasons.
        other: Rows that the table's condition ``where`` leaves to other tables; they leave quarantine.
    """

    table: str
    version: int
    selected: int
    dropped: int
    older: int
    judged: int
    passed: int
    inserted: int
    duplicates: int
    failed: int
    passed_by_reason: Mapping[str, int]
    failed_by_reason: Mapping[str, int]
    is_dry_run: bool
    other: int = 0


@dataclass(frozen=True, slots=True)
class _Selection:
    """The quarantined rows that match ``where``.

    Attributes:
        rows: All of them.
        eligible: The rows to judge again.
        selected: Number of all rows.
        dropped: Number of rows without a payload.
        older: Number of rows that older rules judged and that are skipped.
    """

    rows: DataFrame
    eligible: DataFrame
    selected: int
    dropped: int
    older: int

    @property
    def to_judge(self) -> int:
        """Number of eligible rows."""
        return self.selected - self.dropped - self.older


def replay(  # noqa: PLR0913  # one per option
    spark: SparkSession,
    pipeline: str,
    silver: Silver,
    layout: Layout,
    *,
    where: str | None = None,
    is_with_new_rules: bool = False,
    is_dry_run: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Replay:
    """Judge a table's quarantined rows again; the caller holds the leases of silver and its side tables.

    Rows that still fail are not changed. A record with the reason ``poison`` is judged again only by another
    declaration than the one with which it ended the process.

    A row that the condition ``where`` leaves to other tables is only deleted from quarantine; a row on which
    it cannot be decided stays. A row whose event is in silver is only deleted from quarantine. If several
    rows have the same event, the one that was read from Kafka first is inserted.

    Args:
        spark: The session.
        pipeline: The pipeline's name, for the commits' metadata.
        silver: The current declaration.
        layout: Paths of the tables.
        where: SQL condition over the columns of the quarantine table.
        is_with_new_rules: Also judge rows that an older declaration judged.
        is_dry_run: Only report what would happen.
        say: Reports each step.

    Raises:
        TableMissingError: The quarantine table, silver or the table of a lookup does not exist yet.
        UsageError: ``where`` is not a condition over the columns of the quarantine table, or silver keeps the
            newest row of a key.
    """
    pinned = require_replayable(silver, layout)
    aside, path = layout.table_path(silver.quarantine), layout.table_path(silver.table)
    table = spark.read.format("delta").option("versionAsOf", pinned).load(aside)
    selection = _select(table, where, silver, is_with_new_rules=is_with_new_rules)
    if selection.to_judge == 0:
        return _result(None, selection, silver.table, pinned, is_dry_run=is_dry_run)
    say(f"judging {selection.to_judge:,} rows of {silver.quarantine} at version {pinned}")
    lookup_frames = lookups.lookup_frames(spark, silver, layout)
    judged = _judge_again(selection.eligible, silver, lookup_frames).persist(StorageLevel.MEMORY_AND_DISK)
    decided = None
    try:
        decided = _with_outcome(judged, silver, _newest(spark, path)).persist(StorageLevel.MEMORY_AND_DISK)
        result = _result(decided, selection, silver.table, pinned, is_dry_run=is_dry_run)
        if not is_dry_run and result.passed + result.other:
            move = _Move(silver, pipeline, layout, {"run_id": uuid.uuid4().hex, "quarantine_version": pinned})
            move.insert(decided, say)
            move.delete(decided, result, say)
    finally:
        judged.unpersist()
        if decided is not None:
            decided.unpersist()
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
            "older row of a key. Send the corrected events to the topic again."
        )
    refuse_unfinished(layout, silver.table)
    path = layout.table_path(silver.table)
    newest = LogReader(layout.table_path(silver.quarantine)).latest_version()
    if newest is None:
        raise missing(layout, silver)
    if not delta_table.exists(path):
        raise TableMissingError(silver.table, path, "Run its job first: medallion run silver.")
    return newest


def _select(table: DataFrame, where: str | None, silver: Silver, *, is_with_new_rules: bool) -> _Selection:
    rows = _matching(table, where, silver)
    has_payload = F.col("verdict") == QUARANTINE
    # The declaration that ended the process by a record would end it again.
    rows = rows.where(
        ~(F.array_contains("reasons", POISON) & F.col("rule_version").eqNullSafe(rules_version(silver)))
    )
    is_older = ~F.col("rule_version").eqNullSafe(rules_version(silver))
    counts = rows.agg(F.count("*"), F.count_if(~has_payload), F.count_if(has_payload & is_older)).collect()[0]
    selected, dropped, older = (int(number) for number in counts)
    if is_with_new_rules:
        return _Selection(rows, rows.where(has_payload), selected, dropped, 0)
    return _Selection(rows, rows.where(has_payload & ~is_older), selected, dropped, older)


def _matching(table: DataFrame, where: str | None, silver: Silver) -> DataFrame:
    if where is None:
        return table
    try:
        rows = table.where(F.expr(f"({where})"))
        rows.schema  # noqa: B018  # resolves the condition's columns
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        names = ", ".join(table.columns)
        raise UsageError(f"--where: {first}. The columns of {silver.quarantine} are: {names}.") from error
    return rows


def _newest(spark: SparkSession, path: str) -> DataFrame:
    """A table pinned to its newest version, so that writes during the replay do not change the result."""
    newest = LogReader(path).latest_version()
    return spark.read.format("delta").option("versionAsOf", str(newest)).load(path)


def _judge_again(rows: DataFrame, silver: Silver, lookup_frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows judged by the current rules, without their payloads."""
    judged = judge(read_rows(rows.select(*SCHEMA.names), silver), silver, lookup_frames)
    return judged.withColumn(META, F.col(META).dropFields("key", "value", "headers"))


def _with_outcome(judged: DataFrame, silver: Silver, table: DataFrame) -> DataFrame:
    """Judged rows with their outcome.

    A row that passed is ``present`` if silver has it at the same coordinates; ``duplicate`` if silver or an
    earlier quarantined row has its key from another record; otherwise ``insert``. Of silver, only rows with
    the keys of judged rows are read.
    """
    key = event_key(silver)
    passed = judged.where(F.col(VERDICT) == ACCEPT)
    keys = passed.select(*(F.col(f"`{name}`").alias(f"__k_{name}") for name in key)).distinct()
    keys = broadcast_if_small(keys, passed.count())
    is_same_key = reduce(and_, (F.col(f"`{n}`") == F.col(f"`__k_{n}`") for n in key))
    places = F.collect_set(F.struct(*(F.col(f"_kafka_{name}").alias(name) for name in PLACE)))
    in_silver = (
        table.join(keys, is_same_key, "left_semi")
        .groupBy(*(F.col(f"`{name}`").alias(f"__t_{name}") for name in key))
        .agg(places.alias(_IN_SILVER))
    )
    same = reduce(and_, (F.col(f"`{n}`") == F.col(f"`__t_{n}`") for n in key), F.col(VERDICT) == ACCEPT)
    own = F.struct(*(F.col(f"{META}.{name}").alias(name) for name in PLACE))
    order = Window.partitionBy(VERDICT, KEY).orderBy(F.col(f"{META}.ingested_at"), own)
    outcome = (
        F.when(F.col(VERDICT) == OTHER, _OTHER)
        .when(F.col(VERDICT) != ACCEPT, _FAIL)
        .when(F.array_contains(_IN_SILVER, own), _PRESENT)
        .when(F.col(_IN_SILVER).isNotNull() | (F.col(_TURN) > 1), _DUPLICATE)
        .otherwise(_INSERT)
    )
    ranked = judged.withColumn(_TURN, F.row_number().over(order))
    joined = ranked.join(in_silver, same, "left").withColumn(_OUTCOME, outcome)
    return joined.drop(_TURN, _IN_SILVER, *(f"__t_{name}" for name in key))


def _result(
    decided: DataFrame | None, selection: _Selection, table: str, pinned: int, *, is_dry_run: bool
) -> Replay:
    """The counts per outcome; ``decided`` is None if no row was judged. Spark judges the rows here."""
    outcomes: dict[str, int] = {}
    passed_by_reason: dict[str, int] = {}
    failed_by_reason: dict[str, int] = {}
    if decided is not None:
        outcomes = {row[0]: int(row[1]) for row in decided.groupBy(_OUTCOME).count().collect()}
    failed, other = outcomes.get(_FAIL, 0), outcomes.get(_OTHER, 0)
    passed = sum(outcomes.values()) - failed - other
    if decided is not None and passed:
        former = selection.rows.select(*PLACE, F.col("reasons").alias("__former"))
        own = _places_that_leave(decided.where(F.col(_OUTCOME) != _OTHER))
        passed_by_reason = _by_reason(former.join(own, list(PLACE)), "__former")
    if decided is not None and failed:
        failed_by_reason = _by_reason(decided.where(F.col(_OUTCOME) == _FAIL), REASONS)
    return Replay(
        table=table,
        version=pinned,
        selected=selection.selected,
        dropped=selection.dropped,
        older=selection.older,
        judged=passed + failed + other,
        passed=passed,
        inserted=outcomes.get(_INSERT, 0) + outcomes.get(_PRESENT, 0),
        duplicates=outcomes.get(_DUPLICATE, 0),
        failed=failed,
        passed_by_reason=passed_by_reason,
        failed_by_reason=failed_by_reason,
        is_dry_run=is_dry_run,
        other=other,
    )


def _places_that_leave(decided: DataFrame) -> DataFrame:
    return decided.where(F.col(_OUTCOME) != _FAIL).select(*(f"{META}.{name}" for name in PLACE))


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

    def insert(self, decided: DataFrame, say: Callable[[str], None]) -> None:
        """Insert the rows with the outcome ``insert`` into silver."""
        silver = self.silver
        fresh = decided.where(F.col(_OUTCOME) == _INSERT)
        refuse_unknown_fields(fresh, silver)
        count, newest = fresh.agg(F.count("*"), F.ceil(F.unix_micros(F.max(EVENT_TIME)) / 1000)).collect()[0]
        if not count:
            return
        say(f"inserting {count:,} rows into {silver.table}")
        counts = {"inserted": int(count)}
        metadata = self._metadata(silver.table, counts=counts, newest_event_ms=int(newest))
        path = self.layout.table_path(silver.table)
        # The property is set before the rows are inserted. A stream that starts in between searches silver
        # for duplicates of rows that are not there yet, which is harmless.
        if (before := replayed_ms(path)) is None or before < newest:
            note = self._metadata(silver.table)
            delta_table.set_property(fresh.sparkSession, path, note, REPLAYED, str(int(newest)))
        rows = accepted(SparkRows(fresh.drop(_OUTCOME)), count=int(count))
        rows = evolved(rows, silver, self.pipeline, path)
        delta_merge.insert_new(rows.frame, path, metadata, key=event_key(silver))

    def delete(self, decided: DataFrame, result: Replay, say: Callable[[str], None]) -> None:
        """Delete the rows that passed, and other tables' records, from quarantine."""
        quarantine, gone = self.silver.quarantine, result.passed + result.other
        say(f"deleting {gone:,} rows from {quarantine}")
        counts = {"replayed": gone, "inserted": result.inserted, "duplicates": result.duplicates}
        if result.other:
            counts["other"] = result.other
        metadata = self._metadata(quarantine, counts=counts)
        path = self.layout.table_path(quarantine)
        delta_merge.delete_matching(_places_that_leave(decided), path, metadata, key=PLACE)

    def _metadata(self, table: str, **facts: Any) -> str:
        return delta_table.maintenance_metadata(self.pipeline, table, "replay", **self.run, **facts)
