"""``medallion rebuild silver.x``: fills a silver table again from bronze while its live query goes on.

The shadow is filled by the code of the live query, with the declaration of today, into tables and a
checkpoint of its own. It needs no lease of the live tables. Once the shadow has all that bronze has, the
switch needs the leases of the silver table and of its gold tables for a moment.

Whatever ends the command, the same command goes on: the shadow by its checkpoint, the switch by its record.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.paths import Layout, is_local
from common.config.settings import Settings
from common.declare import Gold, Pipeline, Silver
from common.delta.checkpoint import Checkpoint
from common.delta.lease.local_leases import Leases
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import commits_metadata, last_commit_metadata
from common.errors import LeaseHeldError, UsageError
from orchestration.access.declaration.last_declaration import described, recorded
from orchestration.change.rebuild.compare import Comparison, compare
from orchestration.change.rebuild.layout import ShadowLayout, lease_of, shadow_of
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
from orchestration.records.rejudge.stage import (
    Switch,
    keep_record,
    last_record,
    refuse_unfinished_restatement,
)
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from silver.write import first_load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild has done.

    Attributes:
        comparison: How the former rows and the new ones differ; None where a switch was only finished.
        again: Gold tables that the next start of the gold job fills again, because they cannot follow.
        by_hand: Gold tables that keep what they have made of the former rows, because the engine cannot fill
            them again: custom tables, and those that read silver's commits in the order of arrival.
    """

    comparison: Comparison | None
    again: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rebuild(ReplacedTable):
    @property
    def shadow(self) -> ShadowLayout:
        return shadow_of(self.layout, self.silver)

    @property
    def coming(self) -> str:
        """The checkpoint of the shadow."""
        return self.shadow.checkpoint_path(self.silver.table)

    def fill(self) -> None:
        """Read all that bronze has now into the shadow."""
        before = recorded(self.coming)
        now = described(self.silver, self.settings)
        if before is not None and (before.kind, before.attributes) != (now.kind, now.attributes):
            self.say(f"{self.silver.table}: the declaration has changed since the shadow was begun: again")
            self.remove_shadow()
        wiring = Wiring(self.spark, self.pipeline, self.settings, self.shadow, "")
        supervisor = Supervisor(
            self.spark, StopSignal(), stop_timeout_seconds=self.settings.stop_timeout_seconds
        )
        supervisor.start(wiring.streams("silver", only=self.silver.table), available_now=True)
        supervisor.run()

    def remove_shadow(self) -> None:
        """Delete the tables and the checkpoint of the shadow; a switch has copied their rows."""
        for table in self.tables:
            shutil.rmtree(self.shadow.table_path(table), ignore_errors=True)
        shutil.rmtree(self.coming, ignore_errors=True)

    def incoming(self) -> Incoming:
        """The shadow's rows and checkpoint."""
        path = self.shadow.table_path(self.silver.table)
        last = last_commit_metadata(path, self.silver.table)
        if last is None:
            raise UsageError(
                f"{self.silver.table}: no micro-batch has written the shadow, because {self.silver.reads} "
                "has no rows, or had none since the shadow's first load. Run the bronze job, then the same "
                "command again."
            )
        loaded = first_load.mark(path)
        rows = {
            name: self.spark.read.format("delta").load(self.shadow.table_path(name)) for name in self.tables
        }
        counts = None if loaded else total_counts(path, self.silver.table, last["query_id"])
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
        former = last_record(self.layout, self.silver.table, Switch)
        if former is not None and not former.is_done and former.query_id == query_id:
            return former
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        kept = f"{self.layout.checkpoint_path(self.silver.table)}__before_{stamp}"
        return Switch(query_id, self.versions(), kept, incoming.checkpoint, restores)

    def carry_known_keys(self) -> None:
        """Have the live query look up the keys of a first load, which the shadow's state does not know."""
        loaded = first_load.mark(self.shadow.table_path(self.silver.table))
        self.remember_keys(None if loaded is None else loaded.newest_ms)

    def leases(self) -> Leases:
        """The leases of the switch."""
        return Leases(self.layout.leases, written_tables(self.pipeline, self.silver), "rebuild")


def rebuild_silver(  # noqa: PLR0913, PLR0917  # the options of the command
    spark: SparkSession, pipeline: Pipeline, settings: Settings, layout: Layout, silver: Silver, say: Say
) -> Rebuilt:
    """Fill a silver table again, compare, and put the new rows in the place of the former ones.

    Args:
        spark: The session.
        pipeline: The pipeline with the declaration of today.
        settings: Its settings.
        layout: Where its tables are.
        silver: The table.
        say: Called with what is done, as sentences.

    Raises:
        LeaseHeldError: Another rebuild fills the shadow, or a job writes the table or a gold table of it when
            the shadow is complete. The shadow stays; the same command goes on.
        UsageError: There is nothing to rebuild, or the checkpoints are in an object store.
    """
    _require_local(layout, silver)
    refuse_unfinished_restatement(layout, silver.table)
    work = _Rebuild(spark, pipeline, settings, layout, silver, say)
    with ExitStack() as stack:
        stack.enter_context(Leases(layout.leases, (lease_of(silver),), "rebuild"))
        unfinished = last_record(layout, silver.table, Switch)
        is_cut_off = (
            unfinished is not None
            and not unfinished.is_done
            and has_rows_of(layout, silver, unfinished.query_id)
        )
        if not is_cut_off:
            say(f"{silver.table}: the shadow is filled from {silver.reads}")
            work.fill()
        try:
            stack.enter_context(work.leases())
        except LeaseHeldError as error:
            error.add_note("the shadow is complete, and stays")
            say(f"{silver.table}: the shadow is complete; the switch waits until its tables have no writer")
            raise
        if is_cut_off and unfinished is not None:
            say(f"{silver.table}: a switch that was cut off is finished")
            work.carry_known_keys()
            move_checkpoints(layout, silver, unfinished)
            work.remove_shadow()
            return Rebuilt(None)
        work.fill()  # what has come to bronze since; the live query has stopped before
        comparison = compare(spark, silver, {silver.table: work.path} | work.tables, work.shadow)
        stay = work.switch(work.incoming())
        work.remove_shadow()
    return _rebuilt(comparison, stay)


def undo(  # noqa: PLR0913, PLR0917  # the options of the command
    spark: SparkSession, pipeline: Pipeline, settings: Settings, layout: Layout, silver: Silver, say: Say
) -> Rebuilt:
    """Bring back the rows and the checkpoint from before the last rebuild.

    The live query then reads again what has come to bronze since the rebuild.

    Raises:
        LeaseHeldError: A job writes the table or a gold table of it.
        UsageError: There is no complete rebuild, or it was taken back.
    """
    _require_local(layout, silver)
    refuse_unfinished_restatement(layout, silver.table)
    work = _Rebuild(spark, pipeline, settings, layout, silver, say)
    last = last_record(layout, silver.table, Switch)
    source, versions = _way_back(last)
    if last is None or versions is None or not Path(source).exists():
        raise UsageError(
            f"{silver.table}: there is no rebuild to take back, or it was cut off. To finish one that was "
            f"cut off: medallion rebuild {silver.table}"
        )
    with Leases(layout.leases, (lease_of(silver),), "rebuild"), work.leases():
        former_id = Checkpoint(source).query_id() or ""
        metadata = next(
            (one for one in commits_metadata(work.path, silver.table) if one["query_id"] == former_id), None
        )
        if metadata is None:
            raise UsageError(f"{silver.table}: the log no longer has the commits from before the rebuild")
        rows = {
            name: spark.read.format("delta").option("versionAsOf", versions[name]).load(one)
            for name, one in work.tables.items()
        }
        counts = total_counts(work.path, silver.table, former_id)
        stay = work.switch(Incoming(rows, metadata, counts, source), versions)
    say(f"{silver.table}: version {versions[silver.table]} and its checkpoint are back")
    return _rebuilt(None, stay)


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
    if not is_local(layout.checkpoints) or not is_local(layout.warehouse):
        raise UsageError(
            f"{silver.table}: its tables or its checkpoint are in an object store, which cannot rename a "
            "folder. Declare the table under a new name."
        )
    if LogReader(layout.table_path(silver.table)).latest_version() is None:
        raise UsageError(f"{silver.table} does not exist yet: the next start of the silver job fills it")
