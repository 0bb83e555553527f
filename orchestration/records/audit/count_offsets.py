"""The audit of one silver table in one state: counts its offsets per place and collects the faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from common.declare import Bronze, Silver
from common.delta.maintenance.retention import ExpiredTopic
from common.machine.terminal import count_of
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.sql.quoting import spark_text
from orchestration.records.audit import batch_counts
from orchestration.records.audit import duplicate_witness as witness
from orchestration.records.audit import offset_places as rows
from orchestration.records.audit.accepted_gaps import Gap, lost_between
from orchestration.records.audit.offset_places import Range, Source, Sources
from orchestration.records.audit.offset_ranges import (
    OF_RECORDS,
    BatchRange,
    BronzeProgress,
    all_exist,
    all_sources,
    batch_ranges,
    bronze_progress,
    files_of,
    lowest_and_highest,
    lowest_erased,
    unprocessed_from,
)
from orchestration.records.audit.other_records import IS_OTHER, Decision
from orchestration.records.audit.result import FATES, SHOWN, Fault, PartitionAccount
from orchestration.records.audit.starting_point import StartingPoint
from orchestration.records.audit.table_log import (
    Partition,
    Pins,
    TableCommit,
    TableLog,
    foreign_commits,
    foreign_rows,
    kafka_positions,
    missing_batches,
    put_back,
    taken_back,
)
from orchestration.records.audit.values.comparable import comparable
from silver.judge.reasons_and_verdict import NULL_EVENT_TIME, NULL_KEY
from silver.read.column_names import ELEMENT, META
from silver.read.declared_columns import parse_values
from silver.read.poison import POISON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]

ERASURE = "erasure"
"""The kind of a commit that erases records (``by`` in its metadata)."""


@dataclass
class _Tally:
    """Sums over all coordinates that an audit found."""

    counts: dict[Partition, dict[str, int]]  # per partition, the number of offsets per place
    # Number of rows in ``silver``, ``late`` and ``quarantine``.
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("silver", "late", "quarantine"), 0))
    fates: dict[str, int] = field(default_factory=dict)  # number of offsets per fate
    # Per partition, the number of offsets found in any table, or expired.
    present: dict[Partition, int] = field(default_factory=dict)
    # Per partition, the number of offsets that may have expired and were found in any table.
    held: dict[Partition, int] = field(default_factory=dict)
    absent: int = 0  # number of offsets that bronze does not hold
    outside: int = 0  # number of offsets in groups that reach outside the ranges
    nameless: int = 0  # number of rows that name no record

    def has_gaps(self, ranges: Mapping[Partition, Range]) -> bool:
        """Whether an offset within the ranges is in no table."""
        return any(one.end - one.first > self.present.get(place, 0) for place, one in ranges.items())


def _tally(found: DataFrame, ranges: Mapping[Partition, Range]) -> _Tally:
    tally = _Tally({place: {} for place in ranges})
    has_elements = ELEMENT in found.columns
    for row in rows.count_records(found) if has_elements else ():
        place = str(row["topic"]), int(row["partition"])
        tally.present[place], tally.held[place] = row["records"], row["expirable"]
    for row in rows.count_places(found):
        if row["topic"] is None or row["partition"] is None:
            tally.nameless += sum(row[f"in_{name}"] for name in rows.TABLES)
            continue
        place, fate, offsets = (str(row["topic"]), int(row["partition"])), row[rows.FATE], row["offsets"]
        tally.rows["silver"] += row["in_silver"]
        tally.rows["late"] += row["in_late"]
        tally.rows["quarantine"] += row["in_quarantine"] + row["in_dropped"]
        tally.fates[fate] = tally.fates.get(fate, 0) + offsets
        if not has_elements:
            tally.present[place] = tally.present.get(place, 0) + offsets
        if row[rows.IS_EXPIRED] and not has_elements:
            tally.held[place] = tally.held.get(place, 0) + offsets
        of_partition = tally.counts.setdefault(place, {})
        if row[rows.IS_ABSENT]:
            tally.absent += offsets
        elif fate in FATES:
            of_partition[fate] = of_partition.get(fate, 0) + offsets
        within = ranges.get(place)
        if within is None or row["low"] < within.first or row["high"] >= within.end:
            tally.outside += offsets
    return tally


@dataclass
class TableAudit:
    """The audit of one silver table; ``faults`` and ``notes`` are complete after ``partitions``."""

    spark: SparkSession
    topic: Bronze
    silver: Silver
    pins: Pins
    say: Say
    decision: Decision = field(default_factory=Decision)
    start: StartingPoint | None = None
    lost: Sequence[Gap] = ()  # the offsets that are accepted as lost
    # The records that retention has deleted from bronze, by topic.
    expired: Mapping[str, ExpiredTopic] = field(default_factory=dict)
    erased: DataFrame | None = None  # the records of complete erasures; None where there are none
    # Whether an erasure is under way or was cut off: silver still has rows that bronze lacks.
    is_erasing: bool = False
    # Of one of several bronze tables: the condition of its records, by their topic. The rows of the table and
    # what its commits count are compared when all of them are counted (``count_faults``).
    own: str = ""
    totals: dict[str, int] = field(default_factory=dict)  # number of offsets per place, once they are counted
    # Number of rows in ``silver``, ``late`` and ``quarantine``, once they are counted.
    held: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def partitions(self) -> tuple[PartitionAccount, ...]:
        """Run the audit; the account per partition."""
        pins, silver = self.pins, self.silver
        progress = bronze_progress(pins.bronze, pins.position, self.start.processed if self.start else {})
        others = silver.storage.foreign is not None
        sources = all_sources(pins, progress, self.start, self.own, has_others=others)
        ranges = self._ranges(progress, sources)
        self._add_log_faults(progress, ranges)
        offsets = sum(one.end - one.first for one in ranges.values())
        self.say(f"{silver.table}: looking for {count_of(offsets, 'offsets')}")
        placed = rows.locate_rows(
            self.spark,
            sources,
            ranges,
            merges_late=self._has_merged_late,
            is_loading=pins.is_loading,
            split=self._units if silver.each is not None else None,
        )
        likely = offsets if silver.each is None else None  # nobody knows how many elements records have
        with SparkRows(placed, None, witness.FEW).kept(whole=True, expected=likely) as found:
            return self._account(found.frame, sources, ranges)

    def _units(self, bronze: DataFrame) -> DataFrame:
        """The elements of bronze rows, and records without one; see ``offset_places.Split``."""
        parsed = parse_values(bronze, self.silver.value, each=self.silver.each_path)
        place = (*rows.PLACE, ELEMENT)
        fault = F.col(f"{META}.fault").isNotNull().alias("unreadable")
        return parsed.select(*(F.col(f"{META}.{name}").alias(name) for name in place), fault)

    @property
    def _has_merged_late(self) -> bool:
        """Whether late rows are merged, or may have been: before ``late`` was declared otherwise."""
        log = self.pins.silver
        return self.silver.late == "merge" or not log.is_whole or bool(log.steps("late"))

    @property
    def _is_ordered(self) -> bool:
        """Whether the order of a key's rows says which of them stays, as far as the whole logs say."""
        log, bronze, silver = self.pins.silver, self.pins.bronze, self.silver
        if silver.each is not None or self.own or log.base is not None:
            return False
        found = comparable(silver, log, [bronze])
        if silver.keep == "newest":
            return not found.why
        # What decided otherwise which record came first: an earlier condition, a load, records by others.
        loaded = any(one.by == "first load" for one in log.commits)
        others = any(one.is_foreign and not one.commit.removed for one in bronze.commits)
        back = any(taken_back([one.commit for one in each.commits]) for each in (log, bronze))
        return not (found.why or found.why_no_verdict or found.excuse or loaded or others or back)

    @property
    def _batches(self) -> Sequence[BatchRange]:
        """Which micro-batch has read which offsets, of a table that keeps any row of a key in each."""
        return () if self.silver.dedupe == "exact" else batch_ranges(self.pins.bronze, self.pins.silver)

    def _account(
        self, found: DataFrame, sources: Sources, ranges: Mapping[Partition, Range]
    ) -> tuple[PartitionAccount, ...]:
        tally = _tally(found, ranges)
        counts, seen = tally.counts, tally.fates
        if tally.nameless:
            found = found.where("topic is not null and partition is not null")
            text = f"{tally.nameless:,} rows of {self.silver.table}, or of a table beside it, name no record"
            self._add_texts("unknown", [f"{text}: another program has written them. {self._again}"])
        self._count_expired(tally, ranges)
        self._add_twice(found, seen)
        if self.erased is not None:
            self._add_erased_again(found.join(self.erased, list(rows.PLACE), "left_semi"))
        self._add_quarantined_tombstones(sources)
        if seen.get(rows.REST) or (seen.get("late") and self.silver.late == "merge"):
            self._explain_rest(found, sources, counts, seen)
        if tally.outside:
            self._add_outside(found, ranges)
        if tally.absent or tally.outside or tally.has_gaps(ranges):
            self._explain_absent(found, ranges, counts)
        left_out = {} if self.start else offsets_left_out(self.lost, ranges)
        partitions = tuple(
            PartitionAccount(*place, left_out.get(place, one.first), one.end, counts[place])
            for place, one in sorted(ranges.items())
        )
        for one in partitions:
            place = one.topic, one.partition
            if gaps := ranges[place].first - one.first:
                counts[place]["gaps"] = counts[place].get("gaps", 0) + gaps
        self.totals = {name: sum(one.counts.get(name, 0) for one in partitions) for name in FATES}
        self.held = dict(tally.rows)
        if not self.own:
            self.count_faults([self])
        return partitions

    def count_faults(self, parts: Sequence[TableAudit]) -> None:
        """Add the faults of the table's rows and commits, by what the audits of all bronze tables count."""
        pins, silver, start = self.pins, self.silver, self.start
        logs = {"silver": pins.silver, "late": pins.late, "quarantine": pins.quarantine}
        after = {name: start.version(log.table) if start else -1 for name, log in logs.items()}
        held = {name: sum(part.held[name] for part in parts) for name in logs}
        if silver.storage.foreign is not None:
            held["silver"] += self._count_others()
        for log, text in batch_counts.table_faults(pins, held, after):
            self._add_miscounted(log, text)
        totals = {name: sum(part.totals.get(name, 0) for part in parts) for name in FATES}
        mine, position = after["silver"], start.position if start else None
        states = [part.pins for part in parts]
        self._add_texts("counts", batch_counts.batch_faults(states, silver, mine, position))
        self._add_texts("counts", batch_counts.tombstone_faults(pins, silver, totals, mine))
        self._add_texts("counts", batch_counts.element_faults(pins, silver, totals, mine))
        if len(self.decision.conditions) == 1:
            self._add_texts("counts", batch_counts.other_faults(pins, silver, totals, mine))

    def _count_others(self) -> int:
        """Note the rows of other programs; the number of rows of records that they have taken away."""
        log = self.pins.silver
        found = Source(log).rows(self.spark)
        count = 0 if found is None else found.where(f"not {OF_RECORDS}").count()
        appended = foreign_rows(log)
        foreign = self.silver.storage.foreign
        text = f"{count:,} rows of {log.table} are of other programs, as foreign={foreign!r} says"
        self.notes.append(text)
        if foreign == "appends" and appended not in {None, count}:
            self._add_texts(
                "counts", [f"{text}, and their commits have appended {appended:,}. {self._again}"]
            )
        removed = self._removed_by_others
        return 0 if removed is None else int(removed.agg(F.sum("net")).collect()[0][0] or 0)

    def _count_expired(self, tally: _Tally, ranges: Mapping[Partition, Range]) -> None:
        """Count the offsets that retention has deleted from bronze and that no table holds."""
        for place, one in ranges.items():
            gone = one.expirable - tally.held.get(place, 0)
            if gone <= 0:
                continue
            end = {place: one.first + one.expirable}
            lost = min(gone, lost_between(self.lost, {place: one.first}, end))
            for name, count in (("gaps", lost), ("expired", gone - lost)):
                if count:
                    mine = tally.counts.setdefault(place, {})
                    mine[name] = mine.get(name, 0) + count
            tally.present[place] = tally.present.get(place, 0) + gone

    def _ranges(self, progress: BronzeProgress, sources: Sources) -> dict[Partition, Range]:
        """The offsets per partition that the account must cover."""
        pins, bronze = self.pins, self.pins.bronze
        if progress.is_complete:
            first_commits = {one.version: one for one in progress.first_batches.values()}
            files = tuple(file for one in first_commits.values() for file in one.commit.added)
            only = files if bronze.is_whole and all_exist(bronze, files) else None
            lows = lowest_and_highest(self.spark, bronze, only) if first_commits else {}
            for place, low in lowest_erased(bronze).items() if only is None else ():
                known_low, high = lows.get(place, (low, low))
                lows[place] = (min(low, known_low), high)
            lows = self._with_expired(lows)
            known_firsts = self.start.processed if self.start else {}
            # A partition without records starts at the end that the first micro-batch that names it recorded.
            empty = {place: kafka_positions(one)[place] for place, one in progress.first_batches.items()}
            firsts = {
                place: known_firsts.get(place, lows.get(place, (empty.get(place, end),))[0])
                for place, end in progress.ends.items()
            }
            known = dict(progress.ends)
        else:
            lows = self._with_expired(lowest_and_highest(self.spark, bronze, None))
            firsts = {place: low for place, (low, _) in lows.items()}
            known = {place: max(high + 1, progress.ends.get(place, 0)) for place, (_, high) in lows.items()}
        if not bronze.is_whole:
            self.notes.append(f"{bronze.table}: its log no longer begins at its first commit")
        ranges = {}
        for place, end in known.items():
            processed_end = unprocessed_from(pins.position, progress, place, firsts[place])
            ranges[place] = Range(firsts[place], processed_end, end, min(end, self._expired_end(place)))
        return ranges

    def _with_expired(self, lows: Mapping[Partition, tuple[int, int]]) -> dict[Partition, tuple[int, int]]:
        """The lowest and the highest offset per partition, including the expired ones."""
        found = dict(lows)
        for topic, one in self.expired.items():
            for partition, (first, end) in one.offsets.items():
                low, high = found.get((topic, partition), (first, end - 1))
                found[topic, partition] = (min(low, first), max(high, end - 1))
        return found

    def _expired_end(self, place: Partition) -> int:
        """One more than the highest offset of a partition that has expired; 0 where none has."""
        topic = self.expired.get(place[0])
        return topic.offsets.get(place[1], (0, 0))[1] if topic else 0

    def _add_log_faults(self, progress: BronzeProgress, ranges: Mapping[Partition, Range]) -> None:
        pins = self.pins
        self.faults += [
            Fault("lost commit", f"{text}. {self._again}", command=self._again) for text in pins.faults
        ]
        own = [one for one in pins.bronze.commits if one.batch_id is not None]
        self._add_texts("lost commit", missing_batches(pins.bronze.table, own))
        firsts = {place: one.first for place, one in ranges.items()}
        after = -1 if self.start is None else self.start.position.version - 1
        found = batch_counts.bronze_faults(
            pins.bronze,
            progress,
            firsts,
            after=after,
            may_have_gaps=self.topic.may_have_gaps,
            lost=self.lost,
        )
        self._add_texts("counts", found)

    def _add_texts(self, name: str, texts: Iterable[str]) -> None:
        self.faults += [Fault(name, text) for text in texts]

    def _add_rows(
        self, name: str, text: str, frame: DataFrame, command: str = "", *, is_of_bronze: bool = False
    ) -> None:
        """Add a fault with its coordinates, unless ``frame`` is empty."""
        if count := frame.count():
            table = self.pins.bronze.table if is_of_bronze else ""
            text += f". {command}" if command else ""
            places = rows.examples(frame, SHOWN)
            self.faults.append(Fault(name, text, count, places, table=table, command=command))

    @property
    def _again(self) -> str:
        """What to type to have silver, and what is beside it, made again from bronze.

        Without its newest commits it ends before what its readers have read: they are filled again with it.
        """
        how = "recover" if self.pins.faults else "rebuild"
        return f"To have it made again from bronze: medallion {how} {self.silver.table}"

    def _add_twice(self, found: DataFrame, seen: Mapping[str, int]) -> None:
        if seen.get(rows.TWICE):
            for where, frame in rows.in_two_places(found):
                is_of_bronze = "bronze" in where
                command = put_back(self.pins.bronze) if is_of_bronze else self._again
                self._add_rows("twice", where, frame, command, is_of_bronze=is_of_bronze)

    def _add_erased_again(self, frame: DataFrame) -> None:
        self._add_rows(
            "erased",
            f"erased, and in a table again. Erase it again: medallion erase {self.silver.table} --where "
            "false",
            frame,
        )

    def _add_miscounted(self, log: TableLog, text: str) -> None:
        """Add the fault of a table with a wrong number of rows, with coordinates if the log shows them."""
        others = [one for one in log.commits if one.is_foreign]
        if not others or not all_exist(log, files_of(others)):
            self.faults.append(Fault("counts", f"{text}. {self._again}", command=self._again))
            return
        names = rows.PLACE if log is self.pins.quarantine else rows.KAFKA
        found = rows.net_changes(self.spark, log, others, names).where("topic is not null")
        self._add_rows("counts", text, found, self._again)

    def _add_quarantined_tombstones(self, sources: Sources) -> None:
        """Add a fault for tombstones in quarantine: a tombstone belongs into bronze alone."""
        if self.silver.tombstones == "keep":
            return
        aside = sources.quarantine.rows(self.spark)
        if aside is not None and {"verdict", "value"} <= set(aside.columns):
            tombstones = aside.where("verdict = 'quarantine' and value is null")
            # The reasons of key and time are from a time when the declaration kept tombstones.
            kept = f"arrays_overlap(reasons, array('{NULL_KEY}', '{NULL_EVENT_TIME}', '{POISON}'))"
            text = f"a record without a value is in {self.silver.quarantine} too"
            self._add_rows("twice", text, tombstones.where(f"not {kept}"), self._again)

    def _add_outside(self, found: DataFrame, ranges: Mapping[Partition, Range]) -> None:
        beyond = rows.outside_ranges(self.spark, found, ranges)
        if self.start is None:
            beyond = beyond.where(f"not {rows.IS_ABSENT}")
        else:
            again = beyond.where("offset < start")
            text = f"written again, although {self.start.label} accounted for it"
            self._add_rows("twice", text, again, self._again)
            beyond = beyond.where(f"not {rows.IS_ABSENT} and (start is null or offset >= start)")
        self._add_rows(
            "unknown",
            f"in {self.pins.bronze.table}, but none of its commits has read this offset",
            beyond,
            put_back(self.pins.bronze),
            is_of_bronze=True,
        )

    def _explain_rest(
        self,
        found: DataFrame,
        sources: Sources,
        counts: dict[Partition, dict[str, int]],
        seen: Mapping[str, int],
    ) -> None:
        """Count tombstones, other records and duplicates; add a fault for each row without a witness."""
        spark, silver = self.spark, self.silver
        bronze = sources.bronze.rows(spark)
        # Most witnesses of new rows are new too, so an incremental audit searches the new rows first.
        # Of several bronze tables, a row of another one may be the witness.
        whole = Source(self.pins.silver)
        # A row of another program may have the key.
        is_whole = self.own or silver.storage.foreign is not None
        searched = [sources.silver, whole] if self.start else [whole if is_whole else sources.silver]
        accepted = [source.rows(spark) for source in searched]
        erasures = [one for one in self.pins.silver.commits if one.commit.is_change and one.by == ERASURE]
        are_erased_known = all_exist(self.pins.silver, files_of(erasures))
        if erasures and are_erased_known:
            # An event may come again after its erasure: its copy is a duplicate of the row that was erased.
            accepted.append(rows.rows_before_removal(spark, self.pins.silver, erasures))
        self.say(f"{silver.table}: rows in no table, to look up: {seen.get(rows.REST, 0):,}")
        if seen.get(rows.REST) and bronze is not None:
            rest = found.where(f"{rows.FATE} = '{rows.REST}' and not {rows.IS_ABSENT}")
            batches = self._batches
            is_ordered = self._is_ordered and (self.silver.dedupe == "exact" or bool(batches))
            keys = witness.bronze_keys(bronze, rest, silver, self.decision, is_ordered=is_ordered)
            with SparkRows(keys, None, witness.FEW).kept(whole=True, expected=seen[rows.REST]) as bronze_keys:
                typed = bronze_keys.frame
                if self.decision.conditions:
                    _add(counts, "other", typed.where(IS_OTHER))
                    typed = typed.where(f"not {IS_OTHER}")
                if silver.each is not None:
                    _add(counts, "empty", typed.where(witness.IS_EMPTY))
                    typed = typed.where(f"not {witness.IS_EMPTY}")
                split = any(len(one.commit.added) > 1 for one in self.pins.bronze.commits)
                keyed = typed.where(f"not {witness.IS_TOMBSTONE}")
                valueless = typed.where(witness.IS_TOMBSTONE)
                if silver.tombstones == "keep":
                    # Tombstones from before the declaration kept them are in bronze alone.
                    valueless = valueless.drop(witness.ORDER) if batches else valueless
                    valueless = witness.without_witness(valueless, accepted, silver, is_split=split)
                with witness.lone_rows(keyed, accepted, silver, seen[rows.REST], split, batches) as lone:
                    _add(counts, "tombstones", valueless)
                    _add(counts, "duplicates", typed)
                    _add(counts, "duplicates", valueless, -1)
                    if are_erased_known:
                        _add(counts, "duplicates", lone.frame, -1)
                        self._add_without_witness(lone, counts)
                    elif lone.count:
                        self._note_erased_witnesses(lone.count)
        late = sources.late.rows(spark)
        if seen.get("late") and silver.late == "merge" and late is not None:
            keys = witness.late_keys(late, found.where(f"{rows.FATE} = 'late'"), silver)
            with SparkRows(keys, None, witness.FEW).kept(whole=True, expected=seen["late"]) as late_keys:
                unmerged = witness.without_witness(late_keys.frame, accepted, silver)
                text = f"late and not merged, but no row of {silver.table} has its key"
                self._add_rows("no witness", text, unmerged, self._again)

    def _note_erased_witnesses(self, count: int) -> None:
        """Note duplicates whose rows may have been erased; the counts of the commits are checked as ever."""
        self.notes.append(
            f"{self.silver.table}: files with erased rows are vacuumed; {count:,} duplicates that have no "
            "row in the table are taken for copies of erased events, by the counts of the micro-batches"
        )

    @cached_property
    def _removed_by_others(self) -> DataFrame | None:
        """The records whose rows other programs have taken away, as is declared; None where none have."""
        log = self.pins.silver
        theirs = [one for one in log.commits if one.is_foreign and one.commit.removed]
        if self.silver.storage.foreign != "changes" or not theirs:
            return None
        if not all_exist(log, files_of(theirs)):
            self.notes.append(
                f"{log.table}: files that other programs rewrote are vacuumed: which rows they took away is "
                "not known, so that a record without a row is a fault. Accept what is right by a rebuild"
            )
            return None
        return rows.net_changes(self.spark, log, theirs, rows.KAFKA).where("net > 0 and topic is not null")

    def _add_without_witness(self, lone: Rows, counts: dict[Partition, dict[str, int]]) -> None:
        """Add faults for rows in no table without a witness; those taken away as is declared are foreign."""
        if not lone.count:
            return
        frame = lone.frame
        if (removed := self._removed_by_others) is not None:
            _add(counts, "foreign", frame.join(removed, list(rows.PLACE), "left_semi"))
            frame = frame.join(removed, list(rows.PLACE), "left_anti")
        self._add_rows(
            "missing",
            f"in {self.pins.bronze.table} and processed, but in no table, and no row of {self.silver.table} "
            "has its key, or only one that it should have kept out",
            frame.where("is_first"),
            self._again,
        )
        self._add_rows(
            "no witness",
            f"a duplicate of a row that is missing itself: no row of {self.silver.table} has its key",
            frame.where("not is_first"),
            self._again,
        )

    def _explain_absent(
        self, found: DataFrame, ranges: Mapping[Partition, Range], counts: dict[Partition, dict[str, int]]
    ) -> None:
        """Sort offsets that bronze does not hold into erased ones, allowed gaps, and faults."""
        spark, bronze = self.spark, self.pins.bronze
        elsewhere = rows.without_earlier(spark, found.where(rows.IS_ABSENT), ranges if self.start else {})
        nowhere = rows.gaps(spark, found, ranges).select(
            *rows.PLACE, F.lit(None).cast("string").alias(rows.FATE)
        )
        lacking = elsewhere.unionAll(nowhere).persist()
        gone = [one for one in bronze.commits if one.commit.is_change and one.by in {ERASURE, "repair"}]
        ours = lacking.select(*rows.PLACE).limit(0)
        if gone and all_exist(bronze, files_of(gone)):
            erased = rows.net_changes(spark, bronze, gone).where("net > 0")
            ours = lacking.select(*rows.PLACE).join(erased, list(rows.PLACE), "left_semi")
        elif gone and self._explains(gone, lacking.select(*rows.PLACE).distinct().count()):
            ours = lacking.select(*rows.PLACE)
        ours = ours.persist()
        explained = lacking.join(ours, list(rows.PLACE), "left_semi")
        if not self.is_erasing and any(one.by == ERASURE for one in gone):
            # Erased by a version of the engine that kept no list of erased records.
            back = explained.where(f"{rows.FATE} is not null")
            if self.erased is not None:
                back = back.join(self.erased, list(rows.PLACE), "left_anti")
            self._add_erased_again(back)
        for row in explained.groupBy("topic", "partition", rows.FATE).count().collect():
            fate = row[rows.FATE] or "erased"
            if fate in FATES:
                mine = counts.setdefault((str(row["topic"]), int(row["partition"])), {})
                mine[fate] = mine.get(fate, 0) + row["count"]
        rest = lacking.join(ours, list(rows.PLACE), "left_anti").persist()
        alone = rest.where(f"{rows.FATE} is not null and {rows.FATE} <> '{rows.TWICE}'")
        beyond = rows.outside_ranges(spark, alone, ranges).select(*rows.PLACE)
        text = "in silver, late or quarantine, at an offset that bronze has never read"
        self._add_rows("unknown", text, beyond, self._again)
        self._add_rows(
            "unknown",
            f"in silver, late or quarantine, but {bronze.table} does not hold it, and no erasure removed it"
            + _changed(bronze),
            alone.join(beyond, list(rows.PLACE), "left_anti"),
            put_back(bronze),
            is_of_bronze=True,
        )
        empty = self._without_lost(rest.where(f"{rows.FATE} is null"), counts)
        if self.topic.may_have_gaps:
            _add(counts, "gaps", empty)
        else:
            self._add_rows(
                "gap",
                f"{bronze.table} has read past it and does not hold it, and no erasure removed it"
                + _changed(bronze),
                empty,
                put_back(bronze),
                is_of_bronze=True,
            )
        for frame in (rest, ours, lacking):
            frame.unpersist()

    def _without_lost(self, empty: DataFrame, counts: dict[Partition, dict[str, int]]) -> DataFrame:
        """Count the offsets that are accepted as lost; the other ones."""
        if not self.lost:
            return empty
        names = "topic string, partition int, first_offset bigint, last_offset bigint"
        known = self.spark.createDataFrame(
            [(one.topic, one.partition, one.first_offset, one.last_offset) for one in self.lost], names
        ).alias("known")
        same = "empty.topic = known.topic and empty.partition = known.partition"
        inside = F.expr(f"{same} and empty.offset between known.first_offset and known.last_offset")
        _add(counts, "gaps", empty.alias("empty").join(F.broadcast(known), inside, "left_semi"))
        return empty.alias("empty").join(F.broadcast(known), inside, "left_anti")

    def _explains(self, gone: list[TableCommit], lacking: int) -> bool:
        """Whether erasures whose files are vacuumed removed at least as many rows as are missing."""
        removed = [file.rows for one in gone for file in one.commit.removed]
        added = [file.rows for one in gone for file in one.commit.added]
        is_known = None not in removed and None not in added
        erased = sum(row or 0 for row in removed) - sum(row or 0 for row in added) if is_known else None
        self.notes.append(
            f"{self.pins.bronze.table}: files that an erasure rewrote are vacuumed; the erasure removed "
            f"{'an unknown number of' if erased is None else f'{erased:,}'} rows, and {lacking:,} are missing"
        )
        return erased is None or lacking <= erased


def own_records(spark: SparkSession, parts: Sequence[Pins]) -> list[str]:
    """Per bronze table of a silver table that reads several, the condition of its records, by their topic.

    Rows of a topic that none of them has read are counted with the first.
    """
    topics = []
    for part in parts:
        known = {topic for one in part.bronze.commits for topic, _ in kafka_positions(one)}
        if not part.bronze.is_whole and (frame := Source(part.bronze).rows(spark)) is not None:
            known |= {row[0] for row in frame.select("topic").distinct().collect()}
        topics.append(known)
    others = set[str]().union(*topics[1:])
    found = [f"not {_is_one_of(others)}" if others else "true"]
    return found + [_is_one_of(known) if known else "false" for known in topics[1:]]


def _is_one_of(topics: Iterable[str]) -> str:
    listed = ", ".join(spark_text(topic) for topic in sorted(topics))
    return f"{{topic}} in ({listed})"


def offsets_left_out(lost: Sequence[Gap], ranges: Mapping[Partition, Range]) -> dict[Partition, int]:
    """By partition, the first offset that was accepted as lost before the first one that bronze has.

    A table that began later than its topic has such offsets, and no others before its first row. It may have
    been told to begin even later before, with more of them.
    """
    firsts: dict[Partition, int] = {}
    for gap in lost:
        place = gap.topic, gap.partition
        if place in ranges and gap.first_offset < ranges[place].first:
            firsts[place] = min(gap.first_offset, firsts.get(place, gap.first_offset))
    return firsts


def _changed(bronze: TableLog) -> str:
    found = list(foreign_commits(bronze))
    return f"; written by someone else: {'; '.join(found[:3])}" if found else ""


def _add(counts: dict[Partition, dict[str, int]], fate: str, frame: DataFrame, sign: int = 1) -> None:
    for row in frame.groupBy("topic", "partition").count().collect():
        mine = counts.setdefault((str(row["topic"]), int(row["partition"])), {})
        mine[fate] = mine.get(fate, 0) + sign * int(row["count"])
        if not mine[fate]:
            del mine[fate]
