"""Chooses the data files of a bronze table whose records have all expired and are all accounted for.

A record expires ``Topic.keep`` after bronze has read it (its ``ingested_at``): a producer's wrong clock
neither deletes a record early nor keeps it for ever. A file goes as a whole, so a record may stay for as long
as a younger record is in its file.

A file may go only if every silver table that reads the bronze table has a saved audit that covers each of the
file's offsets: then no query reads the file any more, and each of its records was in exactly one place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bronze.table import INGESTED
from common.config.paths import Layout
from common.declare import Bronze, Pipeline, Silver
from common.declare.intervals import length_of
from common.delta.commit import DataFile
from common.delta.log import LogReader
from common.delta.maintenance.retention import ExpiredTopic
from orchestration.records.audit import last_audit
from orchestration.records.audit.audit import Say, audit
from orchestration.records.audit.offset_places import read_files
from orchestration.records.audit.starting_point import StartingPoint
from orchestration.records.audit.table_log import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_FILES = 10_000
"""Most files of one commit; a table that has more is done in several."""


@dataclass(frozen=True, slots=True)
class FileOffsets:
    """The offsets of one topic and partition in one data file; both ends are included."""

    file: str
    topic: str
    partition: int
    lowest: int
    highest: int
    # Kafka's time of the oldest record; None where no record has one. ``newest`` likewise.
    oldest: datetime | None = None
    newest: datetime | None = None


@dataclass(frozen=True, slots=True)
class Expiry:
    """What retention deletes from one bronze table."""

    table: str  # the bronze table
    files: tuple[DataFile, ...] = ()  # the files that may go, oldest first; empty if there are none
    offsets: tuple[FileOffsets, ...] = ()  # the offsets in these files
    # By partition, the first offset that bronze ever had, as the audits say.
    firsts: Mapping[Partition, int] = field(default_factory=dict)
    kept_because: str = ""  # why older files stay; empty if none stays
    is_part: bool = False  # whether there are more old files than one commit deletes


def plan_expiry(  # noqa: PLR0913  # as an audit
    spark: SparkSession,
    pipeline: Pipeline,
    layout: Layout,
    topic: Bronze,
    *,
    accepted: Collection[str] = (),
    say: Say = lambda text: None,
    now: datetime | None = None,
) -> Expiry:
    """The files of a bronze table that retention deletes now.

    The silver tables are audited first, from their last audit on: every day, also while no file is old
    enough, so that no audit has to read months. Writes nothing but the end of balanced audits.

    Args:
        accepted: Commits of gold tables that the operator has accepted, as the audit takes them.
        say: Reports what is kept and why.
        now: The present; unset: the clock's.
    """
    path = layout.table_path(topic.table)
    log = LogReader(path)
    if topic.keep is None or layout.bronze is not None or log.latest_version() is None:
        return Expiry(topic.table)
    ends: list[StartingPoint] = []
    for silver in (one for one in pipeline.silver if topic.table in one.sources):
        why = _audited(spark, pipeline, silver, layout, accepted, say)
        end = None if why else last_audit.load(layout, silver.table)
        if end is None:
            return Expiry(topic.table, kept_because=why or f"no audit of {silver.table} is saved")
        ends.append(end)
    until = (now or datetime.now(UTC)) - timedelta(milliseconds=length_of(topic.keep).milliseconds)
    old = log.live_files_up_to(INGESTED, until)
    some = old[:MOST_FILES]
    if not some:
        return Expiry(topic.table)
    found = read_offsets(spark, path, some)
    names = {one.file for one in found} - unaccounted(found, [end.processed for end in ends])
    kept = len(some) - len(names)
    return Expiry(
        table=topic.table,
        files=tuple(file for file in some if file.path.rpartition("/")[2] in names),
        offsets=tuple(one for one in found if one.file in names),
        firsts=first_offsets(ends),
        kept_because=f"{kept:,} older files have records that no saved audit covers" if kept else "",
        is_part=len(old) > len(some) and bool(names),
    )


def _audited(  # noqa: PLR0913, PLR0917
    spark: SparkSession,
    pipeline: Pipeline,
    silver: Silver,
    layout: Layout,
    accepted: Collection[str],
    say: Say,
) -> str:
    """Why a silver table has no balanced audit up to now; empty if it has one."""
    if len(silver.sources) > 1:
        return f"{silver.table} reads {silver.read_text}, and its audits do not go on from the last one"
    if LogReader(layout.table_path(silver.table)).latest_version() is None:
        return f"{silver.table} has not begun to read it"
    found = audit(spark, pipeline, silver, layout, since="last", say=say, accepted=accepted)
    if not found.faults:
        return ""
    return f"{silver.table} does not balance; see: medallion audit --table {silver.table}"


def read_offsets(spark: SparkSession, path: str, files: Sequence[DataFile]) -> tuple[FileOffsets, ...]:
    """The offsets in data files, by file, topic and partition; reads four columns of them."""
    whole = spark.read.format("delta").load(path)
    rows = read_files(spark, path, files, whole)
    by = (F.col("_metadata.file_name").alias("file"), F.col("topic"), F.col("partition"))
    ends = rows.groupBy(*by).agg(
        F.min("offset"), F.max("offset"), F.min("kafka_timestamp"), F.max("kafka_timestamp")
    )
    return tuple(
        FileOffsets(
            str(row[0]), str(row[1]), int(row[2]), int(row[3]), int(row[4]), _utc(row[5]), _utc(row[6])
        )
        for row in ends.collect()
    )


def unaccounted(found: Iterable[FileOffsets], ends: Sequence[Mapping[Partition, int]]) -> set[str]:
    """The files with an offset that an audit does not cover.

    Args:
        ends: For each silver table that reads them: by partition, the first offset that its last audit does
            not cover. Without a silver table every offset is covered.
    """
    return {
        one.file
        for one in found
        if any(one.highest >= end.get((one.topic, one.partition), 0) for end in ends)
    }


def first_offsets(ends: Sequence[StartingPoint]) -> dict[Partition, int]:
    """The first offset that bronze ever had, by partition, as the audits of its silver tables say."""
    firsts: dict[Partition, int] = {}
    for end in ends:
        for place, one in end.counts.items():
            firsts[place] = min(one.first, firsts.get(place, one.first))
    return firsts


def expired_in(offsets: Iterable[FileOffsets], firsts: Mapping[Partition, int]) -> dict[str, ExpiredTopic]:
    """The expired records of some files, by topic."""
    found: dict[str, ExpiredTopic] = {}
    for one in offsets:
        first = min(one.lowest, firsts.get((one.topic, one.partition), one.lowest))
        ends = {one.partition: (first, one.highest + 1)}
        more = ExpiredTopic(ends, one.oldest, one.newest)
        known = found.get(one.topic)
        found[one.topic] = more if known is None else known.with_more(more)
    return found


def _utc(moment: datetime | None) -> datetime | None:
    """A time that Spark has given, which has no time zone and is in the process's."""
    return None if moment is None else moment.astimezone(UTC)
