"""Finds the place of every offset by its Kafka coordinates, in Spark.

One shuffle groups the coordinates of bronze, silver, late rows and quarantine; a mark says which table each
coordinate is from. Only rows that are in no other table (duplicates and tombstones, if all is well) are then
read from bronze and parsed.

Of a table with a row per element (``Silver.each``) the unit is record and position: bronze is parsed whole,
because only a record says how many elements it has. A record that was set aside as a whole is one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from common.delta.commit import DataFile
from common.rows.collect import frame_of
from orchestration.records.audit.table_log import Partition, TableCommit, TableLog
from silver.read.column_names import ELEMENT, ELEMENT_COLUMN

PLACE = ("topic", "partition", "offset")
KAFKA = ("_kafka_topic", "_kafka_partition", "_kafka_offset")

WHOLE = -1
"""The position of a record that is one unit: it has no element, or was set aside as a whole."""

_UNREADABLE = "unreadable"

Split = Callable[[DataFrame], DataFrame]
"""Gives the units of bronze rows: topic, partition, offset, element, and whether the record is unreadable."""

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
    """Rows of a table: all rows of a version if ``files`` is None, else the rows of these files.

    ``only`` is a condition on them; empty: all.
    """

    log: TableLog
    files: tuple[DataFile, ...] | None = None
    only: str = ""

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """The rows; None if there is no table or no file."""
        if self.log.version is None or self.files == ():
            return None
        rows = spark.read.format("delta").option("versionAsOf", self.log.version).load(self.log.path)
        if self.files is not None:
            rows = read_files(spark, self.log.path, self.files, rows)
        return rows.where(self.only) if self.only else rows


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


def locate_rows(  # noqa: PLR0913  # what is covered, and how it is counted
    spark: SparkSession,
    sources: Sources,
    ranges: Mapping[Partition, Range],
    *,
    merges_late: bool,
    is_loading: bool,
    split: Split | None = None,
) -> DataFrame:
    """One row per coordinate: topic, partition, offset, ``fate``, ``is_absent``, and its rows per table.

    ``fate`` is the coordinate's one place: ``silver``, ``late``, ``quarantine``, ``dropped``, ``waiting``, or
    ``rest`` (processed, but only in bronze). It is ``twice`` for a coordinate with two places. ``is_absent``
    is true for a coordinate that bronze does not hold, unless it may have expired. ``is_expired`` is true
    for a coordinate of the account that may have expired. With ``split`` there is one row per unit, with its
    ``element``.
    """
    place = PLACE if split is None else (*PLACE, ELEMENT)
    frames = list(_frames(spark, sources, split))
    if not frames:
        frames.append(_no_units(spark))
    marked, total = reduce(DataFrame.unionAll, frames), F.sum("mark").alias("marks")
    if split is None:
        found = marked.groupBy(*place).agg(total).withColumn("held", _count("bronze") > 0)
    else:
        unreadable = F.max(_UNREADABLE).alias(_UNREADABLE)
        found = _by_record(marked.groupBy(*place).agg(total, unreadable))
    known = ranges_frame(spark, ranges).select("topic", "partition", "start", "processed_end", "expired_end")
    found = found.join(F.broadcast(known), ["topic", "partition"], "left")
    fate = _fate(merges_late=merges_late, is_loading=is_loading)
    expired = F.coalesce(F.expr("offset >= start and offset < expired_end"), F.lit(False))
    absent = ~F.col("held") & ~expired
    marked = found.select(
        *place, "marks", fate.alias(FATE), absent.alias(IS_ABSENT), expired.alias(IS_EXPIRED)
    )
    return marked.where(F.col(FATE).isNotNull())


def _frames(spark: SparkSession, sources: Sources, split: Split | None) -> Iterator[DataFrame]:
    """The coordinates of each table, with its mark."""

    def of_bronze(rows: DataFrame, name: str) -> DataFrame:
        return _marked(rows if split is None else split(rows), PLACE, _mark(name), split, ELEMENT)

    bronze = sources.bronze.rows(spark)
    if bronze is not None:
        yield of_bronze(bronze, "bronze")
        if sources.waiting:
            unread = read_files(spark, sources.bronze.log.path, sources.waiting, bronze)
            yield of_bronze(unread, "waiting")
    for name, source in (("silver", sources.silver), ("late", sources.late)):
        rows = source.rows(spark)
        if rows is not None:
            yield _marked(rows, KAFKA, _mark(name), split, ELEMENT_COLUMN)
    aside = sources.quarantine.rows(spark)
    if aside is not None:
        is_dropped = F.col("verdict") == "drop" if "verdict" in aside.columns else F.lit(False)
        mark = F.when(is_dropped, _mark("dropped")).otherwise(_mark("quarantine"))
        yield _marked(aside, PLACE, mark, split, ELEMENT)


def _no_units(spark: SparkSession) -> DataFrame:
    names = (
        f"topic string, partition int, offset bigint, mark bigint, {ELEMENT} bigint, {_UNREADABLE} boolean"
    )
    return spark.createDataFrame([], names)


def _by_record(found: DataFrame) -> DataFrame:
    """The units of records, each with its marks and whether bronze has it (``held``).

    A declaration that was changed reads a record otherwise than the one that judged it. The elements of a
    record that was set aside as a whole are no units, unless a table has one: that record is in two places.
    Elements that tables have of a record that cannot be read today are held by it.
    """
    record = Window.partitionBy(*PLACE)
    is_whole, in_bronze = F.col(ELEMENT) == WHOLE, _count("bronze") > 0
    aside = _count("quarantine") + _count("dropped")
    in_tables = _count("silver") + _count("late") + aside > 0

    def any_of_record(condition: Column) -> Column:
        return F.max(F.coalesce(condition, F.lit(False))).over(record)

    facts = found.select(
        "*",
        any_of_record(in_bronze).alias("has_record"),
        any_of_record(is_whole & (aside > 0)).alias("is_aside"),
        any_of_record(is_whole & in_bronze & F.col(_UNREADABLE)).alias("is_unread"),
        any_of_record(~is_whole & in_tables).alias("has_rows"),
    )
    left = facts.where(
        in_tables | ~F.when(is_whole, F.col("is_unread") & F.col("has_rows")).otherwise(F.col("is_aside"))
    )
    twice = is_whole & (aside > 0) & F.col("has_rows")
    held = in_bronze | (
        F.col("has_record") & F.when(is_whole, F.col("is_aside")).otherwise(F.col("is_unread"))
    )
    marks = F.when(twice, F.col("marks") + _mark("quarantine")).otherwise(F.col("marks"))
    return left.select(*PLACE, ELEMENT, marks.alias("marks"), held.alias("held"))


def count_records(found: DataFrame) -> list[Any]:
    """Per topic and partition: ``records`` of the units, and ``expirable`` of them that may have expired."""
    records = found.groupBy(*PLACE).agg(F.max(IS_EXPIRED).alias(IS_EXPIRED))
    counts = (F.count("*").alias("records"), F.count_if(IS_EXPIRED).alias("expirable"))
    return records.groupBy("topic", "partition").agg(*counts).collect()


def place_of(found: DataFrame) -> tuple[str, ...]:
    """The columns that identify a coordinate, or a unit of a table with a row per element."""
    return (*PLACE, ELEMENT) if ELEMENT in found.columns else PLACE


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
    found = found.select(*PLACE).distinct() if ELEMENT in found.columns else found
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


def _marked(
    frame: DataFrame, names: Sequence[str], mark: Column, split: Split | None = None, element: str = ""
) -> DataFrame:
    """Coordinates with a mark; with ``split`` those of units, whose position has the given name."""
    columns = [F.col(name).alias(alias) for name, alias in zip(names, PLACE, strict=True)]
    if split is not None:
        columns.append(F.coalesce(element, F.lit(WHOLE).cast("bigint")).alias(ELEMENT))
        columns.append(
            (F.col(_UNREADABLE) if _UNREADABLE in frame.columns else F.lit(False)).alias(_UNREADABLE)
        )
    return frame.select(*columns[:3], mark.alias("mark"), *columns[3:])


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
