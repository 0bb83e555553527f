"""The Delta logs of a silver table and of a bronze table that it reads; without Spark, and read-only.

The metadata of a micro-batch's commit holds the batch's number, its counts and its source positions. They
give the table versions that an audit reads, the offsets that it must find, and the faults that show in the
logs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from common.config.paths import Layout
from common.declare import Silver
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position_of
from common.delta.commit import RESTORE, Commit
from common.delta.log import LogReader
from common.delta.match.batch_match import REBUILT
from common.delta.micro_batch import of_each
from common.delta.table import FILES_APPENDED
from common.streaming.topic_identity import coordinate_ends

Partition = tuple[str, int]
"""A topic and one of its partitions."""

Positions = Mapping[Partition, int]
"""The next offset to read, per topic and partition."""

BATCH_COUNTS = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late", "other", "empty")
"""The counts of a silver micro-batch whose sum is the number of rows that the micro-batch read; of a table
with a row per element, the number of elements and of records without one."""


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A commit with the engine's metadata; ``batch_id`` is None if the commit is no micro-batch's."""

    commit: Commit
    metadata: Mapping[str, Any]
    query_id: str | None = None
    batch_id: int | None = None
    step: str = ""

    @property
    def version(self) -> int:
        """The table version that the commit created."""
        return self.commit.version

    @property
    def by(self) -> str:
        """The engine's operation that wrote the commit, such as ``replay``; empty for a micro-batch."""
        return "" if self.batch_id is not None else str(self.metadata.get("by", ""))

    @property
    def counts(self) -> Mapping[str, Any]:
        """The number of rows per outcome."""
        counts = self.metadata.get("counts")
        return counts if isinstance(counts, dict) else {}

    @property
    def is_rebuilt(self) -> bool:
        """Whether the commit has replaced all rows by those of another query, up to its positions."""
        return REBUILT in self.metadata

    @property
    def is_foreign(self) -> bool:
        """Whether the commit changes rows and was not written by the engine."""
        return bool(self.commit.added or self.commit.removed) and self.batch_id is None and not self.by


@dataclass(frozen=True, slots=True)
class TableLog:
    """The commits of one table that an audit covers, oldest first."""

    table: str
    path: str
    commits: tuple[TableCommit, ...]
    is_whole: bool  # whether the log still has every requested commit
    base: int | None = None  # the version before the first requested commit; None for the whole log

    @property
    def version(self) -> int | None:
        """The newest version that the audit covers; None if the table does not exist."""
        return self.commits[-1].version if self.commits else self.base

    def since(self, start: int) -> tuple[TableCommit, ...]:
        """The commits after version ``start``."""
        return tuple(one for one in self.commits if one.version > start)

    def steps(self, step: str) -> tuple[TableCommit, ...]:
        """The commits of micro-batches for one step, such as ``accepted`` or ``late``."""
        return tuple(one for one in self.commits if one.batch_id is not None and one.step == step)


@dataclass(frozen=True, slots=True)
class Pins:
    """The state that an audit checks: the four tables after one complete micro-batch of silver."""

    bronze: TableLog  # bronze's commits up to that state; ``silver``, ``quarantine`` and ``late`` likewise
    silver: TableLog
    quarantine: TableLog
    late: TableLog
    batch: TableCommit | None  # the micro-batch's commit in silver; None before the first micro-batch
    position: DeltaPosition | None  # how far silver has read bronze; None before the first micro-batch
    # Whether a first load is unfinished. The rows that it has yet to write count as waiting.
    is_loading: bool = False
    # Faults in the sequence of commits, such as a lost commit, in words.
    faults: tuple[str, ...] = field(default=())

    @property
    def tables(self) -> tuple[TableLog, ...]:
        """The logs of all four tables, bronze first."""
        return (self.bronze, self.silver, self.quarantine, self.late)


def read_log(table: str, path: str, query: str, first: int = 0) -> TableLog:
    """All commits that a table's log still has, from version ``first`` on."""
    log = LogReader(path)
    oldest = log.oldest_version()
    if oldest is None:
        return TableLog(table, path, (), is_whole=True)
    commits = log.commits(max(oldest, first))
    base = first - 1 if first > 0 else None
    return TableLog(table, path, tuple(table_commit(one, query) for one in commits), oldest <= first, base)


def most_rows(path: str, version: int | None) -> float:
    """How many rows a version has at most, by its files; infinitely many where one has no number of rows."""
    rows = [file.rows for file in LogReader(path).live_files(version)]
    return sum(float("inf") if one is None else one for one in rows)


def table_commit(commit: Commit, query: str) -> TableCommit:
    """A commit with its metadata, which is empty if the engine did not write it."""
    metadata = commit.metadata
    is_batch = metadata.get("query") == query or metadata.get("by") == FILES_APPENDED
    if is_batch and isinstance(metadata.get("batch_id"), int):
        return TableCommit(
            commit, metadata, metadata.get("query_id"), metadata["batch_id"], str(metadata.get("step", ""))
        )
    return TableCommit(commit, metadata)


def pin(
    silver: Silver, layout: Layout, firsts: Mapping[str, int] = MappingProxyType({}), last: int = -1
) -> Pins:
    """The newest state in which all tables hold only complete micro-batches, even while jobs write.

    A micro-batch writes silver, then its late rows, then quarantine. The newest micro-batch is included if
    its checkpoint or the tables show that all these writes are done; otherwise the state before it is used.

    Args:
        firsts: Per table, the first version to read.
        last: Silver's last micro-batch before these versions.
    """

    def log(table: str, query: str = silver.table) -> TableLog:
        return read_log(table, layout.table_path(table), query, firsts.get(table, 0))

    # The order of reading matters. Tables are read after the checkpoint, so they hold every micro-batch that
    # the checkpoint counts as done. Silver is read after its side tables, which are written after silver, so
    # the side tables never seem to be ahead of silver.
    checkpoint = Checkpoint(layout.checkpoint_path(silver.table))
    query_id, done = checkpoint.query_id(), checkpoint.last_committed()
    aside = log(silver.quarantine)
    late = log(silver.late_table)
    mine = log(silver.table)
    bronze = log(silver.sources[0], silver.sources[0])
    batches = mine.steps("accepted")
    beside = (*aside.commits, *late.commits)
    faults = list(_lost(silver, batches, beside, query_id, done, last))
    batch = None
    for one in reversed(batches):
        is_done = done is not None and one.query_id == query_id and done >= (one.batch_id or 0)
        if is_done or _is_complete(one, mine, aside, late):
            batch = one
            break
        mine, aside, late = (log_before(one, each) for each in (mine, aside, late))
    position, is_loading = _position(batch, mine)
    return Pins(bronze, mine, aside, late, batch, position, is_loading, tuple(faults))


def pins_of_sources(pins: Pins, silver: Silver, layout: Layout) -> tuple[Pins, ...]:
    """The same state for each bronze table that a silver table reads; faults of commits are in the first.

    Args:
        pins: The state, with the first bronze table.
    """
    found = [pins]
    for place, source in enumerate(silver.sources[1:], 1):
        bronze = read_log(source, layout.table_path(source), source)
        position, _ = _position(pins.batch, pins.silver, place)
        found.append(replace(pins, bronze=bronze, position=position, faults=()))
    return tuple(found)


def _position(
    batch: TableCommit | None, silver: TableLog, place: int = 0
) -> tuple[DeltaPosition | None, bool]:
    """How far silver has read one of its bronze tables, and whether a first load is unfinished."""
    if batch is not None:
        return delta_position(batch, place), False
    loads = [one for one in silver.commits if one.by == "first load"]
    if not loads:
        return None, False
    metadata = loads[-1].metadata
    position = after_first_load(metadata, place)
    return position, len({one.metadata.get("bucket") for one in loads}) < int(metadata.get("of", 0))


def after_first_load(metadata: Mapping[str, Any], place: int) -> DeltaPosition:
    """Where the stream of one of the bronze tables begins after a first load, by its commit's metadata."""
    version = of_each(metadata["bronze_version"])[place]
    return DeltaPosition(version + 1, -1, "", in_snapshot=False)


def log_before(batch: TableCommit, log: TableLog) -> TableLog:
    """A table's log before a micro-batch.

    What the engine moved between the tables after that, such as a replay, is left out of every table's log.
    """
    kept: list[TableCommit] = []
    for one in log.commits:
        is_own = one.batch_id is not None and one.query_id == batch.query_id
        if is_own and (one.batch_id or 0) >= (batch.batch_id or 0):
            break
        if one.version > 0 and one.by and one.commit.timestamp >= batch.commit.timestamp:
            break
        kept.append(one)
    return replace(log, commits=tuple(kept))


def _is_complete(batch: TableCommit, mine: TableLog, aside: TableLog, late: TableLog) -> bool:
    """Whether the tables hold every write of a micro-batch."""

    def has(log: TableLog, step: str) -> bool:
        mine = (batch.query_id, batch.batch_id)
        return any((one.query_id, one.batch_id) == mine for one in log.steps(step))

    counts = batch.counts
    if counts.get("quarantined", 0) + counts.get("dropped", 0) and not has(aside, "quarantine"):
        return False
    if not counts.get("late", 0):
        return True
    return has(late, "late") and (not counts.get("merged", 0) or has(mine, "late"))


def _lost(  # noqa: PLR0913, PLR0917  # every source that can show a lost commit
    silver: Silver,
    batches: Sequence[TableCommit],
    others: Sequence[TableCommit],
    query_id: str | None,
    committed: int | None,
    last: int,
) -> Iterator[str]:
    """Micro-batches whose commit is missing in silver."""
    yield from missing_batches(silver.table, batches)
    newest = batches[-1] if batches else None
    last = last if newest is None else newest.batch_id or 0
    same = newest.query_id if newest is not None else None
    beyond = max(
        (one.batch_id for one in others if one.batch_id is not None and same in {None, one.query_id}),
        default=-1,
    )
    if beyond > last:
        yield (
            f"{silver.table} has no commit of micro-batch {beyond}, but a table beside it has: "
            "its newest commits are lost"
        )
    elif (
        committed is not None and committed > last and (newest is None or newest.query_id in {None, query_id})
    ):
        yield (
            f"{silver.table} ends with micro-batch {last}, but its checkpoint has done {committed}: "
            "its newest commits are lost"
        )


def since_rebuild(batches: Sequence[TableCommit]) -> Sequence[TableCommit]:
    """The commits from the last one on that has replaced all rows; all if there is none."""
    last = max((place for place, one in enumerate(batches) if one.is_rebuilt), default=0)
    return batches[last:]


def missing_batches(table: str, batches: Sequence[TableCommit]) -> Iterator[str]:
    """Gaps in the micro-batch numbers of a query's commits."""
    for before, after in pairwise(batches):
        if before.query_id != after.query_id:
            continue
        first, last = (before.batch_id or 0) + 1, (after.batch_id or 0) - 1
        if first <= last:
            which = f"micro-batch {first}" if first == last else f"micro-batches {first} to {last}"
            yield f"{table} has no commit of {which}, between versions {before.version} and {after.version}"


def delta_position(batch: TableCommit, place: int = 0) -> DeltaPosition | None:
    """How far a silver micro-batch has read a bronze table, from its commit's metadata.

    Args:
        place: The place of the bronze table among those that silver reads.
    """
    positions = batch.metadata.get("positions") or ()
    source = positions[place] if place < len(positions) else None
    if not isinstance(source, dict) or "reservoirVersion" not in source:
        return None
    return delta_position_of(positions, place)


def kafka_positions(batch: TableCommit) -> dict[Partition, int]:
    """The next offset of each partition after a bronze micro-batch, from its commit's metadata.

    A topic has its name as rows have it: with the generation, from the second on.
    """
    return coordinate_ends(batch.metadata)


def commit_ms(commit: Commit) -> int:
    """The commit's timestamp in milliseconds since the epoch."""
    return round(commit.timestamp.timestamp() * 1000)


def taken_back(commits: Sequence[Commit]) -> frozenset[int]:
    """The versions that a later RESTORE has undone, and those of such RESTOREs.

    A RESTORE to a time is a change like any other: it does not say what it has undone.
    """
    found, top = set[int](), None
    for one in reversed(commits):
        if top is not None and one.version > top:
            found.add(one.version)
        elif one.operation == RESTORE and one.restored_to is not None:
            found.add(one.version)
            top = one.restored_to
    return frozenset(found)


def by_others(log: TableLog) -> Sequence[TableCommit]:
    """The commits of other programs whose changes the newest version may have."""
    gone = taken_back([one.commit for one in log.commits])
    rebuilt = max((one.version for one in log.commits if one.is_rebuilt), default=-1)
    return [
        one for one in log.commits if one.is_foreign and one.version > rebuilt and one.version not in gone
    ]


def foreign_commits(log: TableLog) -> Iterator[str]:
    """Descriptions of the commits of other programs."""
    for one in by_others(log):
        at = utc_text(one.commit.timestamp)
        yield f"{log.table} version {one.version}, {one.commit.operation}, {at}"


def changed_as_declared(silver: Silver, log: TableLog) -> str:
    """Which version of another program has changed rows, where that is declared, in words."""
    if silver.storage.foreign != "changes":
        return ""
    theirs = (one.version for one in by_others(log) if one.commit.removed)
    first = next(theirs, None)
    return "" if first is None else f"version {first} of another program has changed rows (foreign='changes')"


def foreign_rows(log: TableLog) -> int | None:
    """How many rows other programs have appended and left; None where the log does not say it."""
    theirs = [one for one in log.commits if one.is_foreign]
    gone = taken_back([one.commit for one in log.commits])
    known = [one.commit.rows for one in theirs if one.version not in gone and not one.commit.removed]
    if not log.is_whole or None in known:
        return None
    return sum(rows or 0 for rows in known)


def put_back(log: TableLog) -> str:
    """What to type to take back the newest commits of a table that another program has written; empty where
    its newest commit is the engine's, or they are taken back.
    """
    first, others = None, {one.version for one in by_others(log)}
    gone = taken_back([one.commit for one in log.commits])
    for one in reversed(log.commits):
        if one.version in others:
            first = one.version
        elif (one.commit.added or one.commit.removed) and one.version not in gone:
            break
    if first is None or first == 0:
        return ""
    return f"To put it back as it was, in SQL: RESTORE TABLE delta.`{log.path}` TO VERSION AS OF {first - 1}"


def utc_text(moment: datetime) -> str:
    """A UTC time in the form that messages use."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
