"""Erases records from bronze and from every silver table that reads it, by commits that streams accept.

Where a silver table reads several bronze tables, an erasure is of all of these, and of all silver tables that
read one of them: a copy of an event may have come by any.

The coordinates of the records are written to a folder beside the checkpoint of each bronze table first. So an
erasure that was cut off is finished by the next one, whatever that looks for. Bronze is written before
silver: until a silver table is done, its rows count as silver's in the audit, and no offset is missing at any
time. No commit says by which condition records were found, because the condition may name the person who is
to be forgotten.

Which records were erased is kept (``orchestration.access.progress.erased``): where one is there again, as
after a RESTORE, the audit says so, and any later erasure erases it again. The shadow of a rebuild, which may
have read erased records, is deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.config.paths import Layout
from common.declare import Pipeline, Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.lease.local_leases import Leases
from common.delta.log import LogReader
from common.errors import TableMissingError, UsageError, nearest
from common.machine.terminal import count_of
from common.rows.rows import Rows
from common.spark.step_progress import steps_reported
from orchestration.access.declaration.lineage import connected, read_by
from orchestration.access.progress.erased import erased_records, remember, staging
from orchestration.records.erasure.records import kept, matching_records
from orchestration.records.rejudge.followers import Follower, followers
from orchestration.records.rejudge.select import Say, coordinates_of, read_until, renamed
from orchestration.records.rejudge.shadow import lease_of, remove_shadow
from orchestration.records.rejudge.stage import StagedRows, refuse_unfinished
from silver.read.column_names import PLACE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY = "erasure"


@dataclass(frozen=True, slots=True)
class TableCount:
    """How many rows of a table are erased."""

    table: str
    rows: int  # those that it has before
    erased: int  # those that are erased
    again: int = 0  # of these, rows of records that were erased before


@dataclass(frozen=True, slots=True)
class Plan:
    """What an erasure does."""

    table: str  # the silver table whose columns the condition is about
    records: int  # number of records of Kafka that are erased
    # Each table that may hold such records, in the order in which they are erased.
    tables: tuple[TableCount, ...]
    # Number of records that an erasure before this one was to erase when it was cut off; they are among
    # ``records``. None if no erasure was cut off.
    cut_off: int | None
    followers: tuple[Follower, ...]  # gold tables and publications that read these tables
    # Why silver has yet to read records of bronze; empty if it has read all. Only a plan that nobody carries
    # out has a reason.
    unread: str = ""
    # Number of records that were erased before and are in a table again; they are among ``records``.
    again: int = 0


def select_table(pipeline: Pipeline, name: str) -> Silver:
    """The silver table of a name, with or without ``silver.``.

    Raises:
        UsageError: The pipeline declares no such silver table.
    """
    named = {each.table: each for each in pipeline.silver}
    found = named.get(name) or named.get(f"silver.{name}")
    if found is None:
        raise UsageError(
            f"{name} is no silver table of {pipeline.name}; {nearest(name, named)}. Records are found by "
            "silver's columns, and erased from bronze and from all silver tables that read it; gold follows."
        )
    return found


def readers_of_bronze(pipeline: Pipeline, layout: Layout, silver: Silver) -> tuple[Silver, ...]:
    """The silver tables that exist and may have a record of this one, the given one first.

    Raises:
        TableMissingError: The given table does not exist yet.
    """
    readers = connected(pipeline, silver)
    path = layout.table_path(silver.table)
    if not delta_table.exists(path):
        raise TableMissingError(silver.table, path, "There is nothing to erase.")
    others = (one for one in readers if one.table != silver.table)
    return (silver, *(one for one in others if delta_table.exists(layout.table_path(one.table))))


def written_tables(pipeline: Pipeline, silver: Silver) -> tuple[str, ...]:
    """The tables that may hold records, in the order of erasing: bronze, then each silver table's.

    They are the tables whose leases an erasure needs.
    """
    readers = connected(pipeline, silver)
    return (*read_by(readers), *(table for one in readers for table in (*one.side_tables, one.table)))


@dataclass(frozen=True)
class Erasure:
    """An erasure that is planned."""

    pipeline: Pipeline
    layout: Layout  # paths of the tables
    silver: Silver  # the table whose columns the condition is about
    plan: Plan  # what it does
    records: Rows  # topic, partition and offset of each record
    facts: dict[str, Any]  # its ``run_id``, and per bronze table the value of ``delta.appendOnly`` before it

    def carry_out(self, say: Say) -> None:
        """Erase the records; the caller holds the leases of ``written_tables``."""
        spark, append_only = self.records.session, self.facts["append_only"]
        staged = {table: _staged(self.layout, table) for table in append_only}
        for table, folder in staged.items():
            metadata = self._metadata(self.silver.table, self.plan.records, append_only=append_only[table])
            folder.write(self.records.frame, metadata, partition_by="topic")
        own = self._of_each_bronze(spark)
        for table, condition in own.items():
            remember(self.layout, table, self.records.frame.where(condition), self.facts["run_id"])
        for reader in connected(self.pipeline, self.silver):
            if remove_shadow(self.layout, reader):
                say(f"the shadow of {reader.table} was deleted: it may have read records that are erased")
        total = len(self.plan.tables)
        with ExitStack() as stack, steps_reported(spark, say) as begin:
            # Not the records as they were found: what is lost of these would be looked for in changed tables.
            records = kept(stack, staged[next(iter(staged))].rows(spark)).frame
            for number, one in enumerate(self.plan.tables, 1):
                if one.erased:
                    begin(f"{number} of {total}: erasing {one.erased:,} of {one.rows:,} rows of {one.table}")
                    self._erase(records.where(own.get(one.table, F.lit(True))), one)
        for bronze, former in append_only.items():
            if former is not None:
                values, path = {delta_table.APPEND_ONLY: former}, self.layout.table_path(bronze)
                delta_table.set_properties(spark, path, self._metadata(bronze, 0), values)
        for folder in staged.values():
            folder.discard(spark)

    def _of_each_bronze(self, spark: SparkSession) -> dict[str, Column]:
        """Per bronze table, which records are its own; those of a topic that none has are of the first.

        No two of them have records of the same topic.
        """
        first, *more = self.facts["append_only"]
        others: dict[str, Column] = {}
        for table in more:
            path = self.layout.table_path(table)
            has = delta_table.exists(path)
            rows = spark.read.format("delta").load(path).select("topic").distinct().collect() if has else ()
            others[table] = F.col("topic").isin(*(row[0] for row in rows))
        return {first: ~reduce(or_, others.values(), F.lit(False)), **others}

    def _erase(self, records: DataFrame, one: TableCount) -> None:
        path, is_bronze = self.layout.table_path(one.table), one.table in self.facts["append_only"]
        values = {delta_table.ERASED: datetime.now(UTC).isoformat(timespec="milliseconds")}
        if is_bronze:
            values[delta_table.APPEND_ONLY] = "false"
        delta_table.set_properties(records.sparkSession, path, self._metadata(one.table, 0), values)
        names = coordinates_of(one.table)
        rows = records.select(*renamed(PLACE, names))
        facts = {"lowest": _lowest(records)} if is_bronze else {}
        metadata = self._metadata(one.table, one.erased, one.again, **facts)
        delta_merge.delete_matching(rows, path, metadata, key=names)

    def _metadata(self, table: str, erased: int, again: int = 0, **more: Any) -> str:
        counts = {"erased": erased} | ({"again": again} if again else {})
        facts = {"run_id": self.facts["run_id"], "counts": counts, **more}
        return delta_table.maintenance_metadata(self.pipeline.name, table, _BY, **facts)


def require_erasable(pipeline: Pipeline, layout: Layout, silver: Silver, *, is_dry_run: bool) -> str:
    """Refuse what cannot be erased now. Call it before Spark's start, to refuse early.

    Returns:
        Why silver has yet to read records of bronze; empty if it has read all.

    Raises:
        CheckpointMismatchError: A rebuild or a restatement of a silver table was cut off.
        TableMissingError: The silver table does not exist yet.
        UsageError: Silver has yet to read records of bronze, and it is not only a plan.
    """
    readers = readers_of_bronze(pipeline, layout, silver)
    for one in readers:
        refuse_unfinished(layout, one.table)
    behind = next((why for one in readers if (why := unread(layout, one))), "")
    if behind and not is_dry_run:
        raise UsageError(
            f"{behind}: it would read them later from bronze's older files, erased or not. Nothing was "
            "erased. Have it read them first, with the bronze job stopped: "
            "medallion run silver --available-now"
        )
    return behind


@contextmanager
def planned(  # noqa: PLR0913  # one per option
    spark: SparkSession,
    pipeline: Pipeline,
    silver: Silver,
    layout: Layout,
    where: str,
    *,
    is_dry_run: bool,
    say: Say = lambda text: None,
) -> Iterator[Erasure]:
    """The erasure of all records that match a condition; nothing is written before ``carry_out``.

    Args:
        silver: The table whose columns the condition is about.
        where: SQL condition over silver's columns.
        is_dry_run: The plan is only shown: silver need not have read all of bronze.

    Raises:
        TableMissingError: The silver table does not exist yet.
        CheckpointMismatchError: A rebuild or a restatement of a silver table was cut off.
        LeaseHeldError: A rebuild fills the shadow of a silver table.
        UsageError: ``where`` is no condition over silver's columns, or silver has yet to read records of
            bronze.
    """
    readers = readers_of_bronze(pipeline, layout, silver)
    behind = require_erasable(pipeline, layout, silver, is_dry_run=is_dry_run)
    bronze = read_by(connected(pipeline, silver))
    facts, staged = _cut_off(spark, layout, bronze)
    with ExitStack() as stack:
        if not is_dry_run:
            shadows = [lease_of(one) for one in readers]
            stack.enter_context(Leases(layout.leases, shadows, "erase"))
        cut_off = None
        with steps_reported(spark, say) as begin:
            records = matching_records(stack, spark, silver, readers, layout, where=where, say=begin)
            if staged is not None:
                cut_off = staged.count()
                records = kept(stack, records.frame.union(staged).distinct())
            back = _there_again(stack, spark, layout, bronze, written_tables(pipeline, silver))
            if back is not None:
                records = kept(stack, records.frame.union(back.frame).distinct())
            begin("counting the rows to erase, per table")
            tables = tuple(_counts(spark, layout, records, back, written_tables(pipeline, silver)))
        changed = [one.table for one in tables if one.erased or cut_off is not None]
        follow = tuple(followers(pipeline, layout, changed))
        plan = Plan(
            silver.table, records.count, tables, cut_off, follow, behind, 0 if back is None else back.count
        )
        yield Erasure(pipeline, layout, silver, plan, records, facts)


def _cut_off(
    spark: SparkSession, layout: Layout, bronze: Sequence[str]
) -> tuple[dict[str, Any], DataFrame | None]:
    """The facts and records of an erasure that was cut off; else the facts of a new one, and None.

    Each folder has all of its records: it may have been cut off after the first one.
    """
    staged = {table: _staged(layout, table) for table in bronze}
    told = {table: facts for table, one in staged.items() if (facts := one.facts()) is not None}
    append_only = {
        table: told[table].get("append_only") if table in told else _append_only(layout, table)
        for table in bronze
    }
    run_ids = [facts["run_id"] for facts in told.values()]
    if not told:
        return {"run_id": uuid.uuid4().hex, "append_only": append_only}, None
    records = reduce(DataFrame.unionAll, (staged[table].rows(spark).select(*PLACE) for table in told))
    return {"run_id": run_ids[0], "append_only": append_only}, records.distinct()


def _append_only(layout: Layout, table: str) -> str | None:
    return LogReader(layout.table_path(table)).properties().get(delta_table.APPEND_ONLY)


def _lowest(records: DataFrame) -> dict[str, dict[str, int]]:
    """The lowest offset by topic and partition: the audit counts from there once the files are deleted."""
    lowest: dict[str, dict[str, int]] = {}
    for row in records.groupBy("topic", "partition").agg(F.min("offset")).collect():
        lowest.setdefault(str(row[0]), {})[str(row[1])] = int(row[2])
    return lowest


def _staged(layout: Layout, bronze: str) -> StagedRows:
    """An erasure's coordinates; one folder per bronze table, whatever silver table it looks in."""
    return StagedRows(staging(layout, bronze))


def _there_again(
    stack: ExitStack, spark: SparkSession, layout: Layout, bronze: Sequence[str], tables: Sequence[str]
) -> Rows | None:
    """The records of former erasures that one of the tables has; None if there are none."""
    before = [one for table in bronze if (one := erased_records(spark, layout, table)) is not None]
    if not before or not (erased := kept(stack, reduce(DataFrame.unionAll, before).distinct())).count:
        return None
    found = []
    for table in tables:
        path, names = layout.table_path(table), coordinates_of(table)
        if delta_table.exists(path):
            own = erased.renamed(dict(zip(PLACE, names, strict=True)))
            rows = delta_merge.frame_with_keys(spark.read.format("delta").load(path), own, names)
            found.append(rows.select(*renamed(names, PLACE)))
    back = kept(stack, reduce(DataFrame.unionAll, found).distinct())
    return back if back.count else None


def _counts(
    spark: SparkSession, layout: Layout, records: Rows, back: Rows | None, tables: Sequence[str]
) -> Iterator[TableCount]:
    """How many rows of each existing table are erased; pruned by the bounds of the coordinates.

    Args:
        back: Those of them that were erased before; None if there are none.
    """
    for table in tables:
        path = layout.table_path(table)
        now = LogReader(path).snapshot()
        if now is None:
            continue
        rows = spark.read.format("delta").load(path)
        names = coordinates_of(table)
        own = dict(zip(PLACE, names, strict=True))
        erased, again = (
            delta_merge.frame_with_keys(rows, one.renamed(own), names).count()
            if one is not None and one.count
            else 0
            for one in (records, back)
        )
        total = now.rows if now.rows is not None else rows.count()
        yield TableCount(table, total, erased, again)


def unread(layout: Layout, silver: Silver) -> str:
    """Why a silver table has yet to read records of bronze, in words; empty if it has read all."""
    now = read_until(layout, silver)
    if now.unfinished:
        return (
            f"the {now.unfinished} of {silver.table} is not finished, and has records of {silver.read_text}"
        )
    # Without a position, its first start loads the newest version of bronze.
    for source, position in zip(silver.sources, now.positions, strict=False):
        waiting = LogReader(layout.table_path(source)).backlog(position)
        if waiting.files:
            rows = "records" if waiting.rows is None else count_of(waiting.rows, "records")
            return f"{silver.table} has yet to read {rows} of {source}"
    return ""
