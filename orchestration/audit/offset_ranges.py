"""Which offsets and which files an audit looks at: all there are, or what is new since a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from common.delta.checkpoint import DeltaPosition
from common.delta.commit import Commit, DataFile
from common.machine.storage_folder import StorageFolder
from orchestration.audit.row_places import NEVER, Source, Sources
from orchestration.audit.table_log import Partition, Pins, Positions, TableLog, Told, kafka_positions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestration.audit.last_audit import Start


@dataclass(frozen=True, slots=True)
class BronzeReach:
    """Which offsets bronze has read, as its commits say.

    Attributes:
        ends: The next offset per partition after the newest micro-batch.
        cut: The same after the last micro-batch that silver has processed, or has begun to.
        begun: Per partition the micro-batch that first spoke of it: there is its first offset.
        is_told: All commits with rows are there and say their positions; else the rows are all we know.
    """

    ends: dict[Partition, int]
    cut: dict[Partition, int]
    begun: dict[Partition, Told]
    is_told: bool


def bronze_reach(
    bronze: TableLog, position: DeltaPosition | None, known: Positions = MappingProxyType({})
) -> BronzeReach:
    """What bronze's commits say of the offsets it has read, and how many of them silver has processed.

    ``known`` is what was read and processed before the first of these commits.
    """
    ends: dict[Partition, int] = dict(known)
    cut: dict[Partition, int] = dict(known)
    begun: dict[Partition, Told] = {}
    told_all = bronze.is_whole or bool(known)
    for one in bronze.commits:
        if one.batch_id is None:
            told_all &= not one.commit.added or one.commit.is_change or one.by == "compaction"
            continue
        after = kafka_positions(one)
        begun |= {partition: one for partition in after if partition not in ends}
        ends |= after
        if position is not None and (is_read(one.commit, position) or is_begun(one.commit, position)):
            cut |= after
    return BronzeReach(ends, cut, begun, told_all and bool(ends))


def is_read(commit: Commit, position: DeltaPosition) -> bool:
    """Whether a stream at a position has read all of a commit."""
    if commit.version < position.version:
        return True
    return commit.version == position.version and 0 <= len(commit.added) - 1 <= position.index


def is_begun(commit: Commit, position: DeltaPosition) -> bool:
    """Whether a stream at a position has read some files of a commit, or all."""
    return commit.version == position.version and position.index >= 0


def window(pins: Pins, start: Start) -> str:
    """Why only what is new since a start cannot be looked at; empty where it can."""
    if start.query_id != (pins.batch.query_id if pins.batch else start.query_id):
        return "another query has written it since"
    for log in pins.tables:
        first = log.commits[0].version if log.commits else 0
        if not log.is_whole and first > _after(log, pins, start) + 1:
            return f"commits of {log.table} since then are gone from its log"
        if changed := [one.version for one in log.since(_after(log, pins, start)) if one.commit.is_change]:
            return f"rows of {log.table} were changed since then (version {changed[0]})"
        if not are_there(log, new_files(log, pins, start)):
            return f"files of {log.table} since then are vacuumed"
    return "" if bronze_reach(pins.bronze, pins.position, start.cut).is_told else "bronze tells no positions"


def _after(log: TableLog, pins: Pins, start: Start) -> int:
    """The version of a table after which is looked."""
    return start.position.version - 1 if log is pins.bronze else start.version(log.table)


def new_files(log: TableLog, pins: Pins, start: Start) -> tuple[DataFile, ...]:
    """The files that came since a start."""
    return tuple(file for one in log.since(_after(log, pins, start)) for file in one.commit.added)


def all_sources(pins: Pins, reach: BronzeReach, start: Start | None) -> Sources:
    """Where the rows are read from."""

    def source(log: TableLog) -> Source:
        return Source(log, None if start is None else new_files(log, pins, start))

    return Sources(
        bronze=source(pins.bronze),
        silver=source(pins.silver),
        late=source(pins.late),
        quarantine=source(pins.quarantine),
        waiting=_waiting(pins.bronze, reach, pins.position),
    )


def _waiting(bronze: TableLog, reach: BronzeReach, position: DeltaPosition | None) -> tuple[DataFile, ...]:
    """Files whose rows silver has not processed, where their offsets alone do not say so."""
    if position is None:
        return ()
    files: list[DataFile] = []
    for one in bronze.commits:
        if one.commit.is_change or is_read(one.commit, position):
            continue
        begun = is_begun(one.commit, position)
        if begun or not reach.is_told:
            files += one.commit.added[position.index + 1 if begun else 0 :]
    return tuple(files)


def cut_of(
    position: DeltaPosition | None, reach: BronzeReach, place: Partition, first: int, *, is_loading: bool
) -> int:
    """The first offset of a partition that silver has certainly not processed."""
    if position is None:
        return first
    return reach.cut.get(place, first) if reach.is_told else NEVER


def are_there(log: TableLog, files: tuple[DataFile, ...]) -> bool:
    """Whether data files are still on disk."""
    for file in files:
        folder, _, name = file.path_in(log.path).rpartition("/")
        if not StorageFolder(folder).exists(name):
            return False
    return True


def touched(commits: Sequence[Told]) -> tuple[DataFile, ...]:
    """The files that some commits took out or put in."""
    return tuple(file for one in commits for file in (*one.commit.removed, *one.commit.added))


def lowest_and_highest(
    spark: SparkSession, bronze: TableLog, files: tuple[DataFile, ...] | None
) -> dict[Partition, tuple[int, int]]:
    """The lowest and the highest offset per partition, of some files or of the whole table."""
    frame = Source(bronze, files).rows(spark)
    if frame is None:
        return {}
    ends = frame.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset")).collect()
    return {(str(row[0]), int(row[1])): (int(row[2]), int(row[3])) for row in ends}
