"""The account of every offset of a silver table's topics, from the tables, their logs and checkpoints alone.

Offsets that bronze has read = silver + duplicates + late + quarantine + dropped + tombstones + erased
+ waiting, each in exactly one; and the micro-batches' own counts say the same. No broker is asked.

It may run while the jobs do: it looks at the newest micro-batch that is complete in every table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from common.checkpoint import DeltaPosition
from common.declare import Pipeline, Silver, Topic
from common.delta_commit import Added
from common.delta_log import LogReader
from common.errors import TableMissingError, UsageError, nearest
from common.folder import Folder
from common.layout import Layout
from orchestration import audit_counts
from orchestration.audit_log import (
    BronzeReach,
    Partition,
    Pins,
    TableLog,
    Told,
    bronze_reach,
    foreign,
    is_begun,
    is_read,
    missing_batches,
    pin,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orchestration.audit_rows import Range, Sources

SHOWN = 20
"""Coordinates that a fault names; its count is of all."""

FATES = (
    "silver",
    "duplicates",
    "late",
    "quarantine",
    "dropped",
    "tombstones",
    "erased",
    "gaps",
    "waiting",
)
"""The places an offset may be in; ``gaps`` only where the topic is declared to have them."""

_AGAIN_SECONDS = 5.0
_TRIES = 3

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that does not balance.

    Attributes:
        name: ``missing``, ``twice``, ``unknown``, ``no witness``, ``gap``, ``counts`` or ``lost commit``.
        text: What it means here, in words.
        count: Offsets concerned; 1 for a fault of counts or commits.
        examples: The first of them as topic, partition, offset.
    """

    name: str
    text: str
    count: int = 1
    examples: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionAccount:
    """One partition: offsets from ``first`` to before ``end``, and how many are in each place."""

    topic: str
    partition: int
    first: int
    end: int
    counts: Mapping[str, int]

    @property
    def offsets(self) -> int:
        """Offsets that are to be accounted for."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one silver table.

    Attributes:
        versions: Per table the version that was read.
        batch_id: The newest micro-batch of silver that it covers; None before the first.
        since: From where on it looked: empty for all there is.
        partitions: Ordered by topic and partition.
        faults: Empty where it balances.
        notes: What could not be looked at, in words.
        seconds: How long it took.
    """

    table: str
    reads: str
    versions: Mapping[str, int]
    batch_id: int | None
    since: str
    partitions: tuple[PartitionAccount, ...]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def offsets(self) -> int:
        """Offsets of all partitions."""
        return sum(one.offsets for one in self.partitions)

    @property
    def totals(self) -> dict[str, int]:
        """Offsets per place."""
        return {name: sum(one.counts.get(name, 0) for one in self.partitions) for name in FATES}


def chosen(pipeline: Pipeline, table: str | None) -> tuple[Silver, ...]:
    """The silver tables to audit: one by name, or all.

    Raises:
        UsageError: There is no such silver table.
    """
    named = {each.table: each for each in pipeline.silver}
    if table is None:
        return tuple(pipeline.silver)
    if table not in named and f"silver.{table}" not in named:
        raise UsageError(f"{table} is no silver table of {pipeline.name}; {nearest(table, named)}")
    return (named.get(table) or named[f"silver.{table}"],)


def audit(  # noqa: PLR0913  # what it reads, and how it tells of itself
    spark: SparkSession,
    pipeline: Pipeline,
    silver: Silver,
    layout: Layout,
    *,
    say: Say = lambda text: None,
    again_seconds: float = _AGAIN_SECONDS,
) -> Account:
    """The account of one silver table, from its beginning.

    Where it does not balance while the tables move, it looks again: rows that are on their way from one
    table to another (a replay of quarantined rows) are in neither or in both for a moment.

    Raises:
        TableMissingError: Bronze does not exist yet.
    """
    topic = next(each for each in pipeline.bronze if each.table == silver.reads)
    for left in reversed(range(_TRIES)):
        found = _once(spark, topic, silver, layout, say)
        if not found.faults or not left or not _has_moved(found, layout):
            break
        say(f"{silver.table}: it did not balance, but its tables moved meanwhile: looking again")
        time.sleep(again_seconds)
    return found


def _has_moved(found: Account, layout: Layout) -> bool:
    return any(
        LogReader(layout.table_path(table)).latest_version() != version
        for table, version in found.versions.items()
    )


def _once(spark: SparkSession, topic: Topic, silver: Silver, layout: Layout, say: Say) -> Account:
    began = time.monotonic()
    say(f"{silver.table}: reading the logs")
    pins = pin(silver, layout)
    if pins.bronze.version is None:
        raise TableMissingError(silver.reads, pins.bronze.path, "Fill it first: medallion run bronze.")
    work = _Work(spark, topic, silver, pins, say)
    partitions = work.partitions()
    versions = {log.table: log.version for log in pins.tables if log.version is not None}
    return Account(
        table=silver.table,
        reads=silver.reads,
        versions=versions,
        batch_id=None if pins.batch is None else pins.batch.batch_id,
        since="",
        partitions=partitions,
        faults=tuple(work.faults),
        notes=tuple(work.notes),
        seconds=time.monotonic() - began,
    )


@dataclass
class _Work:
    """One look at one silver table's rows; collects faults as it goes."""

    spark: SparkSession
    topic: Topic
    silver: Silver
    pins: Pins
    say: Say
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def partitions(self) -> tuple[PartitionAccount, ...]:
        """The account per partition."""
        from pyspark import StorageLevel  # noqa: PLC0415  # loaded when it is used

        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above

        pins, silver = self.pins, self.silver
        reach = bronze_reach(pins.bronze, pins.position)
        sources = _sources(pins, reach)
        ranges = self._ranges(reach, sources)
        self._log_faults(reach, ranges)
        self.say(f"{silver.table}: {sum(one.end - one.first for one in ranges.values()):,} offsets")
        found = rows.placed(
            self.spark,
            sources,
            ranges,
            merges_late=silver.late == "merge",
            is_loading=pins.is_loading,
        ).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return self._accounted(found, sources, ranges)
        finally:
            found.unpersist()

    def _accounted(
        self, found: DataFrame, sources: Sources, ranges: Mapping[Partition, Range]
    ) -> tuple[PartitionAccount, ...]:
        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above

        counts: dict[Partition, dict[str, int]] = {place: {} for place in ranges}
        held = dict.fromkeys(("silver", "late", "quarantine"), 0)
        present: dict[Partition, int] = {}
        seen: dict[str, int] = {}
        outside = absent = 0
        for row in rows.summed(found):
            place = (str(row["topic"]), int(row["partition"]))
            held["silver"] += row["in_silver"]
            held["late"] += row["in_late"]
            held["quarantine"] += row["in_quarantine"] + row["in_dropped"]
            fate = row[rows.FATE]
            seen[fate] = seen.get(fate, 0) + row["offsets"]
            present[place] = present.get(place, 0) + row["offsets"]
            mine = counts.setdefault(place, {})
            if row[rows.IS_ABSENT]:
                absent += row["offsets"]
            elif fate in FATES:
                mine[fate] = mine.get(fate, 0) + row["offsets"]
            within = ranges.get(place)
            if within is None or row["low"] < within.first or row["high"] >= within.end:
                outside += row["offsets"]
        self._twice(found, seen)
        self._valueless(sources)
        if seen.get(rows.REST) or (seen.get("late") and self.silver.late == "merge"):
            self._rest(found, sources, counts, seen)
        if outside:
            self._outside(found, ranges)
        lacking = any(one.end - one.first > present.get(place, 0) for place, one in ranges.items())
        if absent or lacking or outside:
            self._absent(found, ranges, counts)
        after = dict.fromkeys(("silver", "late", "quarantine"), -1)
        self._tell("counts", audit_counts.table_faults(self.pins, held, after))
        partitions = tuple(
            PartitionAccount(*place, one.first, one.end, counts[place])
            for place, one in sorted(ranges.items())
        )
        totals = {name: sum(one.counts.get(name, 0) for one in partitions) for name in FATES}
        self._tell("counts", audit_counts.fate_faults(self.pins, self.silver, totals, -1))
        return partitions

    def _ranges(self, reach: BronzeReach, sources: Sources) -> dict[Partition, Range]:
        """Which offsets are to be accounted for."""
        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above

        bronze = self.pins.bronze
        if reach.is_told:
            looked = {one.version: one for one in reach.begun.values()}
            files = tuple(file for one in looked.values() for file in one.commit.added)
            is_there = bronze.is_whole and _are_there(bronze, files)
            lows = _ends(self.spark, bronze, files if is_there else None)
            firsts = {place: lows.get(place, (end, end))[0] for place, end in reach.ends.items()}
            known = dict(reach.ends)
        else:
            lows = _ends(self.spark, bronze, None)
            firsts = {place: low for place, (low, _) in lows.items()}
            known = {place: max(high + 1, reach.ends.get(place, 0)) for place, (_, high) in lows.items()}
        if not bronze.is_whole:
            self.notes.append(f"{bronze.table}: its log no longer begins at its first commit")
        ranges = {}
        for place, end in known.items():
            cut = _cut(self.pins.position, reach, place, firsts[place], is_loading=self.pins.is_loading)
            ranges[place] = rows.Range(firsts[place], cut, end)
        return ranges

    def _log_faults(self, reach: BronzeReach, ranges: Mapping[Partition, Range]) -> None:
        pins = self.pins
        self._tell("lost commit", pins.faults)
        own = [one for one in pins.bronze.commits if one.batch_id is not None]
        self._tell("lost commit", missing_batches(pins.bronze.table, own))
        firsts = {place: one.first for place, one in ranges.items()}
        found = audit_counts.bronze_faults(
            pins.bronze, reach, firsts, after=-1, may_have_gaps=self.topic.may_have_gaps
        )
        self._tell("counts", found)
        self._tell("counts", audit_counts.batch_faults(pins, self.silver, -1, None))

    def _tell(self, name: str, texts: Iterator[str] | tuple[str, ...]) -> None:
        self.faults += [Fault(name, text) for text in texts]

    def _found(self, name: str, text: str, frame: DataFrame, count: int | None = None) -> None:
        """A fault with its coordinates, if there are any."""
        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above

        count = frame.count() if count is None else count
        if count:
            self.faults.append(Fault(name, text, count, rows.examples(frame, SHOWN)))

    def _twice(self, found: DataFrame, seen: Mapping[str, int]) -> None:
        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above

        if seen.get(rows.TWICE):
            for where, frame in rows.doubled(found):
                self._found("twice", where, frame)

    def _valueless(self, sources: Sources) -> None:
        """Tombstones that were quarantined: they belong into bronze alone."""
        aside = sources.quarantine.rows(self.spark)
        if aside is not None and {"verdict", "value"} <= set(aside.columns):
            odd = aside.where("verdict = 'quarantine' and value is null")
            self._found("twice", f"a record without a value is in {self.silver.quarantine} too", odd)

    def _outside(self, found: DataFrame, ranges: Mapping[Partition, Range]) -> None:
        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above

        beyond = rows.outside(self.spark, found, ranges).where(f"not {rows.IS_ABSENT}")
        self._found(
            "unknown", f"in {self.silver.reads}, but none of its commits tells of having read it", beyond
        )

    def _rest(
        self,
        found: DataFrame,
        sources: Sources,
        counts: dict[Partition, dict[str, int]],
        seen: Mapping[str, int],
    ) -> None:
        """Tombstones and duplicates, and late rows that were not merged: each with its witness."""
        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above
        from orchestration import audit_witness as witness  # noqa: PLC0415  # see above

        spark, silver = self.spark, self.silver
        accepted, bronze = sources.silver.rows(spark), sources.bronze.rows(spark)
        self.say(f"{silver.table}: looking up {seen.get(rows.REST, 0):,} rows that are in no table")
        if seen.get(rows.REST) and bronze is not None:
            rest = found.where(f"{rows.FATE} = '{rows.REST}' and not {rows.IS_ABSENT}")
            typed = witness.looked_up(bronze, rest, silver).persist()
            lone = witness.alone(
                witness.unwitnessed(typed.where(f"not {witness.IS_TOMBSTONE}"), accepted, silver)
            ).persist()
            _add(counts, "tombstones", typed.where(witness.IS_TOMBSTONE))
            _add(counts, "duplicates", typed.where(f"not {witness.IS_TOMBSTONE}"))
            _add(counts, "duplicates", lone, -1)
            self._found(
                "missing",
                f"in {silver.reads} and processed, but in no table, and no row of {silver.table} has its key",
                lone.where("is_first"),
            )
            self._found(
                "no witness",
                f"a duplicate of a row that is missing itself: no row of {silver.table} has its key",
                lone.where("not is_first"),
            )
            lone.unpersist()
            typed.unpersist()
        late = sources.late.rows(spark)
        if seen.get("late") and silver.late == "merge" and late is not None:
            only = found.where(f"{rows.FATE} = 'late'")
            lone = witness.unwitnessed(witness.late_keys(late, only, silver), accepted, silver)
            self._found("no witness", f"late and not merged, but no row of {silver.table} has its key", lone)

    def _absent(
        self, found: DataFrame, ranges: Mapping[Partition, Range], counts: dict[Partition, dict[str, int]]
    ) -> None:
        """Offsets that bronze does not hold: erased by the engine, gaps that are allowed, or faults."""
        from orchestration import audit_rows as rows  # noqa: PLC0415  # see above

        spark, bronze = self.spark, self.pins.bronze
        elsewhere = found.where(rows.IS_ABSENT).select(*rows.PLACE, rows.FATE)
        nowhere = rows.gaps(spark, found, ranges).select(*rows.PLACE, rows.null_fate())
        lacking = elsewhere.unionAll(nowhere).persist()
        gone = _erasures(bronze)
        removed = tuple(file for one in gone for file in one.commit.removed)
        added = tuple(file for one in gone for file in one.commit.added)
        if removed and _are_there(bronze, (*removed, *added)):
            ours = rows.erased(spark, bronze, lacking, removed, added)
        elif removed and self._explains(gone, lacking.count()):
            ours = lacking.select(*rows.PLACE)
        else:
            ours = lacking.select(*rows.PLACE).limit(0)
        ours = ours.persist()
        explained = lacking.join(ours, list(rows.PLACE), "left_semi")
        for row in explained.groupBy("topic", "partition", rows.FATE).count().collect():
            fate = row[rows.FATE] or "erased"
            if fate in FATES:
                mine = counts.setdefault((str(row["topic"]), int(row["partition"])), {})
                mine[fate] = mine.get(fate, 0) + row["count"]
        rest = lacking.join(ours, list(rows.PLACE), "left_anti").persist()
        self._found(
            "unknown",
            f"in silver, late or quarantine, but {bronze.table} does not hold it, and no erasure says so"
            + _changed(bronze),
            rest.where(f"{rows.FATE} is not null and {rows.FATE} <> '{rows.TWICE}'"),
        )
        empty = rest.where(f"{rows.FATE} is null")
        if self.topic.may_have_gaps:
            _add(counts, "gaps", empty)
        else:
            self._found(
                "gap",
                f"{bronze.table} has read past it and does not hold it, and no erasure says so"
                + _changed(bronze),
                empty,
            )
        for frame in (rest, ours, lacking):
            frame.unpersist()

    def _explains(self, gone: list[Told], lacking: int) -> bool:
        """Whether erasures whose files are vacuumed took out as many rows as are lacking."""
        taken = [file.rows for one in gone for file in one.commit.removed]
        put = [file.rows for one in gone for file in one.commit.added]
        erased = None if None in taken or None in put else sum(map(int, taken)) - sum(map(int, put))  # type: ignore[arg-type]
        self.notes.append(
            f"{self.pins.bronze.table}: files that an erasure rewrote are vacuumed; it took out "
            f"{'an unknown number of' if erased is None else f'{erased:,}'} rows, and {lacking:,} are lacking"
        )
        return erased is None or lacking <= erased


def _sources(pins: Pins, reach: BronzeReach) -> Sources:
    from orchestration.audit_rows import Source, Sources  # noqa: PLC0415  # see above

    return Sources(
        bronze=Source(pins.bronze),
        silver=Source(pins.silver),
        late=Source(pins.late),
        quarantine=Source(pins.quarantine),
        waiting=_waiting(pins.bronze, reach, pins.position),
    )


def _waiting(bronze: TableLog, reach: BronzeReach, position: DeltaPosition | None) -> tuple[Added, ...]:
    """Files whose rows silver has not processed, where their offsets alone do not say so."""
    if position is None:
        return ()
    files: list[Added] = []
    for one in bronze.commits:
        if one.commit.is_change or is_read(one.commit, position):
            continue
        begun = is_begun(one.commit, position)
        if begun or not reach.is_told:
            files += one.commit.added[position.index + 1 if begun else 0 :]
    return tuple(files)


def _cut(
    position: DeltaPosition | None, reach: BronzeReach, place: Partition, first: int, *, is_loading: bool
) -> int:
    """The first offset of a partition that silver has certainly not processed."""
    from orchestration.audit_rows import NEVER  # noqa: PLC0415  # see above

    if position is None:
        return first
    return reach.cut.get(place, first) if reach.is_told else NEVER


def _erasures(bronze: TableLog) -> list[Told]:
    return [one for one in bronze.commits if one.commit.is_change and one.by in {"erasure", "repair"}]


def _changed(bronze: TableLog) -> str:
    found = list(foreign(bronze))
    return f"; written by someone else: {'; '.join(found[:3])}" if found else ""


def _are_there(log: TableLog, files: tuple[Added, ...]) -> bool:
    """Whether data files are still on disk."""
    for file in files:
        folder, _, name = file.within(log.path).rpartition("/")
        if not Folder(folder).exists(name):
            return False
    return True


def _ends(
    spark: SparkSession, bronze: TableLog, files: tuple[Added, ...] | None
) -> dict[Partition, tuple[int, int]]:
    """The lowest and the highest offset per partition, of some files or of the whole table."""
    from pyspark.sql import functions as F  # noqa: PLC0415  # see above

    from orchestration.audit_rows import Source  # noqa: PLC0415  # see above

    frame = Source(bronze, files).rows(spark)
    if frame is None:
        return {}
    ends = frame.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset")).collect()
    return {(str(row[0]), int(row[1])): (int(row[2]), int(row[3])) for row in ends}


def _add(counts: dict[Partition, dict[str, int]], fate: str, frame: DataFrame, sign: int = 1) -> None:
    for row in frame.groupBy("topic", "partition").count().collect():
        mine = counts.setdefault((str(row["topic"]), int(row["partition"])), {})
        mine[fate] = mine.get(fate, 0) + sign * int(row["count"])
