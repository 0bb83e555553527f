"""What the logs of a silver table and of the bronze table it reads say happened; without Spark.

Each micro-batch's commit tells its number, its counts and how far it read. From these come the versions
an audit looks at, the offsets it must find, and the faults that the logs alone show. Nothing here writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from common.checkpoint import Checkpoint, DeltaPosition
from common.declare import Silver
from common.delta_commit import Commit
from common.delta_log import LogReader
from common.layout import Layout

Partition = tuple[str, int]
"""A topic and one of its partitions."""

Positions = Mapping[Partition, int]
"""The next offset to read, per topic and partition."""

FATES = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late")
"""The counts of a micro-batch of silver that together are the rows it read."""


@dataclass(frozen=True, slots=True)
class Told:
    """A commit, and what its metadata says of it; ``batch_id`` is None outside a query's micro-batches."""

    commit: Commit
    facts: Mapping[str, Any]
    query_id: str | None = None
    batch_id: int | None = None
    step: str = ""

    @property
    def version(self) -> int:
        """The commit's number."""
        return self.commit.version

    @property
    def by(self) -> str:
        """Who made it outside the micro-batches, as ``common.delta.note`` says; empty otherwise."""
        return "" if self.batch_id is not None else str(self.facts.get("by", ""))

    @property
    def counts(self) -> Mapping[str, Any]:
        """What became of the rows."""
        counts = self.facts.get("counts")
        return counts if isinstance(counts, dict) else {}

    @property
    def is_foreign(self) -> bool:
        """It has rows, and is neither a micro-batch's nor tagged as one of the engine's own."""
        return bool(self.commit.added or self.commit.removed) and self.batch_id is None and not self.by


@dataclass(frozen=True, slots=True)
class TableLog:
    """The commits of one table that an audit covers, oldest first."""

    table: str
    path: str
    commits: tuple[Told, ...]
    is_whole: bool

    @property
    def version(self) -> int | None:
        """The newest version covered, None where there is no table."""
        return self.commits[-1].version if self.commits else None

    def until(self, end: int | None) -> TableLog:
        """The same, without what came after a version."""
        if end is None:
            return self
        return TableLog(
            self.table, self.path, tuple(one for one in self.commits if one.version <= end), self.is_whole
        )

    def since(self, start: int) -> tuple[Told, ...]:
        """The commits after a version."""
        return tuple(one for one in self.commits if one.version > start)

    def steps(self, step: str) -> tuple[Told, ...]:
        """The micro-batches' commits of one step."""
        return tuple(one for one in self.commits if one.batch_id is not None and one.step == step)


@dataclass(frozen=True, slots=True)
class Pins:
    """The moment an audit looks at: one micro-batch of silver that is complete in all its tables.

    Attributes:
        logs: Per table (``bronze``, ``silver``, ``quarantine``, ``late``), what came up to it.
        batch: The micro-batch's commit in silver; None before the first.
        position: How far silver has read bronze; None before the first micro-batch.
        is_loading: A first load has begun and is not done: what it has yet to write is waiting.
        faults: What is amiss with the commits themselves, in words.
    """

    bronze: TableLog
    silver: TableLog
    quarantine: TableLog
    late: TableLog
    batch: Told | None
    position: DeltaPosition | None
    is_loading: bool = False
    faults: tuple[str, ...] = field(default=())

    @property
    def tables(self) -> tuple[TableLog, ...]:
        """All four."""
        return (self.bronze, self.silver, self.quarantine, self.late)


def read_log(table: str, path: str, query: str) -> TableLog:
    """Every commit that a table's log still has."""
    log = LogReader(path)
    oldest = log.oldest_version()
    if oldest is None:
        return TableLog(table, path, (), is_whole=True)
    return TableLog(table, path, tuple(told(one, query) for one in log.commits(oldest)), oldest == 0)


def told(commit: Commit, query: str) -> Told:
    """A commit with what its metadata says, if that is the engine's."""
    try:
        facts = json.loads(commit.user_metadata or "null")
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        return Told(commit, {})
    if facts.get("query") == query and isinstance(facts.get("batch_id"), int):
        return Told(commit, facts, facts.get("query_id"), facts["batch_id"], str(facts.get("step", "")))
    return Told(commit, facts)


def pin(silver: Silver, layout: Layout) -> Pins:
    """The newest moment at which every table holds whole micro-batches only, however they move meanwhile.

    A micro-batch writes silver, then its late rows, then quarantine. The newest one counts where its
    checkpoint, or the tables, say that all of this is done; else the audit looks at the one before.
    """
    # In this order: what the checkpoint calls done is in every table that is read after it, and silver is
    # written before the tables beside it, so that they never seem to be ahead of it.
    checkpoint = Checkpoint(layout.checkpoint_path(silver.table))
    query_id, done = checkpoint.query_id(), checkpoint.last_committed()
    aside = read_log(silver.quarantine, layout.table_path(silver.quarantine), silver.table)
    late = read_log(silver.late_table, layout.table_path(silver.late_table), silver.table)
    mine = read_log(silver.table, layout.table_path(silver.table), silver.table)
    bronze = read_log(silver.reads, layout.table_path(silver.reads), silver.reads)
    batches = sorted(mine.steps("accepted"), key=lambda one: one.batch_id or 0)
    faults = list(_lost(silver, batches, (*aside.commits, *late.commits), query_id, done))
    batch = None
    for place, one in reversed(list(enumerate(batches))):
        is_done = done is not None and one.query_id == query_id and done >= (one.batch_id or 0)
        if is_done or _is_complete(silver, one, mine, aside, late):
            batch = one
            break
        mine, aside, late = (_before(batches[place], log) for log in (mine, aside, late))
    position, is_loading = _position(batch, mine)
    return Pins(bronze, mine, aside, late, batch, position, is_loading, tuple(faults))


def _position(batch: Told | None, silver: TableLog) -> tuple[DeltaPosition | None, bool]:
    """How far silver has read, and whether a first load is under way."""
    if batch is not None:
        return delta_position(batch), False
    loads = [one for one in silver.commits if one.by == "first load"]
    if not loads:
        return None, False
    facts = loads[-1].facts
    position = DeltaPosition(int(facts["bronze_version"]) + 1, -1, "", in_snapshot=False)
    return position, len({one.facts.get("bucket") for one in loads}) < int(facts.get("of", 0))


def _before(batch: Told, log: TableLog) -> TableLog:
    """A table's log as it was before a micro-batch touched silver.

    What the engine itself moved between the tables since then is left out of each of them alike.
    """
    kept: list[Told] = []
    for one in log.commits:
        if one.batch_id is not None and one.batch_id >= (batch.batch_id or 0):
            break
        if one.version > 0 and one.by and one.commit.timestamp >= batch.commit.timestamp:
            break
        kept.append(one)
    return TableLog(log.table, log.path, tuple(kept), log.is_whole)


def _is_complete(silver: Silver, batch: Told, mine: TableLog, aside: TableLog, late: TableLog) -> bool:
    """Whether the tables hold every step of a micro-batch."""

    def has(log: TableLog, step: str) -> bool:
        return any(one.batch_id == batch.batch_id for one in log.steps(step))

    counts = batch.counts
    if counts.get("quarantined", 0) + counts.get("dropped", 0) and not has(aside, "quarantine"):
        return False
    if not counts.get("late", 0):
        return True
    return has(late, "late") and (silver.late == "keep" or has(mine, "late"))


def _lost(
    silver: Silver,
    batches: Sequence[Told],
    others: Sequence[Told],
    query_id: str | None,
    committed: int | None,
) -> Iterator[str]:
    """Micro-batches that silver should have a commit of, and has none."""
    yield from missing_batches(silver.table, batches)
    newest = batches[-1] if batches else None
    last = -1 if newest is None else newest.batch_id or 0
    beyond = max((one.batch_id for one in others if one.batch_id is not None), default=-1)
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


def missing_batches(table: str, batches: Sequence[Told]) -> Iterator[str]:
    """Numbers that are skipped between a query's commits."""
    for before, after in pairwise(batches):
        if before.query_id != after.query_id:
            continue
        first, last = (before.batch_id or 0) + 1, (after.batch_id or 0) - 1
        if first <= last:
            which = f"micro-batch {first}" if first == last else f"micro-batches {first} to {last}"
            yield f"{table} has no commit of {which}, between versions {before.version} and {after.version}"


def delta_position(batch: Told) -> DeltaPosition | None:
    """How far a silver micro-batch has read bronze, as its commit says."""
    for source in batch.facts.get("positions", ()):
        if isinstance(source, dict) and "reservoirVersion" in source:
            return DeltaPosition(
                int(source["reservoirVersion"]),
                int(source["index"]),
                str(source["reservoirId"]),
                bool(source["isStartingVersion"]),
            )
    return None


def kafka_positions(batch: Told) -> dict[Partition, int]:
    """The next offset of each partition after a bronze micro-batch, as its commit says."""
    return {
        (topic, int(partition)): int(end)
        for source in batch.facts.get("positions", ())
        if isinstance(source, dict)
        for topic, partitions in source.items()
        if isinstance(partitions, dict)
        for partition, end in partitions.items()
    }


@dataclass(frozen=True, slots=True)
class BronzeReach:
    """Which offsets bronze has read, as its commits say.

    Attributes:
        ends: The next offset per partition after the newest micro-batch.
        cut: The same after the last micro-batch that silver has processed, or has begun to.
        begun: Per partition the micro-batch that first spoke of it: there is its first offset.
        is_told: Every commit with rows says its positions; else the rows themselves are all that is known.
    """

    ends: dict[Partition, int]
    cut: dict[Partition, int]
    begun: dict[Partition, Told]
    is_told: bool


def bronze_reach(bronze: TableLog, position: DeltaPosition | None) -> BronzeReach:
    """What bronze's commits say of the offsets it has read, and how many of them silver has processed."""
    ends: dict[Partition, int] = {}
    cut: dict[Partition, int] = {}
    begun: dict[Partition, Told] = {}
    told_all = True
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


def foreign(log: TableLog) -> Iterator[str]:
    """Commits with rows that the engine did not make, in words."""
    for one in log.commits:
        if one.is_foreign:
            yield f"{log.table} version {one.version}, {one.commit.operation}, {shown(one.commit.timestamp)}"


def shown(moment: datetime) -> str:
    """A moment as people read it, UTC."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
