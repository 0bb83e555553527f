"""Quarantined rows judged again; those that pass now move into silver, each once.

Order of effects: rows go into silver first, by their key, then out of quarantine. A crash in between
leaves them in both; the next replay finds them in silver at their own coordinates and only takes them out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

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
from common.rows.rows import SparkRows
from common.spark.broadcast import small_side
from orchestration.quarantine.contents import missing
from silver.judge import lookups
from silver.judge.dedupe import event_key
from silver.judge.judge import judge, read
from silver.judge.rules import version
from silver.read.columns import ACCEPT, EVENT_TIME, KEY, META, PLACE, QUARANTINE, REASONS, VERDICT
from silver.read.unknown_fields import refuse
from silver.write.known_keys import REPLAYED, replayed_ms
from silver.write.schema_evolution import evolved
from silver.write.table_columns import accepted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FATE, _TURN, _THERE = "__fate", "__turn", "__there"
"""Up to here the keys that are looked for in silver are sent to every task."""

_INSERT, _PRESENT, _DUPLICATE, _FAIL = "insert", "present", "duplicate", "fail"


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay did, or would do.

    Attributes:
        version: The quarantine's version that was read.
        selected: Rows that ``where`` chose.
        dropped: Those of them that kept no payload.
        older: Those that were judged by older rules and therefore left alone.
        judged: Those that were judged again: passed and failed.
        inserted: Rows that passed and are in silver at their own coordinates now.
        duplicates: Rows that passed, and whose event silver has from another record.
        passed_by_reason: Rows that passed, by the reasons that they had been set aside for.
        failed_by_reason: Rows that still fail, by today's reasons. A row counts for each of its reasons.
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

    Rows that still fail stay as they are. A row whose event silver has is only taken out of quarantine.
    Of several rows of one event the first that was read from Kafka goes into silver.

    Args:
        spark: The session.
        pipeline: The pipeline's name, for the commits' metadata.
        silver: The declaration in force.
        layout: Where the tables lie.
        where: SQL condition over the quarantine's columns.
        is_with_new_rules: Also judge rows that another declaration had judged.
        is_dry_run: Only say what would happen.
        say: Told of each step.

    Raises:
        TableMissingError: There is no quarantine, no silver table, or no table of a lookup yet.
        UsageError: ``where`` is no condition over the quarantine's columns, or the table keeps the newest
            row of a key.
    """
    pinned = require(silver, layout)
    aside, path = layout.table_path(silver.quarantine), layout.table_path(silver.table)
    table = spark.read.format("delta").option("versionAsOf", pinned).load(aside)
    rows = _selected(table, where, silver)
    today = version(silver)
    is_payload = F.col("verdict") == QUARANTINE
    is_older = ~F.col("rule_version").eqNullSafe(today)
    counted = rows.agg(F.count("*"), F.count_if(~is_payload), F.count_if(is_payload & is_older)).collect()[0]
    selected, dropped, older = (int(number) for number in counted)
    eligible = rows.where(is_payload if is_with_new_rules else is_payload & ~is_older)
    left = 0 if is_with_new_rules else older
    if selected - dropped - left == 0:
        return Replay(
            silver.table, pinned, selected, dropped, left, 0, 0, 0, 0, 0, {}, {}, is_dry_run=is_dry_run
        )
    say(f"judging {selected - dropped - left:,} rows of {silver.quarantine} at version {pinned}")
    judged = _judged(eligible, silver, lookups.frames(spark, silver, layout)).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    fated = None
    try:
        fated = _fated(judged, silver, _table(spark, path)).persist(StorageLevel.MEMORY_AND_DISK)
        found = _counted(fated, rows, silver.table, pinned, (selected, dropped, left), is_dry_run=is_dry_run)
        if not is_dry_run and found.passed:
            _write(fated, silver, pipeline, layout, found, say=say)
    finally:
        judged.unpersist()
        if fated is not None:
            fated.unpersist()
    return found


def require(silver: Silver, layout: Layout) -> int:
    """The quarantine's newest version; asked before Spark is started, for what would be refused anyway.

    Raises:
        TableMissingError: There is no quarantine, or no silver table, yet.
        UsageError: The table keeps the newest row of a key.
    """
    if silver.keep == "newest":
        raise UsageError(
            f'{silver.table} is declared with keep="newest": a replay only inserts, and cannot replace an '
            "older row of a key. Send the corrected events to the topic again."
        )
    path = layout.table_path(silver.table)
    newest = LogReader(layout.table_path(silver.quarantine)).latest_version()
    if newest is None:
        raise missing(layout, silver)
    if not delta_table.exists(path):
        raise TableMissingError(silver.table, path, "Run its job first: medallion run silver.")
    return newest


def _selected(table: DataFrame, where: str | None, silver: Silver) -> DataFrame:
    if where is None:
        return table
    try:
        chosen = table.where(F.expr(f"({where})"))
        chosen.schema  # noqa: B018  # resolves it
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        names = ", ".join(table.columns)
        raise UsageError(f"--where: {first}. The columns of {silver.quarantine} are: {names}.") from error
    return chosen


def _table(spark: SparkSession, path: str) -> DataFrame:
    """A table at its newest version, which stays the one that is read whatever is written meanwhile."""
    newest = LogReader(path).latest_version()
    return spark.read.format("delta").option("versionAsOf", str(newest)).load(path)


def _judged(rows: DataFrame, silver: Silver, asked: Mapping[str, DataFrame]) -> DataFrame:
    """Each row as today's rules judge it, without its payload."""
    judged = judge(read(rows.select(*SCHEMA.names), silver), silver, asked)
    return judged.withColumn(META, F.col(META).dropFields("key", "value", "headers"))


def _fated(judged: DataFrame, silver: Silver, table: DataFrame) -> DataFrame:
    """Judged rows with their fate.

    A row that passed is ``present`` where silver has it, ``duplicate`` where silver has its key from
    another record or a row before it has, ``insert`` otherwise. Of silver's rows only those of these keys
    are looked at.
    """
    key = event_key(silver)
    passed = judged.where(F.col(VERDICT) == ACCEPT)
    asked = passed.select(*(F.col(f"`{name}`").alias(f"__k_{name}") for name in key)).distinct()
    asked = small_side(asked, passed.count())
    near = table.join(asked, reduce(and_, (F.col(f"`{n}`") == F.col(f"`__k_{n}`") for n in key)), "left_semi")
    places = F.collect_set(F.struct(*(F.col(f"_kafka_{name}").alias(name) for name in PLACE)))
    there = near.groupBy(*(F.col(f"`{name}`").alias(f"__t_{name}") for name in key)).agg(places.alias(_THERE))
    same = reduce(and_, (F.col(f"`{n}`") == F.col(f"`__t_{n}`") for n in key), F.col(VERDICT) == ACCEPT)
    own = F.struct(*(F.col(f"{META}.{name}").alias(name) for name in PLACE))
    order = Window.partitionBy(VERDICT, KEY).orderBy(F.col(f"{META}.ingested_at"), own)
    fate = (
        F.when(F.col(VERDICT) != ACCEPT, _FAIL)
        .when(F.array_contains(_THERE, own), _PRESENT)
        .when(F.col(_THERE).isNotNull() | (F.col(_TURN) > 1), _DUPLICATE)
        .otherwise(_INSERT)
    )
    ranked = judged.withColumn(_TURN, F.row_number().over(order))
    joined = ranked.join(there, same, "left").withColumn(_FATE, fate)
    return joined.drop(_TURN, _THERE, *(f"__t_{name}" for name in key))


def _counted(  # noqa: PLR0913
    judged: DataFrame,
    rows: DataFrame,
    table: str,
    pinned: int,
    chosen: tuple[int, int, int],
    *,
    is_dry_run: bool,
) -> Replay:
    """What becomes of the judged rows; the first to ask for them, so it is here that they are judged."""
    fates = {row[0]: int(row[1]) for row in judged.groupBy(_FATE).count().collect()}
    failed = fates.get(_FAIL, 0)
    passed = sum(fates.values()) - failed
    before = rows.select(*PLACE, F.col("reasons").alias("__before"))
    gone = judged.where(F.col(_FATE) != _FAIL).select(f"{META}.topic", f"{META}.partition", f"{META}.offset")
    return Replay(
        table=table,
        version=pinned,
        selected=chosen[0],
        dropped=chosen[1],
        older=chosen[2],
        judged=passed + failed,
        passed=passed,
        inserted=fates.get(_INSERT, 0) + fates.get(_PRESENT, 0),
        duplicates=fates.get(_DUPLICATE, 0),
        failed=failed,
        passed_by_reason=_by_reason(before.join(gone, list(PLACE)), "__before") if passed else {},
        failed_by_reason=_by_reason(judged.where(F.col(_FATE) == _FAIL), REASONS) if failed else {},
        is_dry_run=is_dry_run,
    )


def _by_reason(frame: DataFrame, reasons: str) -> dict[str, int]:
    found = frame.select(F.explode(reasons).alias("reason")).groupBy("reason").count().collect()
    return {row[0]: int(row[1]) for row in found}


def _write(  # noqa: PLR0913
    judged: DataFrame,
    silver: Silver,
    pipeline: str,
    layout: Layout,
    found: Replay,
    *,
    say: Callable[[str], None],
) -> None:
    """First into silver, then out of quarantine."""
    refuse(judged.where(F.col(_FATE) == _INSERT), silver)
    run = {"run_id": uuid.uuid4().hex, "quarantine_version": found.version}
    fresh = judged.where(F.col(_FATE) == _INSERT)
    count, newest = fresh.agg(F.count("*"), F.ceil(F.unix_micros(F.max(EVENT_TIME)) / 1000)).collect()[0]
    if count:
        say(f"inserting {count:,} rows into {silver.table}")
        told = delta_table.maintenance_metadata(
            pipeline,
            silver.table,
            "replay",
            **run,
            counts={"inserted": int(count)},
            newest_event_ms=int(newest),
        )
        path = layout.table_path(silver.table)
        # Before the rows: a stream that starts in between only asks once too often.
        if (before := replayed_ms(path)) is None or before < newest:
            mark = delta_table.maintenance_metadata(pipeline, silver.table, "replay", **run)
            delta_table.set_property(fresh.sparkSession, path, mark, REPLAYED, str(int(newest)))
        rows = accepted(SparkRows(fresh.drop(_FATE)), count=int(count))
        rows = evolved(rows, silver, pipeline, path)
        delta_merge.insert_new(rows.frame, path, told, key=event_key(silver))
    say(f"taking {found.passed:,} rows out of {silver.quarantine}")
    counts = {"replayed": found.passed, "inserted": found.inserted, "duplicates": found.duplicates}
    told = delta_table.maintenance_metadata(pipeline, silver.quarantine, "replay", **run, counts=counts)
    done = judged.where(F.col(_FATE) != _FAIL).select(*(f"{META}.{name}" for name in PLACE))
    delta_merge.delete_matching(done, layout.table_path(silver.quarantine), told, key=PLACE)
