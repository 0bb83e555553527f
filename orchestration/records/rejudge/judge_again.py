"""What today's declaration makes of a range of records, and by that of the tables that have rows of them.

Rows outside the range stay, but for what the range decides about them:

- A row outside the range leaves silver where a record of the range is accepted now, has its key, and comes
  first: by arrival, or for a table that keeps the newest row by the order of that. Records of several bronze
  tables have no order of arrival: the row that silver has stays.
- A record outside the range that was a duplicate of a row of the range is judged too where that row leaves
  silver or has another key: it may be the row of its event now.

A late record of the range stays late, where its event time is still at or before the watermark of its time;
no other record becomes late, as in a load from a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import and_

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from common.declare import Silver
from common.declare.intervals import length_of
from common.delta.changes import changes_between
from common.errors import UsageError
from common.rows.spark_rows import SparkRows
from orchestration.access.progress.record_range import BRONZE, SILVER, RecordRange
from orchestration.records.rejudge.select import Say, coordinates_of, renamed, tables_with_own_row
from silver.judge.dedupe import key_text
from silver.query import Builder, with_bytes_of_rejected
from silver.read.column_names import (
    ACCEPT,
    COORDINATES,
    EVENT_TIME,
    KEY,
    LATE,
    META,
    PLACE,
    VERDICT,
    WATERMARK,
)
from silver.read.unknown_fields import refuse_unknown_fields
from silver.write.schema_evolution import evolved
from silver.write.table_columns import accepted
from silver.write.verdict_counts import Tally, count_verdicts, rule_failure

_TODAY, _LATE_BY, _WAS, _MINE, _STAYS = "__today", "__late_by", "__was", "__is_of_range", "__stays"


@dataclass
class RestatedRows:
    """The changes of three tables by which the rows of a range are those of today's declaration."""

    builder: Builder  # judges records as the query of the table does
    records: RecordRange  # the range
    bronze: DataFrame  # bronze, pinned to one version; of several tables, the rows of all
    # Silver, late and quarantine table, pinned: the columns of today's declaration are there.
    tables: Mapping[str, DataFrame]
    unread: DataFrame | None  # the coordinates of records that the query has not read yet, as bronze has them
    watermark_ms: int | None  # the watermark of the query's state; None for a query without state
    stack: ExitStack  # releases the rows that are kept
    say: Say  # reports each step
    tally: Tally = field(init=False)

    def changes(self) -> dict[str, DataFrame]:
        """Per table, the rows that change, with the column ``ACTION``; none is computed yet.

        Raises:
            RuleFailedError: A record breaks a rule that is declared to stop the query.
            UnknownFieldError: A record has an unknown field, which is declared to stop the query.
            UsageError: Whether a record is a duplicate cannot be known any more.
        """
        silver = self.builder.silver
        self._count()
        won = self._decided
        rows = self._judged.join(won.where(_MINE).select(*COORDINATES), list(COORDINATES), "left_semi")
        rows = rows.withColumn(VERDICT, F.lit(ACCEPT)).drop(_TODAY, _LATE_BY, *COORDINATES)
        mine = evolved(accepted(SparkRows(rows)), silver, self.builder.pipeline, self.builder.silver_path)
        displaced = won.where(~F.col(_MINE)).select(*COORDINATES)
        before = self._inside(self._silver, COORDINATES).unionByName(
            self._silver.join(displaced, list(COORDINATES), "left_semi")
        )
        late = self._judged.where(F.col(VERDICT) == LATE).withColumn(WATERMARK, F.col(_LATE_BY))
        late = accepted(SparkRows(late.drop(_TODAY, _LATE_BY, *COORDINATES)), LATE).frame
        aside = self.builder.rejected(self._judged)
        tables = self.tables
        return {
            silver.quarantine: changes_between(self._inside(tables[silver.quarantine], PLACE), aside, PLACE),
            silver.late_table: changes_between(
                self._inside(tables[silver.late_table], COORDINATES), late, COORDINATES
            ),
            silver.table: changes_between(before, mine.frame, COORDINATES),
        }

    def _count(self) -> None:
        silver = self.builder.silver
        self.tally = count_verdicts(SparkRows(self._judged), silver.rules)
        if self.tally.failed:
            raise rule_failure(self._judged, self.tally, silver.rules, silver.table)
        if self.tally.with_unknown_fields:
            refuse_unknown_fields(self._judged, silver)

    @property
    def _silver(self) -> DataFrame:
        return self.tables[self.builder.silver.table]

    @property
    def _has_state(self) -> bool:
        return self.builder.silver.dedupe != "exact"

    @property
    def _is_newest(self) -> bool:
        return self.builder.silver.keep == "newest"

    def _kept(self, frame: DataFrame) -> DataFrame:
        return persisted(self.stack, frame)

    def _read(self, bronze: DataFrame) -> DataFrame:
        """Records judged, with their coordinates as silver names them; late ones have the verdict late."""
        judged = with_bytes_of_rejected(self.builder.judged(bronze))
        today = key_text(judged, self.builder.silver.event_key)
        places = renamed([f"{META}.{name}" for name in PLACE], COORDINATES)
        judged = judged.select("*", today.alias(_TODAY), *places)
        late = self.tables[self.builder.silver.late_table]
        late = late.select(*COORDINATES, F.col(WATERMARK).alias(_LATE_BY))
        is_late = (F.col(VERDICT) == ACCEPT) & (F.col(EVENT_TIME) <= F.col(_LATE_BY))
        verdict = F.when(is_late, LATE).otherwise(F.col(VERDICT))
        return judged.join(late, list(COORDINATES), "left").withColumn(VERDICT, verdict)

    @cached_property
    def _of_range(self) -> DataFrame:
        return self._kept(self._read(self.bronze.where(self.records.holds(BRONZE))))

    @cached_property
    def _judged(self) -> DataFrame:
        """All records that are judged again: those of the range, and former duplicates of its rows."""
        lost = self._lost_keys
        if lost is None:
            return self._of_range
        silver = self.builder.silver
        self.say(f"looking for former duplicates of events whose rows leave {silver.table}")
        taken = [
            self.tables[name].select(*renamed(coordinates_of(name), PLACE))
            for name in tables_with_own_row(silver)
        ]
        if self.unread is not None:
            taken.append(self.unread)
        rest = self.bronze.where(~self.records.holds(BRONZE))
        rest = rest.join(reduce(DataFrame.unionAll, taken), list(PLACE), "left_anti")
        copies = self._read(rest).join(lost, _TODAY, "left_semi").select(*self._of_range.columns)
        return self._kept(self._of_range.unionByName(copies))

    @cached_property
    def _former(self) -> DataFrame:
        """Silver's rows of the range that bronze still has: their keys, their order and today's record."""
        silver = self.builder.silver
        own = self._silver.where(self.records.holds(SILVER))
        own = own.select(
            *COORDINATES,
            key_text(own, silver.event_key).alias(_WAS),
            F.col(silver.event_time).alias("__was_at"),
        )
        accepts = F.col(VERDICT).isin(*self._taken)
        today = self._of_range.select(
            *COORDINATES, _TODAY, F.when(accepts, F.col(KEY)).alias(KEY), EVENT_TIME
        )
        found = own.join(today, list(COORDINATES))
        same_key = F.coalesce(F.col(KEY) == F.col(_WAS), F.lit(False))
        same_time = F.coalesce(F.col(EVENT_TIME) == F.col("__was_at"), F.lit(False))
        stays = same_key & same_time if self._is_newest else same_key
        return self._kept(found.withColumn(_STAYS, stays).withColumn("__is_same", same_key & same_time))

    @property
    def _taken(self) -> Sequence[str]:
        """The verdicts of records that may be silver's row of their event."""
        return (ACCEPT, LATE) if self.builder.silver.late == "merge" else (ACCEPT,)

    @cached_property
    def _lost_keys(self) -> DataFrame | None:
        """The keys, former and of today, of rows that leave silver or change their key; None without any."""
        lost = self._former.where(~F.col(_STAYS))
        keys = lost.select(F.col(_WAS).alias(_TODAY)).union(lost.select(_TODAY))
        found = self._kept(keys.where(F.col(_TODAY).isNotNull()).distinct())
        return found if found.count() else None

    @cached_property
    def _decided(self) -> DataFrame:
        """Coordinates of the range's rows that silver gets, and of rows outside the range that leave it."""
        silver = self.builder.silver
        known = self._former.where("__is_same").select(*COORDINATES, F.lit(True).alias("__known"))
        order = (F.col(f"{META}.ingested_at").alias("__came"), F.col(f"{META}.timestamp").alias("__sent"))
        mine = self._judged.where(F.col(VERDICT).isin(*self._taken))
        outside = rows_of_events(self._outside(self._silver), mine, silver)
        names = [KEY, EVENT_TIME, *COORDINATES, "__came", "__sent"]
        mine = mine.select(KEY, EVENT_TIME, *COORDINATES, *order, F.lit(True).alias(_MINE))
        mine = mine.join(known, list(COORDINATES), "left")
        others = outside.select(
            KEY,
            F.col(silver.event_time).alias(EVENT_TIME),
            *COORDINATES,
            F.col("_ingested_at").alias("__came"),
            F.col("_kafka_timestamp").alias("__sent"),
        )
        others = others.select(*names, F.lit(False).alias(_MINE), F.lit(True).alias("__known"))
        both = mine.select(*names, _MINE, "__known").unionByName(others)
        ranked = self._kept(self._ranked(both))
        if self._has_state:
            self._refuse_undecidable(ranked)
        is_whole = ~F.col("__is_wide")
        won = (F.col(_MINE) & ((F.col("__turn") == 1) | ~is_whole)) | (
            ~F.col(_MINE) & F.col("__mine_first") & is_whole
        )
        decided = self._kept(ranked.where(won))
        if self._has_state:
            self._refuse_known_to_state(decided)
        return decided

    def _ranked(self, rows: DataFrame) -> DataFrame:
        """Rows of each key in the order in which one of them is silver's."""
        place = [F.col(name) for name in COORDINATES]
        own = F.col("__known").desc_nulls_last()
        if self._is_newest:
            order = [column.desc() for column in (F.col(EVENT_TIME), F.col("__sent"), *place)]
        elif len(self.builder.silver.sources) > 1:
            order = [own, F.col("__came"), *place]
        else:
            # Of one micro-batch of bronze, dedupe by state keeps any row: silver's own stays.
            order = [F.col("__came"), *([own] if self._has_state else []), *place]
        of_key, in_order = Window.partitionBy(KEY), Window.partitionBy(KEY).orderBy(*order)
        delay = length_of(self.builder.silver.watermark).milliseconds
        at = F.unix_millis(EVENT_TIME)
        spread = F.max(at).over(of_key) - F.min(at).over(of_key)
        is_wide = spread > delay if self._has_state else F.lit(False)
        return rows.select(
            "*",
            F.row_number().over(in_order).alias("__turn"),
            F.first(_MINE).over(in_order).alias("__mine_first"),
            is_wide.alias("__is_wide"),
            F.max(F.col("__known").isNull()).over(of_key).alias("__has_new"),
        )

    def _refuse_undecidable(self, ranked: DataFrame) -> None:
        """Refuse events whose copies are further apart than the watermark, unless nothing changes of them."""
        wide = ranked.where("__is_wide")
        is_new = F.col("__has_new")
        if (lost := self._lost_keys) is not None:
            wide = wide.join(lost.withColumn("__is_lost", F.lit(True)), wide[KEY] == lost[_TODAY], "left")
            is_new |= F.col("__is_lost").isNotNull()
        found = wide.where(is_new).select(KEY).distinct()
        if count := found.count():
            silver = self.builder.silver
            some = ", ".join(row[0] for row in found.orderBy(KEY).limit(3).collect())
            raise UsageError(
                f"{silver.table}: {count:,} keys, such as {some}, have records whose event times are more "
                f"than the watermark of {silver.watermark} apart. Whether one of them is a duplicate "
                "depended on the state of the query when it was read. Nothing was written. A rebuild reads "
                f"all records in the order of arrival: medallion rebuild {silver.table}"
            )

    def _refuse_known_to_state(self, decided: DataFrame) -> None:
        """Refuse to take an event out of silver while the query would still drop a copy of it."""
        if self._lost_keys is None:
            return
        silver = self.builder.silver
        lost = self._former.where(~F.col(_STAYS)).select(F.col(_WAS).alias(KEY), "__was_at")
        gone = lost.join(decided.where(_MINE).select(KEY), KEY, "left_anti")
        stay = self._outside(self._silver)
        stay = stay.select(key_text(stay, silver.event_key).alias(KEY), *COORDINATES)
        stay = stay.join(decided.where(~F.col(_MINE)).select(*COORDINATES), list(COORDINATES), "left_anti")
        gone = gone.join(stay.select(KEY), KEY, "left_anti")
        until = F.unix_millis("__was_at") + length_of(silver.watermark).milliseconds
        count = gone.where(until >= (self.watermark_ms or 0)).select(KEY).distinct().count()
        if count:
            raise UsageError(
                f"{silver.table}: {count:,} event(s) would leave the table, and the state of its query still "
                "has their keys: a later copy of such an event would be dropped as a duplicate of a row that "
                "is not there. Nothing was written. Take an earlier --to, wait until the watermark has "
                f"passed these events by {silver.watermark}, or: medallion rebuild {silver.table}"
            )

    def _inside(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """The rows of a table whose records are judged again."""
        places = self._judged.select(*renamed(COORDINATES, names))
        return rows.join(places, list(names), "left_semi")

    def _outside(self, rows: DataFrame) -> DataFrame:
        return rows.join(self._judged.select(*COORDINATES), list(COORDINATES), "left_anti")


def rows_of_events(rows: DataFrame, judged: DataFrame, silver: Silver) -> DataFrame:
    """Those of silver's rows whose event is that of a judged row, with their key as text in ``KEY``.

    Files that cannot hold such a row are not read.
    """
    key = silver.event_key
    near = rows.where(reduce(and_, SparkRows(judged.select(*key)).bounds(key), F.lit(True)))
    found = near.withColumn(KEY, key_text(near, key))
    return found.join(judged.select(KEY).distinct(), KEY, "left_semi")


def persisted(stack: ExitStack, frame: DataFrame) -> DataFrame:
    """The rows of a frame, computed at most once until the end of the block."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    stack.callback(frame.unpersist)
    return frame
