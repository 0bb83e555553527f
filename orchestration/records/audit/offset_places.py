"""Finds the place of every offset by its Kafka coordinates, in Spark.

One shuffle groups the coordinates of bronze, silver, late rows and quarantine; a mark says which table each
coordinate is from. Only rows that are in no other table (duplicates and tombstones, if all is well) are then
read from bronze and parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from common.delta.commit import DataFile
from common.rows.collect import frame_of
from orchestration.records.audit.table_log import Partition, TableCommit, TableLog

PLACE = ("topic", "partition", "offset")
KAFKA = ("_kafka_topic", "_kafka_partition", "_kafka_offset")

FATE = "fate"
IS_ABSENT = "is_absent"
IS_EXPIRED = "is_expired"
TWICE = "twice"
REST = "rest"
WAITING = "waiting"

_MARKS = ("bronze", "silver", "late", "quarantine", "dropped", "waiting")
TABLES = _MARKS[:-1]
_BITS = 10
"""Bits per table in a mark: each count goes up to 1023, and all counts of a coordinate fit into one long."""

_BUCKET = 4096
NEVER = 2**63 - 1
_RANGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("processed_end", pa.int64()),
        ("stop", pa.int64()),
        ("expired_end", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of a table: all rows of a version if ``files`` is None, else the rows of these files."""

    log: TableLog
    files: tuple[DataFile, ...] | None = None

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """The rows; None if there is no table or no file."""
        if self.log.version is None or self.files == ():
            return None
        whole = spark.read.format("delta").option("versionAsOf", self.log.version).load(self.log.path)
        if self.files is None:
            return whole
        return read_files(spark, self.log.path, self.files, whole)


def read_files(spark: SparkSession, path: str, files: Iterable[DataFile], like: DataFrame) -> DataFrame:
    """Rows of data files, with the columns of ``like``; the files need not be part of the current version."""
    # Without the option, Hadoop reads special characters in a folder's name as a pattern.
    reader = spark.read.schema(like.schema).option("__globPaths__", "false")
    return reader.parquet(*(file.path_in(path) for file in files))


@dataclass(frozen=True, slots=True)
class Sources:
    """The rows that an account covers; ``waiting`` are files of bronze that silver has not read yet."""

    bronze: Source
    silver: Source
    late: Source
    quarantine: Source
    waiting: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets of one partition that an account covers: from ``first`` up to but not including ``end``.

    Silver has not processed the offsets from ``processed_end`` on. Below ``expired_end`` retention has
    deleted records from bronze; what it left there, and rows of other tables, have their places as ever.
    """

    first: int
    processed_end: int
    end: int
    expired_end: int = 0

    @property
    def expirable(self) -> int:
        """Number of offsets that may have expired."""
        return max(0, min(self.expired_end, self.end) - self.first)


def locate_rows(
    spark: SparkSession,
    sources: Sources,
    ranges: Mapping[Partition, Range],
    *,
    merges_late: bool,
    is_loading: bool,
) -> DataFrame:
    """One row per coordinate: topic, partition, offset, ``fate``, ``is_absent``, and its rows per table.

    ``fate`` is the coordinate's one place: ``silver``, ``late``, ``quarantine``, ``dropped``, ``waiting``, or
    ``rest`` (processed, but only in bronze). It is ``twice`` for a coordinate with two places. ``is_absent``
    is true for a coordinate that bronze does not hold, unless it may have expired. ``is_expired`` is true
    for a coordinate of the account that may have expired.
    """
    frames = []
    bronze = sources.bronze.rows(spark)
    if bronze is not None:
        frames.append(_marked(bronze, PLACE, _mark("bronze")))
        if sources.waiting:
            unread = read_files(spark, sources.bronze.log.path, sources.waiting, bronze)
            frames.append(_marked(unread, PLACE, _mark("waiting")))
    for name, source in (("silver", sources.silver), ("late", sources.late)):
        rows = source.rows(spark)
        if rows is not None:
            frames.append(_marked(rows, KAFKA, _mark(name)))
    aside = sources.quarantine.rows(spark)
    if aside is not None:
        is_dropped = F.col("verdict") == "drop" if "verdict" in aside.columns else F.lit(False)
        frames.append(
            _marked(aside, PLACE, F.when(is_dropped, _mark("dropped")).otherwise(_mark("quarantine")))
        )
    if not frames:
        frames.append(spark.createDataFrame([], "topic string, partition int, offset bigint, mark bigint"))
    found = reduce(DataFrame.unionAll, frames).groupBy(*PLACE).agg(F.sum("mark").alias("marks"))
    known = ranges_frame(spark, ranges).select("topic", "partition", "start", "processed_end", "expired_end")
    found = found.join(F.broadcast(known), ["topic", "partition"], "left")
    fate = _fate(merges_late=merges_late, is_loading=is_loading)
    expired = F.coalesce(F.expr("offset >= start and offset < expired_end"), F.lit(False))
    absent = (_count("bronze") == 0) & ~expired
    marked = found.select(
        *PLACE, "marks", fate.alias(FATE), absent.alias(IS_ABSENT), expired.alias(IS_EXPIRED)
    )
    return marked.where(F.col(FATE).isNotNull())


def count_places(found: DataFrame) -> list[Any]:
    """Per topic, partition, fate, ``is_absent``, ``is_expired``: offsets, lowest, highest, rows by table."""
    rows = [F.sum(_count(name)).alias(f"in_{name}") for name in TABLES]
    ends = (F.count("*").alias("offsets"), F.min("offset").alias("low"), F.max("offset").alias("high"))
    return found.groupBy("topic", "partition", FATE, IS_ABSENT, IS_EXPIRED).agg(*ends, *rows).collect()


def _fate(*, merges_late: bool, is_loading: bool) -> Column:
    in_silver, in_late = _count("silver"), _count("late")
    aside = _count("quarantine") + _count("dropped")
    # A late row that was merged counts as silver; its copy in the late table only documents the merge.
    only_late = (in_late > 0) & (in_silver == 0) if merges_late else in_late > 0
    places = (in_silver > 0).cast("int") + only_late.cast("int") + (aside > 0).cast("int")
    many = (_count("bronze") > 1) | (in_silver > 1) | (in_late > 1) | (aside > 1) | (places > 1)
    is_waiting = (_count("waiting") > 0) | (F.col("offset") >= F.coalesce("processed_end", F.lit(NEVER)))
    fate = (
        F.when(many, TWICE)
        .when(in_silver > 0, "silver")
        .when(in_late > 0, "late")
        .when(_count("quarantine") > 0, "quarantine")
        .when(_count("dropped") > 0, "dropped")
        .when(_count("bronze") == 0, F.lit(None).cast("string"))
        .when(is_waiting, WAITING)
    )
    return fate.otherwise(WAITING if is_loading else REST)


def gaps(spark: SparkSession, found: DataFrame, ranges: Mapping[Partition, Range]) -> DataFrame:
    """Offsets within the ranges that no row has; without those that may have expired.

    Rows are counted per bucket of offsets first; only buckets with too few rows are expanded.
    """
    bucket = F.floor(F.col("offset") / _BUCKET).alias("bucket")
    ends = ranges_frame(spark, ranges).withColumn("start", F.expr("greatest(start, expired_end)"))
    spans = ends.where("stop > start")
    low = F.expr(f"greatest(start, bucket * {_BUCKET})").alias("low")
    high = F.expr(f"least(stop, (bucket + 1) * {_BUCKET})").alias("high")
    wanted = spans.select(
        "topic",
        "partition",
        "start",
        "stop",
        F.explode(F.expr(f"sequence(start div {_BUCKET}, (stop - 1) div {_BUCKET})")).alias("bucket"),
    ).select("topic", "partition", "bucket", low, high)
    held = (
        found.join(F.broadcast(spans.select("topic", "partition", "start", "stop")), ["topic", "partition"])
        .where("offset >= start and offset < stop")
        .groupBy("topic", "partition", bucket)
        .agg(F.count("*").alias("rows"))
    )
    short = wanted.join(held, ["topic", "partition", "bucket"], "left").where(
        "coalesce(rows, 0) < high - low"
    )
    near = found.withColumn("bucket", bucket).join(
        short.select("topic", "partition", "bucket"), ["topic", "partition", "bucket"], "left_semi"
    )
    every = short.select("topic", "partition", F.explode(F.expr("sequence(low, high - 1)")).alias("offset"))
    return every.join(near, list(PLACE), "left_anti").select(*PLACE)


def net_changes(
    spark: SparkSession, log: TableLog, commits: Iterable[TableCommit], names: Sequence[str] = PLACE
) -> DataFrame:
    """Coordinates whose rows these commits removed from a table (``net`` > 0) or added to it (``net`` < 0).

    A row that was only rewritten was removed as often as it was added. Its ``net`` is 0; it is left out.
    """
    whole = spark.read.format("delta").option("versionAsOf", log.version or 0).load(log.path)
    frames = []
    for net, files in (
        (1, [file for one in commits for file in one.commit.removed]),
        (-1, [file for one in commits for file in one.commit.added]),
    ):
        if files:
            frames.append(_marked(read_files(spark, log.path, files, whole), names, F.lit(net)))
    every = reduce(DataFrame.unionAll, frames)
    return every.groupBy(*PLACE).agg(F.sum("mark").alias("net")).where("net <> 0")


def rows_before_removal(spark: SparkSession, log: TableLog, commits: Sequence[TableCommit]) -> DataFrame:
    """The rows that files had before these commits removed or rewrote them; the files must exist."""
    whole = spark.read.format("delta").option("versionAsOf", log.version or 0).load(log.path)
    return read_files(spark, log.path, [file for one in commits for file in one.commit.removed], whole)


def ranges_frame(spark: SparkSession, ranges: Mapping[Partition, Range]) -> DataFrame:
    """The ranges as rows: topic, partition, start, processed_end, stop."""
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "start": one.first,
            "processed_end": one.processed_end,
            "stop": one.end,
            "expired_end": one.expired_end,
        }
        for (topic, partition), one in ranges.items()
    ]
    return frame_of(spark, pa.Table.from_pylist(rows, _RANGES))


def examples(frame: DataFrame, limit: int) -> tuple[tuple[str, int, int], ...]:
    """The first ``limit`` coordinates, in ascending order."""
    rows: list[Any] = frame.select(*PLACE).orderBy(*PLACE).limit(limit).collect()
    return tuple((str(row[0]), int(row[1]), int(row[2])) for row in rows)


def _marked(frame: DataFrame, names: Sequence[str], mark: Column) -> DataFrame:
    columns = [F.col(name).alias(alias) for name, alias in zip(names, PLACE, strict=True)]
    return frame.select(*columns, mark.alias("mark"))


def _mark(name: str) -> Column:
    return F.lit(1 << _BITS * _MARKS.index(name)).cast("bigint")


def _count(name: str) -> Column:
    return F.shiftright("marks", _BITS * _MARKS.index(name)).bitwiseAND(
        F.lit((1 << _BITS) - 1).cast("bigint")
    )


def in_two_places(found: DataFrame) -> list[tuple[str, DataFrame]]:
    """Coordinates with two places, as pairs of a description and its coordinates."""
    several = [(name, _count(name) > 1) for name in TABLES]
    where = F.concat_ws(
        " and ",
        *(
            F.when(is_many, f"{name} more than once").when(_count(name) > 0, name)
            for name, is_many in several
            if name != "bronze"
        ),
        F.when(_count("bronze") > 1, "bronze more than once"),
    )
    frame = found.where(f"{FATE} = '{TWICE}'").withColumn("where", where)
    names = sorted(str(row[0]) for row in frame.select("where").distinct().collect())
    return [(f"the same offset is in {name}", frame.where(F.col("where") == name)) for name in names]


def outside_ranges(spark: SparkSession, found: DataFrame, ranges: Mapping[Partition, Range]) -> DataFrame:
    """Rows whose offset is outside the ranges."""
    known = F.broadcast(ranges_frame(spark, ranges).select("topic", "partition", "start", "stop"))
    joined = found.join(known, ["topic", "partition"], "left")
    return joined.where("start is null or offset < start or offset >= stop")


def without_earlier(spark: SparkSession, found: DataFrame, ranges: Mapping[Partition, Range]) -> DataFrame:
    """Rows with their fate, without those before the ranges. Without ranges, all rows are kept."""
    if not ranges:
        return found.select(*PLACE, FATE)
    known = F.broadcast(ranges_frame(spark, ranges).select("topic", "partition", "start"))
    joined = found.join(known, ["topic", "partition"], "left")
    return joined.where("start is null or offset >= start").select(*PLACE, FATE)


def null_fate() -> Column:
    """The null fate of an offset that is in no table."""
    return F.lit(None).cast("string").alias(FATE)
