"""What the logs of a silver table and of the bronze table it reads say happened; without Spark.

Each micro-batch's commit tells its number, its counts and how far it read. From these come the versions
an audit looks at, the offsets it must find, and the faults that the logs alone show. Nothing here writes.
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
from common.delta.checkpoint import Checkpoint, DeltaPosition
from common.delta.commit import Commit
from common.delta.log import LogReader

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
        """Who made it outside the micro-batches, as ``common.delta.table.note`` says; empty otherwise."""
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
    """The commits of one table that an audit covers, oldest first.

    Attributes:
        is_whole: None of those that were asked for is gone.
        base: The version before the first that was asked for; None for the whole log.
    """

    table: str
    path: str
    commits: tuple[Told, ...]
    is_whole: bool
    base: int | None = None

    @property
    def version(self) -> int | None:
        """The newest version covered, None where there is no table."""
        return self.commits[-1].version if self.commits else self.base

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


def read_log(table: str, path: str, query: str, first: int = 0) -> TableLog:
    """Every commit that a table's log still has, from ``first`` on."""
    log = LogReader(path)
    oldest = log.oldest_version()
    if oldest is None:
        return TableLog(table, path, (), is_whole=True)
    commits = log.commits(max(oldest, first))
    base = first - 1 if first > 0 else None
    return TableLog(table, path, tuple(told(one, query) for one in commits), oldest <= first, base)


def told(commit: Commit, query: str) -> Told:
    """A commit with what its metadata says, if that is the engine's."""
    facts = commit.metadata
    if facts.get("query") == query and isinstance(facts.get("batch_id"), int):
        return Told(commit, facts, facts.get("query_id"), facts["batch_id"], str(facts.get("step", "")))
    return Told(commit, facts)


def pin(
    silver: Silver, layout: Layout, firsts: Mapping[str, int] = MappingProxyType({}), last: int = -1
) -> Pins:
    """The newest moment at which every table holds whole micro-batches only, however they move meanwhile.

    A micro-batch writes silver, then its late rows, then quarantine. The newest one counts where its
    checkpoint, or the tables, say that all of this is done; else the audit looks at the one before.

    Args:
        silver: The declaration.
        layout: Where its tables are.
        firsts: Per table the first commit that matters.
        last: The micro-batch of silver before these.
    """

    def log(table: str, query: str = silver.table) -> TableLog:
        return read_log(table, layout.table_path(table), query, firsts.get(table, 0))

    # In this order: what the checkpoint calls done is in every table that is read after it, and silver is
    # written before the tables beside it, so that they never seem to be ahead of it.
    checkpoint = Checkpoint(layout.checkpoint_path(silver.table))
    query_id, done = checkpoint.query_id(), checkpoint.last_committed()
    aside = log(silver.quarantine)
    late = log(silver.late_table)
    mine = log(silver.table)
    bronze = log(silver.reads, silver.reads)
    batches = mine.steps("accepted")
    beside = (*aside.commits, *late.commits)
    faults = list(_lost(silver, batches, beside, query_id, done, last))
    batch = None
    for one in reversed(batches):
        is_done = done is not None and one.query_id == query_id and done >= (one.batch_id or 0)
        if is_done or _is_complete(one, mine, aside, late):
            batch = one
            break
        mine, aside, late = (before(one, each) for each in (mine, aside, late))
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


def before(batch: Told, log: TableLog) -> TableLog:
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
    return replace(log, commits=tuple(kept))


def _is_complete(batch: Told, mine: TableLog, aside: TableLog, late: TableLog) -> bool:
    """Whether the tables hold every step of a micro-batch."""

    def has(log: TableLog, step: str) -> bool:
        return any(one.batch_id == batch.batch_id for one in log.steps(step))

    counts = batch.counts
    if counts.get("quarantined", 0) + counts.get("dropped", 0) and not has(aside, "quarantine"):
        return False
    if not counts.get("late", 0):
        return True
    return has(late, "late") and (not counts.get("merged", 0) or has(mine, "late"))


def _lost(  # noqa: PLR0913, PLR0917  # all that may tell of a commit
    silver: Silver,
    batches: Sequence[Told],
    others: Sequence[Told],
    query_id: str | None,
    committed: int | None,
    last: int,
) -> Iterator[str]:
    """Micro-batches that silver should have a commit of, and has none."""
    yield from missing_batches(silver.table, batches)
    newest = batches[-1] if batches else None
    last = last if newest is None else newest.batch_id or 0
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


def made_ms(commit: Commit) -> int:
    """When a commit was made, milliseconds since the epoch."""
    return round(commit.timestamp.timestamp() * 1000)


def foreign(log: TableLog) -> Iterator[str]:
    """Commits with rows that the engine did not make, in words."""
    for one in log.commits:
        if one.is_foreign:
            yield f"{log.table} version {one.version}, {one.commit.operation}, {shown(one.commit.timestamp)}"


def shown(moment: datetime) -> str:
    """A moment as people read it, UTC."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
