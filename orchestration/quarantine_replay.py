"""Quarantined rows judged again; those that pass now move into silver, each once.

Order of effects: rows go into silver first, by their key, then out of quarantine. A crash in between
leaves them in both; the next replay finds them in silver at their own coordinates and only takes them out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common import delta
from common.declare import Silver
from common.delta_log import LogReader
from common.errors import TableMissingError, UsageError
from common.layout import Layout
from orchestration.quarantine import missing
from silver.dedupe import EVENT_TIME, KEY
from silver.judge import judge, read
from silver.parse import META
from silver.rules import ACCEPT, QUARANTINE, REASONS, VERDICT, version
from silver.tables import accepted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACE = ("topic", "partition", "offset")
_FATE = "__fate"
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
        TableMissingError: There is no quarantine, or no silver table, yet.
        UsageError: ``where`` is no condition over the quarantine's columns, or the table keeps the newest
            row of a key.
    """
    aside, path = layout.table_path(silver.quarantine), layout.table_path(silver.table)
    pinned = LogReader(aside).latest_version()
    if pinned is None:
        raise missing(layout, silver)
    if not delta.exists(path):
        raise TableMissingError(silver.table, path, "Run its job first: medallion run silver.")
    table = spark.read.format("delta").option("versionAsOf", pinned).load(aside)
    rows = _selected(table, where, silver)
    today = version(silver)
    is_payload = F.col("verdict") == QUARANTINE
    is_older = ~F.col("rule_version").eqNullSafe(today)
    counted = rows.agg(
        F.count("*"), F.count_if(~is_payload), F.count_if(is_payload & is_older)
    ).collect()[0]
    selected, dropped, older = (int(number) for number in counted)
    eligible = rows.where(is_payload if is_with_new_rules else is_payload & ~is_older)
    left = 0 if is_with_new_rules else older
    if selected - dropped - left == 0:
        return Replay(
            silver.table, pinned, selected, dropped, left, 0, 0, 0, 0, 0, {}, {}, is_dry_run=is_dry_run
        )
    say(f"judging {selected - dropped - left:,} rows of {silver.quarantine} at version {pinned}")
    judged = _judged(eligible, silver, spark.read.format("delta").load(path))
    judged = judged.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = _counted(judged, rows, silver.table, pinned, (selected, dropped, left), is_dry_run=is_dry_run)
        if not is_dry_run and found.passed:
            _write(judged, silver, pipeline, (path, aside), found, say)
    finally:
        judged.unpersist()
    return found


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


def _judged(rows: DataFrame, silver: Silver, table: DataFrame) -> DataFrame:
    """Each row judged by today's rules, without its payload, and with its fate."""
    bronze = rows.select(*SCHEMA.names)
    judged = judge(read(bronze, silver), silver)
    judged = judged.withColumn(META, F.col(META).dropFields("key", "value", "headers"))
    keys = _key(silver)
    passed = F.col(VERDICT) == ACCEPT
    order = Window.partitionBy(F.when(passed, F.col(KEY))).orderBy(
        f"{META}.ingested_at", *(f"{META}.{name}" for name in _PLACE)
    )
    there = table.select(
        *(F.col(name).alias(f"__there_{name}") for name in keys),
        F.struct(*(F.col(f"_kafka_{name}").alias(name) for name in _PLACE)).alias("__there"),
    )
    return judged
