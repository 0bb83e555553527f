"""The offsets and data files that an audit covers: all of them, or those after a starting point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from common.delta.checkpoint import DeltaPosition
from common.delta.commit import Commit, DataFile
from common.delta.log import LogReader
from common.machine.storage_folder import StorageFolder
from common.streaming.topic_identity import BEGINS_ANEW
from orchestration.records.audit.offset_places import KAFKA, NEVER, PLACE, Source, Sources
from orchestration.records.audit.starting_point import StartingPoint
from orchestration.records.audit.table_log import (
    Partition,
    Pins,
    Positions,
    TableCommit,
    TableLog,
    delta_position,
    kafka_positions,
    since_rebuild,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class BronzeProgress:
    """The offsets that bronze has read, according to the metadata of its commits."""

    ends: dict[Partition, int]  # per partition, the next offset after bronze's newest micro-batch
    # The same after the last micro-batch that silver has read, in whole or in part.
    processed: dict[Partition, int]
    # Per partition, the first micro-batch that names the partition; its files hold the partition's first
    # offset.
    first_batches: dict[Partition, TableCommit]
    # Whether the log has every commit with rows and each names its positions. Otherwise only the rows
    # themselves show which offsets bronze has read.
    is_complete: bool


def bronze_progress(
    bronze: TableLog, position: DeltaPosition | None, known: Positions = MappingProxyType({})
) -> BronzeProgress:
    """Offsets that bronze has read, and those that silver has processed, from bronze's commits.

    Args:
        known: The offsets read and processed before the first of these commits.
    """
    ends: dict[Partition, int] = dict(known)
    processed: dict[Partition, int] = dict(known)
    first_batches: dict[Partition, TableCommit] = {}
    is_complete = bronze.is_whole or bool(known)
    for one in since_beginning(bronze):
        if one.batch_id is None:
            is_complete &= not one.commit.added or one.commit.is_change or one.by == "compaction"
            continue
        after = kafka_positions(one)
        first_batches |= {partition: one for partition in after if partition not in ends}
        ends |= after
        if position is not None and (is_read(one.commit, position) or is_partly_read(one.commit, position)):
            processed |= after
    return BronzeProgress(ends, processed, first_batches, is_complete and bool(ends))


class BatchRange(NamedTuple):
    """Offsets of a partition, up to but not including ``stop``, and the number of the micro-batch of silver
    that has read them; micro-batches that share a commit of bronze have one number.
    """

    topic: str
    partition: int
    start: int
    stop: int
    number: int


def batch_ranges(bronze: TableLog, silver: TableLog) -> Sequence[BatchRange]:
    """Which micro-batch of silver has read which offsets; empty where nobody can tell.

    Another query began without the keys that the one before had seen.
    """
    batches = [one for one in since_rebuild(silver.commits) if one.step == "accepted"]
    commits = iter([one for one in since_beginning(bronze) if one.batch_id is not None])
    if len({one.query_id for one in batches}) != 1 or not silver.is_whole:
        return ()
    found: list[BatchRange] = []
    ends: dict[Partition, int] = {}
    number, waiting = 0, next(commits, None)
    for batch in batches:
        position = delta_position(batch)
        if position is None or position.in_snapshot:
            return ()
        while waiting is not None and is_read(waiting.commit, position):
            after = kafka_positions(waiting)
            found += [BatchRange(*one, ends.get(one, 0), end, number) for one, end in after.items()]
            ends |= after
            waiting = next(commits, None)
        number += not (waiting is not None and is_partly_read(waiting.commit, position))
    return found


def since_beginning(bronze: TableLog) -> Sequence[TableCommit]:
    """The commits from the one on with which a table began elsewhere: there are no rows before it."""
    at = next((n for n, one in reversed([*enumerate(bronze.commits)]) if BEGINS_ANEW in one.metadata), 0)
    return bronze.commits[at:]


def is_read(commit: Commit, position: DeltaPosition) -> bool:
    """Whether a stream at this position has read the whole commit."""
    if commit.version < position.version:
        return True
    return commit.version == position.version and 0 <= len(commit.added) - 1 <= position.index


def is_partly_read(commit: Commit, position: DeltaPosition) -> bool:
    """Whether a stream at this position has read at least one file of the commit."""
    return commit.version == position.version and position.index >= 0


def why_full_audit(pins: Pins, start: StartingPoint) -> str:
    """The reason why an incremental audit is impossible; empty if it is possible."""
    if start.query_id != (pins.batch.query_id if pins.batch else start.query_id):
        return "another query has written the table since"
    for log in pins.tables:
        first = log.commits[0].version if log.commits else 0
        if not log.is_whole and first > _after(log, pins, start) + 1:
            return f"commits of {log.table} since then are gone from its log"
        changed = [
            one.version
            for one in log.since(_after(log, pins, start))
            # Retention deletes only what an audit has attested. A restatement may only add rows, but of
            # offsets from before the starting point.
            if (one.commit.is_change and one.by != "retention") or one.by == "restatement"
        ]
        if changed:
            return f"rows of {log.table} were changed since then (version {changed[0]})"
        if not all_exist(log, new_files(log, pins, start)):
            return f"files of {log.table} since then are vacuumed"
    progress = bronze_progress(pins.bronze, pins.position, start.processed)
    return "" if progress.is_complete else "commits of bronze name no positions"


def _after(log: TableLog, pins: Pins, start: StartingPoint) -> int:
    """The last version of a table before the starting point."""
    return start.position.version - 1 if log is pins.bronze else start.version(log.table)


def new_files(log: TableLog, pins: Pins, start: StartingPoint) -> tuple[DataFile, ...]:
    """The data files that were added after the starting point."""
    return tuple(file for one in log.since(_after(log, pins, start)) for file in one.commit.added)


OF_RECORDS = f"{KAFKA[0]} is not null"
"""The condition of the rows of silver that are made of records; those of other programs have null there."""


def all_sources(
    pins: Pins,
    progress: BronzeProgress,
    start: StartingPoint | None,
    own: str = "",
    *,
    has_others: bool = False,
) -> Sources:
    """The rows of the four tables that the audit reads.

    Args:
        start: Where the audit starts; None: at the beginning.
        own: The condition of the records of this bronze table, where silver reads several.
        has_others: Whether silver is declared to have rows of other programs, which have no coordinates.
    """

    def source(log: TableLog, topic: str = "") -> Source:
        only = own.replace("{topic}", topic) if topic else ""
        if has_others and log is pins.silver:
            only = f"({only or 'true'}) and {OF_RECORDS}"
        return Source(log, None if start is None else new_files(log, pins, start), only)

    return Sources(
        bronze=source(pins.bronze),
        silver=source(pins.silver, KAFKA[0]),
        late=source(pins.late, KAFKA[0]),
        quarantine=source(pins.quarantine, PLACE[0]),
        waiting=_waiting(pins.bronze, progress, pins.position),
    )


def _waiting(
    bronze: TableLog, progress: BronzeProgress, position: DeltaPosition | None
) -> tuple[DataFile, ...]:
    """Files of bronze that silver has not read, where the offset ranges alone do not show it."""
    if position is None:
        return ()
    files: list[DataFile] = []
    for one in bronze.commits:
        if one.commit.is_change or is_read(one.commit, position):
            continue
        in_progress = is_partly_read(one.commit, position)
        if in_progress or not progress.is_complete:
            files += one.commit.added[position.index + 1 if in_progress else 0 :]
    return tuple(files)


def unprocessed_from(
    position: DeltaPosition | None,
    progress: BronzeProgress,
    place: Partition,
    first: int,
) -> int:
    """The offset from which on silver has certainly not processed the partition."""
    if position is None:
        return first
    return progress.processed.get(place, first) if progress.is_complete else NEVER


def all_exist(log: TableLog | LogReader, files: Iterable[DataFile]) -> bool:
    """Whether all of these data files still exist."""
    for file in files:
        folder, _, name = file.path_in(log.path).rpartition("/")
        if not StorageFolder(folder).exists(name):
            return False
    return True


def files_of(commits: Sequence[TableCommit]) -> tuple[DataFile, ...]:
    """The data files that these commits removed or added."""
    return tuple(file for one in commits for file in (*one.commit.removed, *one.commit.added))


def lowest_erased(bronze: TableLog) -> dict[Partition, int]:
    """The lowest offset per partition that erasures have removed, as their commits say."""
    lowest: dict[Partition, int] = {}
    for one in bronze.commits:
        for topic, partitions in one.metadata.get("lowest", {}).items() if one.by == "erasure" else ():
            for partition, offset in partitions.items():
                place = (topic, int(partition))
                lowest[place] = min(lowest.get(place, offset), offset)
    return lowest


def lowest_and_highest(
    spark: SparkSession, bronze: TableLog, files: tuple[DataFile, ...] | None
) -> dict[Partition, tuple[int, int]]:
    """The lowest and the highest offset per partition; ``files`` of None means the whole table."""
    frame = Source(bronze, files).rows(spark)
    if frame is None:
        return {}
    ends = frame.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset")).collect()
    return {(str(row[0]), int(row[1])): (int(row[2]), int(row[3])) for row in ends}
