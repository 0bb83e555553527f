"""One look at one silver table: what its offsets and its commits say, and every fault of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from common.config.driver_limits import DriverLimits
from common.declare import Silver, Topic
from common.rows.rows import Rows, SparkRows
from orchestration.audit import batch_counts
from orchestration.audit import duplicate_witness as witness
from orchestration.audit import row_places as rows
from orchestration.audit.account import FATES, SHOWN, Fault, PartitionAccount
from orchestration.audit.last_audit import Start
from orchestration.audit.offset_ranges import (
    BronzeReach,
    all_sources,
    are_there,
    bronze_reach,
    cut_of,
    lowest_and_highest,
    touched,
)
from orchestration.audit.row_places import Range, Source, Sources
from orchestration.audit.table_log import (
    Partition,
    Pins,
    TableLog,
    Told,
    foreign,
    kafka_positions,
    missing_batches,
)
from silver.judge.rules import NULL_EVENT_TIME, NULL_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]

_FEW = DriverLimits(rows=20_000)
"""So many rows come to the driver: what is asked of them next is asked there, without another shuffle."""


@dataclass
class Work:
    """One look at one silver table's rows; collects faults as it goes."""

    spark: SparkSession
    topic: Topic
    silver: Silver
    pins: Pins
    say: Say
    start: Start | None = None
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def partitions(self) -> tuple[PartitionAccount, ...]:
        """The account per partition."""
        pins, silver = self.pins, self.silver
        reach = bronze_reach(pins.bronze, pins.position, self.start.cut if self.start else {})
        sources = all_sources(pins, reach, self.start)
        ranges = self._ranges(reach, sources)
        self._log_faults(reach, ranges)
        self.say(f"{silver.table}: {sum(one.end - one.first for one in ranges.values()):,} offsets")
        placed = rows.placed(
            self.spark,
            sources,
            ranges,
            merges_late=silver.late == "merge",
            is_loading=pins.is_loading,
        )
        with SparkRows(placed, None, _FEW).kept(whole=True) as found:
            return self._accounted(found.frame, sources, ranges)

    def _accounted(
        self, found: DataFrame, sources: Sources, ranges: Mapping[Partition, Range]
    ) -> tuple[PartitionAccount, ...]:

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
        logs = {"silver": self.pins.silver, "late": self.pins.late, "quarantine": self.pins.quarantine}
        after = {name: self.start.version(log.table) if self.start else -1 for name, log in logs.items()}
        for log, text in batch_counts.table_faults(self.pins, held, after):
            self._miscounted(log, text)
        partitions = tuple(
            PartitionAccount(*place, one.first, one.end, counts[place])
            for place, one in sorted(ranges.items())
        )
        totals = {name: sum(one.counts.get(name, 0) for one in partitions) for name in FATES}
        self._tell("counts", batch_counts.fate_faults(self.pins, self.silver, totals, after["silver"]))
        return partitions

    def _ranges(self, reach: BronzeReach, sources: Sources) -> dict[Partition, Range]:
        """Which offsets are to be accounted for."""
        bronze = self.pins.bronze
        if reach.is_told:
            looked = {one.version: one for one in reach.begun.values()}
            files = tuple(file for one in looked.values() for file in one.commit.added)
            is_there = bronze.is_whole and are_there(bronze, files)
            lows = lowest_and_highest(self.spark, bronze, files if is_there else None) if looked else {}
            known_firsts = self.start.cut if self.start else {}
            # A partition that had no record yet begins where the first micro-batch that names it left it.
            told = {place: kafka_positions(one)[place] for place, one in reach.begun.items()}
            firsts = {
                place: known_firsts.get(place, lows.get(place, (told.get(place, end),))[0])
                for place, end in reach.ends.items()
            }
            known = dict(reach.ends)
        else:
            lows = lowest_and_highest(self.spark, bronze, None)
            firsts = {place: low for place, (low, _) in lows.items()}
            known = {place: max(high + 1, reach.ends.get(place, 0)) for place, (_, high) in lows.items()}
        if not bronze.is_whole:
            self.notes.append(f"{bronze.table}: its log no longer begins at its first commit")
        ranges = {}
        for place, end in known.items():
            cut = cut_of(self.pins.position, reach, place, firsts[place], is_loading=self.pins.is_loading)
            ranges[place] = Range(firsts[place], cut, end)
        return ranges

    def _log_faults(self, reach: BronzeReach, ranges: Mapping[Partition, Range]) -> None:
        pins = self.pins
        self._tell("lost commit", pins.faults)
        own = [one for one in pins.bronze.commits if one.batch_id is not None]
        self._tell("lost commit", missing_batches(pins.bronze.table, own))
        firsts = {place: one.first for place, one in ranges.items()}
        after, mine, position = -1, -1, None
        if self.start is not None:
            position = self.start.position
            after, mine = position.version - 1, self.start.version(self.silver.table)
        found = batch_counts.bronze_faults(
            pins.bronze, reach, firsts, after=after, may_have_gaps=self.topic.may_have_gaps
        )
        self._tell("counts", found)
        self._tell("counts", batch_counts.batch_faults(pins, self.silver, mine, position))

    def _tell(self, name: str, texts: Iterable[str]) -> None:
        self.faults += [Fault(name, text) for text in texts]

    def _found(self, name: str, text: str, frame: DataFrame, count: int | None = None) -> None:
        """A fault with its coordinates, if there are any."""
        count = frame.count() if count is None else count
        if count:
            self.faults.append(Fault(name, text, count, rows.examples(frame, SHOWN)))

    def _twice(self, found: DataFrame, seen: Mapping[str, int]) -> None:

        if seen.get(rows.TWICE):
            for where, frame in rows.doubled(found):
                self._found("twice", where, frame)

    def _miscounted(self, log: TableLog, text: str) -> None:
        """A table with more or fewer rows than it was given, and which they are if the log tells."""
        others = [one for one in log.commits if one.is_foreign]
        if not others or not are_there(log, touched(others)):
            self.faults.append(Fault("counts", text))
            return
        names = rows.PLACE if log is self.pins.quarantine else rows.KAFKA
        self._found("counts", text, rows.taken(self.spark, log, others, names))

    def _valueless(self, sources: Sources) -> None:
        """Tombstones that were quarantined, though they belong into bronze alone."""
        if self.silver.tombstones == "keep":
            return
        aside = sources.quarantine.rows(self.spark)
        if aside is not None and {"verdict", "value"} <= set(aside.columns):
            odd = aside.where("verdict = 'quarantine' and value is null")
            # Those of a time when they were kept have no key or no time.
            odd = odd.where(f"not arrays_overlap(reasons, array('{NULL_KEY}', '{NULL_EVENT_TIME}'))")
            self._found("twice", f"a record without a value is in {self.silver.quarantine} too", odd)

    def _outside(self, found: DataFrame, ranges: Mapping[Partition, Range]) -> None:
        beyond = rows.outside(self.spark, found, ranges)
        if self.start is None:
            beyond = beyond.where(f"not {rows.IS_ABSENT}")
        else:
            again = beyond.where("offset < start")
            self._found("twice", f"written again, though accounted for by {self.start.label}", again)
            beyond = beyond.where(f"not {rows.IS_ABSENT} and (start is null or offset >= start)")
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
        spark, silver = self.spark, self.silver
        bronze = sources.bronze.rows(spark)
        # Of what is new, most witnesses are new too.
        asked = [sources.silver, Source(self.pins.silver)] if self.start else [sources.silver]
        accepted = [source.rows(spark) for source in asked]
        self.say(f"{silver.table}: looking up {seen.get(rows.REST, 0):,} rows that are in no table")
        if seen.get(rows.REST) and bronze is not None:
            rest = found.where(f"{rows.FATE} = '{rows.REST}' and not {rows.IS_ABSENT}")
            with SparkRows(witness.looked_up(bronze, rest, silver), None, _FEW).kept(whole=True) as looked_up:
                typed = looked_up.frame
                alone = witness.unwitnessed(typed.where(f"not {witness.IS_TOMBSTONE}"), accepted, silver)
                valueless = typed.where(witness.IS_TOMBSTONE)
                if silver.tombstones == "keep":
                    # Those that came before they were kept are in bronze alone.
                    valueless = witness.unwitnessed(valueless, accepted, silver)
                with SparkRows(witness.alone(alone), None, _FEW).kept(whole=True) as lone:
                    _add(counts, "tombstones", valueless)
                    _add(counts, "duplicates", typed)
                    _add(counts, "duplicates", valueless, -1)
                    _add(counts, "duplicates", lone.frame, -1)
                    self._alone(lone)
        late = sources.late.rows(spark)
        if seen.get("late") and silver.late == "merge" and late is not None:
            only = found.where(f"{rows.FATE} = 'late'")
            unmerged = witness.unwitnessed(witness.late_keys(late, only, silver), accepted, silver)
            text = f"late and not merged, but no row of {silver.table} has its key"
            self._found("no witness", text, unmerged)

    def _alone(self, lone: Rows) -> None:
        """Rows that no table has, and no other row of their key."""
        if not lone.count:
            return
        self._found(
            "missing",
            f"in {self.silver.reads} and processed, but in no table, and no row of {self.silver.table} has "
            "its key",
            lone.frame.where("is_first"),
        )
        self._found(
            "no witness",
            f"a duplicate of a row that is missing itself: no row of {self.silver.table} has its key",
            lone.frame.where("not is_first"),
        )

    def _absent(
        self, found: DataFrame, ranges: Mapping[Partition, Range], counts: dict[Partition, dict[str, int]]
    ) -> None:
        """Offsets that bronze does not hold: erased by the engine, gaps that are allowed, or faults."""
        spark, bronze = self.spark, self.pins.bronze
        elsewhere = rows.not_before(spark, found.where(rows.IS_ABSENT), ranges if self.start else {})
        nowhere = rows.gaps(spark, found, ranges).select(*rows.PLACE, rows.null_fate())
        lacking = elsewhere.unionAll(nowhere).persist()
        gone = [one for one in bronze.commits if one.commit.is_change and one.by in {"erasure", "repair"}]
        ours = lacking.select(*rows.PLACE).limit(0)
        if gone and are_there(bronze, touched(gone)):
            out = rows.taken(spark, bronze, gone).where("net > 0")
            ours = lacking.select(*rows.PLACE).join(out, list(rows.PLACE), "left_semi")
        elif gone and self._explains(gone, lacking.count()):
            ours = lacking.select(*rows.PLACE)
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


def _changed(bronze: TableLog) -> str:
    found = list(foreign(bronze))
    return f"; written by someone else: {'; '.join(found[:3])}" if found else ""


def _add(counts: dict[Partition, dict[str, int]], fate: str, frame: DataFrame, sign: int = 1) -> None:
    for row in frame.groupBy("topic", "partition").count().collect():
        mine = counts.setdefault((str(row["topic"]), int(row["partition"])), {})
        mine[fate] = mine.get(fate, 0) + sign * int(row["count"])
        if not mine[fate]:
            del mine[fate]
