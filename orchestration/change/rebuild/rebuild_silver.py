"""``medallion rebuild silver.x``: fills a silver table again from bronze while its live query goes on.

The shadow is filled by the code of the live query, with the declaration of today, into tables and a
checkpoint of its own. It needs no lease of the live tables. Once the shadow has all that bronze has, the
switch needs the leases of the silver table and of its gold tables for a moment.

Whatever ends the command, the same command goes on: the shadow by its checkpoint, the switch by its record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from common.config.paths import Layout, is_local
from common.config.settings import Settings
from common.declare import Gold, Pipeline, Silver
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.lease.local_leases import Leases
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.delta.match.checkpoint_match import commits_metadata, last_commit_metadata
from common.errors import LeaseHeldError, UsageError, first_line
from orchestration.access.declaration.last_declaration import described, recorded
from orchestration.change.rebuild.compare import Comparison, compare
from orchestration.change.rebuild.expired_rows import expired_rows, refuse_other_columns, with_expired
from orchestration.change.rebuild.switch import (
    Incoming,
    has_rows_of,
    move_checkpoints,
    total_counts,
    write_rows,
)
from orchestration.records.rejudge.apply import ReplacedTable, has_columns
from orchestration.records.rejudge.followers import cannot_follow, fill_again, filled_again, written_tables
from orchestration.records.rejudge.select import Say
from orchestration.records.rejudge.shadow import ShadowLayout, lease_of, remove_shadow, shadow_of
from orchestration.records.rejudge.stage import (
    Restatement,
    Switch,
    keep_record,
    last_record,
    refuse_unfinished,
    unfinished,
)
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from silver.read.column_names import COORDINATES
from silver.write import first_load
from silver.write.table_columns import check_each

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild has done."""

    # How the former rows and the new ones differ; None where a switch was only finished.
    comparison: Comparison | None
    # Gold tables that the next start of the gold job fills again, because they cannot follow.
    again: tuple[str, ...] = ()
    # Gold tables that keep what they have made of the former rows, because the engine cannot fill them again:
    # custom tables, and those that read silver's commits in the order of arrival.
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rebuild(ReplacedTable):
    drops_expired: bool = False

    @property
    def shadow(self) -> ShadowLayout:
        return shadow_of(self.layout, self.silver)

    @property
    def coming(self) -> str:
        """The checkpoint of the shadow."""
        return self.shadow.checkpoint_path(self.silver.table)

    def fill(self) -> int:
        """Read all that bronze has now into the shadow; a version of bronze from before."""
        check_each(self.silver, self.path)
        version = LogReader(self.layout.table_path(self.silver.sources[0])).latest_version() or 0
        before = recorded(self.coming)
        now = described(self.silver, self.settings)
        if before is not None and (before.kind, before.attributes) != (now.kind, now.attributes):
            self.say(f"{self.silver.table}: the declaration has changed since the shadow was begun: again")
            self.remove_shadow()
        elif before is not None and self._has_read_expired():
            self.say(f"{self.silver.table}: records have expired since the shadow was begun: again")
            self.remove_shadow()
        wiring = Wiring(self.spark, self.pipeline, self.settings, self.shadow, "")
        supervisor = Supervisor(
            self.spark, StopSignal(), stop_timeout_seconds=self.settings.stop_timeout_seconds
        )
        supervisor.start(wiring.streams("silver", only=self.silver.table), available_now=True)
        supervisor.run()
        return version

    def _has_read_expired(self) -> bool:
        """Whether the shadow may have read records that retention has deleted since."""
        loaded = first_load.mark(self.shadow.table_path(self.silver.table))
        for place, source in enumerate(self.silver.sources):
            log = LogReader(self.layout.table_path(source))
            version = -1 if loaded is None else loaded.bronze_versions[place]
            if expired_topics(log.properties()) and _has_commit(log.path, version, "retention"):
                return True
        return False

    def expired(self, version: int, say: Say) -> dict[str, DataFrame]:
        """The rows that are carried over, of each live table that has any; says how many there are.

        Raises:
            UsageError: There are such rows, and they do not fit the declared columns.
        """
        found = expired_rows(self.spark, self.layout, self.silver, version)
        numbers = {table: count for table, rows in found.items() if (count := rows.count())}
        done = "left out" if self.drops_expired else "carried over"
        for table, count in numbers.items():
            say(f"{count:,} rows of {table}, of records that have expired in bronze, are {done}")
        if not numbers or self.drops_expired:
            return {}
        shaped = sum(numbers.get(table, 0) for table in (self.silver.table, self.silver.late_table))
        if shaped:
            shadow = delta_table.newest(self.spark, self.shadow.table_path(self.silver.table))
            refuse_other_columns(shadow, found[self.silver.table], self.silver, shaped)
        return {table: found[table] for table in numbers}

    def remove_shadow(self) -> None:
        """Delete the shadow; a switch has copied its rows."""
        remove_shadow(self.layout, self.silver)

    def incoming(self, version: int) -> Incoming:
        """The rows that come, of the shadow and of records that had expired in a version of bronze."""
        path = self.shadow.table_path(self.silver.table)
        last = last_commit_metadata(path, self.silver.table)
        if last is None:
            raise UsageError(
                f"{self.silver.table}: no micro-batch has written the shadow, because "
                f"{self.silver.read_text} has no rows, or had none since the shadow's first load. "
                "Run the bronze job, then the same command again."
            )
        loaded = first_load.mark(path)
        rows = {
            name: self.spark.read.format("delta").load(self.shadow.table_path(name)) for name in self.tables
        }
        counts = None if loaded else total_counts(path, self.silver.table, last["query_id"])
        if expired := self.expired(version, lambda _: None):  # said when the shadow was first filled
            rows = with_expired(rows, expired, delta_table.newest(self.spark, self.path), self.silver)
        if self.silver.storage.foreign is not None:
            others = delta_table.newest(self.spark, self.path).where(f"{COORDINATES[0]} is null")
            rows[self.silver.table] = rows[self.silver.table].unionByName(others, allowMissingColumns=True)
        return Incoming(rows, last, counts, self.coming)

    def switch(self, incoming: Incoming, restores: Mapping[str, int] | None = None) -> tuple[Gold, ...]:
        """Put rows and checkpoint in the place of the live ones; the gold tables that cannot follow."""
        switch = self.record(incoming, restores)
        is_same_shape = has_columns(self.path, incoming.rows[self.silver.table])
        stay = cannot_follow(self.pipeline, self.layout, self.silver, is_same_shape=is_same_shape)
        keep_record(self.layout, self.silver.table, switch)
        fill_again(self.layout, stay)
        write_rows(self.layout, self.silver, incoming)
        self.carry_known_keys()
        move_checkpoints(self.layout, self.silver, switch)
        return stay

    def record(self, incoming: Incoming, restores: Mapping[str, int] | None) -> Switch:
        """The record of a switch; of one that was cut off, with the versions from before it began."""
        query_id = str(incoming.metadata["query_id"])
        former = unfinished(self.layout, self.silver.table, Switch)
        if former is not None and former.query_id == query_id:
            return former
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        kept = f"{self.layout.checkpoint_path(self.silver.table)}__before_{stamp}"
        bronze = LogReader(self.layout.table_path(self.silver.sources[0])).latest_version()
        return Switch(query_id, self.versions(), kept, incoming.checkpoint, restores, bronze_version=bronze)

    def carry_known_keys(self) -> None:
        """Have the live query look up the keys of rows that the shadow's state does not know.

        They are those of its first load, and of rows that were carried over.
        """
        loaded = first_load.mark(self.shadow.table_path(self.silver.table))
        newest_ms = None if loaded is None else loaded.newest_ms
        if rows := expired_rows(self.spark, self.layout, self.silver):
            at = F.ceil(F.unix_micros(self.silver.event_time) / 1000)
            carried = rows[self.silver.table].agg(F.max(at)).collect()[0][0]
            newest_ms = max((ms for ms in (newest_ms, carried) if ms is not None), default=None)
        self.remember_keys(newest_ms)

    def leases(self) -> Leases:
        """The leases of the switch."""
        tables = written_tables(self.pipeline, self.silver, is_same_shape=False)
        return Leases(self.layout.leases, tables, "rebuild")


def rebuild_silver(  # noqa: PLR0913, PLR0917  # the options of the command
    spark: SparkSession,
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    silver: Silver,
    say: Say,
    *,
    drops_expired: bool = False,
) -> Rebuilt:
    """Fill a silver table again, compare, and put the new rows in the place of the former ones.

    Args:
        pipeline: The pipeline with the declaration of today.
        drops_expired: Leave rows out whose records have expired in bronze; else they are carried over.

    Raises:
        TableShapeError: The table has rows of other elements than the declaration says.
        LeaseHeldError: Another rebuild fills the shadow, or a job writes the table or a gold table of it when
            the shadow is complete. The shadow stays; the same command goes on.
        UsageError: There is nothing to rebuild; the checkpoints are in an object store; or rows of expired
            records do not fit the declared columns.
    """
    _require_local(layout, silver)
    refuse_unfinished(layout, silver.table, Restatement)
    work = _Rebuild(spark, pipeline, settings, layout, silver, say, drops_expired)
    with ExitStack() as stack:
        stack.enter_context(Leases(layout.leases, (lease_of(silver),), "rebuild"))
        begun = unfinished(layout, silver.table, Switch)
        if begun is not None and not has_rows_of(layout, silver, begun.query_id):
            begun = None
        if begun is None:
            say(f"{silver.table}: the shadow is filled from {silver.read_text}")
            work.expired(work.fill(), say)
        try:
            stack.enter_context(work.leases())
        except LeaseHeldError as error:
            error.add_note("the shadow is complete, and stays")
            say(f"{silver.table}: the shadow is complete; the switch waits until its tables have no writer")
            raise
        if begun is not None:
            say(f"{silver.table}: a switch that was cut off is finished")
            work.carry_known_keys()
            move_checkpoints(layout, silver, begun)
            work.remove_shadow()
            return Rebuilt(None)
        version = work.fill()  # what has come to bronze since; the live query has stopped before
        incoming = work.incoming(version)
        comparison = compare(spark, silver, {silver.table: work.path} | work.tables, incoming.rows)
        stay = work.switch(incoming)
        work.remove_shadow()
    return _rebuilt(comparison, stay)


def undo(  # noqa: PLR0913, PLR0917  # the options of the command
    spark: SparkSession, pipeline: Pipeline, settings: Settings, layout: Layout, silver: Silver, say: Say
) -> Rebuilt:
    """Bring back the rows and the checkpoint from before the last rebuild.

    The live query then reads again what has come to bronze since the rebuild.

    Raises:
        LeaseHeldError: A job writes the table or a gold table of it.
        UsageError: There is no complete rebuild; records were erased after it; or files of the former
            versions are deleted.
    """
    _require_local(layout, silver)
    refuse_unfinished(layout, silver.table, Restatement)
    work = _Rebuild(spark, pipeline, settings, layout, silver, say)
    last = last_record(layout, silver.table, Switch)
    source, versions = _way_back(last)
    if last is None or versions is None or not Path(source).exists():
        raise UsageError(
            f"{silver.table}: there is no rebuild to take back, or it was cut off. To finish one that was "
            f"cut off: medallion rebuild {silver.table}"
        )
    _refuse_erased(layout, silver, last)
    with Leases(layout.leases, (lease_of(silver),), "rebuild"), work.leases():
        former_id = Checkpoint(source).query_id() or ""
        metadata = next(
            (one for one in commits_metadata(work.path, silver.table) if one["query_id"] == former_id), None
        )
        if metadata is None:
            raise UsageError(f"{silver.table}: the log no longer has the commits from before the rebuild")
        rows = _former_rows(work, versions)
        counts = total_counts(work.path, silver.table, former_id)
        stay = work.switch(Incoming(rows, metadata, counts, source), versions)
    say(f"{silver.table}: version {versions[silver.table]} and its checkpoint are back")
    return _rebuilt(None, stay)


def _former_rows(work: _Rebuild, versions: Mapping[str, int]) -> dict[str, DataFrame]:
    """The rows of former versions, none of whose files is deleted."""
    rows, why = {}, ""
    for name, path in work.tables.items():
        reader = work.spark.read.format("delta").option("versionAsOf", versions[name])
        try:
            rows[name] = reader.load(path)
        except PySparkException as error:
            why = why or first_line(error)
        else:
            files = (unquote(urlsplit(file).path) for file in rows[name].inputFiles())
            why = why or next((f"{file} is deleted" for file in files if not Path(file).exists()), "")
    if why:
        raise UsageError(
            f"{work.silver.table}: the rows from before the rebuild are gone: {why}. Nothing was written. To "
            "have the former declaration again, put the former pipeline file in place, and: medallion "
            f"rebuild {work.silver.table}"
        )
    return rows


def _refuse_erased(layout: Layout, silver: Silver, last: Switch) -> None:
    """Refuse to bring back rows, and to read again files of bronze, from before an erasure."""
    bronze = {silver.source: last.bronze_version or 0} if len(silver.sources) == 1 else {}
    versions = {**bronze, **last.versions}
    if any(_has_commit(layout.table_path(table), version, "erasure") for table, version in versions.items()):
        raise UsageError(
            f"{silver.table}: records were erased after the rebuild, and its former rows would bring them "
            "back. Nothing was written. To have the former declaration again, put the former pipeline file "
            f"in place, and: medallion rebuild {silver.table}"
        )


def _has_commit(path: str, version: int, by: str) -> bool:
    """Whether a table has a commit after a version, by an operation of the engine."""
    log = LogReader(path)
    first = max(version + 1, log.oldest_version() or 0)
    return any(one.metadata.get("by") == by for one in log.commits(first))


def _way_back(last: Switch | None) -> tuple[str, Mapping[str, int] | None]:
    """The checkpoint that an undo brings back, and the versions of the tables that belong to it."""
    if last is None:
        return "", None
    if last.is_done:
        return last.kept, last.versions
    return last.coming, last.restores


def _rebuilt(comparison: Comparison | None, stay: Sequence[Gold]) -> Rebuilt:
    again, by_hand = filled_again(stay)
    return Rebuilt(comparison, again, by_hand)


def _require_local(layout: Layout, silver: Silver) -> None:
    layout.require_own((silver.table,))
    if not is_local(layout.checkpoint_path(silver.table)) or not is_local(layout.warehouse):
        raise UsageError(
            f"{silver.table}: its tables or its checkpoint are in an object store, which cannot rename a "
            "folder. Declare the table under a new name."
        )
    if LogReader(layout.table_path(silver.table)).latest_version() is None:
        raise UsageError(f"{silver.table} does not exist yet: the next start of the silver job fills it")
