"""Carries out the recovery of a pipeline that ``orchestration.change.recover.remedies`` has planned."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import DeltaTable, Pipeline, Stateful, Topic
from common.delta import delta_rs
from common.delta.checkpoint import Checkpoint, follow_move
from common.delta.lease.job_leases import TableLeases
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.checkpoint_repair import repair
from common.errors import UsageError
from orchestration.access.declaration.lineage import written_by
from orchestration.change.recover.accept_gap import Accepted, accept_gaps
from orchestration.change.recover.accept_versions import accept_versions
from orchestration.change.recover.damage import SparkSource
from orchestration.change.recover.lost_records import Ask
from orchestration.change.recover.remedies import Step, plan
from orchestration.run.job import spark_for_reading
from orchestration.run.start_checks import published_locks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_ROUNDS = 3
"""A repair may show what it has hidden before; a second plan finds it."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery, or of a plan."""

    steps: tuple[Step, ...]  # in data order; empty where nothing is damaged
    kept: tuple[str, ...] = ()  # the folders with what was replaced or moved aside


def recover_all(  # noqa: PLR0913  # the options of the command
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    *,
    only: str | None = None,
    is_plan: bool = False,
    spark: SparkSource | None = None,
    ask: Ask | None = None,
    say: Callable[[tuple[Step, ...]], None] = lambda steps: None,
) -> Recovered:
    """Make whatever is gone or damaged right again, or say what would be done.

    Args:
        pipeline: The pipeline; its jobs must be stopped.
        only: A query to look at; its readers are included where it is filled again.
        is_plan: Change nothing.
        spark: Gives a session; unset: one is started if a state is to be read.
        ask: Asks the broker for what it still has; None: it is not asked.
        say: Called with the steps before they are carried out.

    Raises:
        CheckpointMismatchError: A bronze table cannot be made again from what is left.
        LeaseHeldError: A job writes one of the tables, or publishes to one of the folders.
        PipelineError: The pipeline declares no query of that name.
        UsageError: A folder that must be moved is in an object store.
    """
    if only is not None:
        pipeline.query(only)
    with ExitStack() as stack:
        source = spark or _lazy_spark(pipeline, settings, stack)
        if is_plan:
            return Recovered(plan(pipeline, layout, source, only=only, ask=ask))
        published = published_locks(pipeline.publish)  # jobs of other data folders write there, too
        stack.enter_context(TableLeases(layout, _written(pipeline, layout), "recover", published=published))
        _roll_back_torn_commits(pipeline, layout)
        for declared in pipeline.gold:
            if isinstance(declared, Stateful):
                follow_move(layout.checkpoint_path(declared.table))
        done: list[Step] = []
        kept: list[str] = []
        for _ in range(_MOST_ROUNDS):
            steps = plan(pipeline, layout, source, only=only, ask=ask)
            if not steps:
                break
            say(steps)
            stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
            for step in reversed(steps):
                kept += _carry_out(layout, step, stamp)
            done += steps
        return Recovered(tuple(done), tuple(kept))


def accept_all_gaps(  # noqa: PLR0913  # the options of the command
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    *,
    only: str | None = None,
    is_plan: bool = False,
    spark: SparkSource | None = None,
) -> tuple[Accepted, ...]:
    """Accept what bronze has lost as lost, for one bronze table or for all that have read records.

    Raises:
        BrokerError: The broker does not answer.
        CheckpointMismatchError: The checkpoint of a table is not the table's.
        LeaseHeldError: A job writes one of the tables.
        PipelineError: The pipeline declares no table of that name.
        UsageError: The table is no bronze table, or has read nothing yet.
    """
    if only is not None and not isinstance(pipeline.query(only), Topic | DeltaTable):
        raise UsageError(f"{only} reads no topic and no Delta table: --accept-gap is for those of bronze.")
    known: tuple[Topic | DeltaTable, ...] = (*pipeline.topics, *pipeline.delta_tables)
    chosen = [
        bronze for bronze in known if bronze.table == only or (only is None and _has_read(layout, bronze))
    ]
    with ExitStack() as stack:
        source = spark or _lazy_spark(pipeline, settings, stack)
        return tuple(
            accept_versions(pipeline, settings, layout, bronze, is_plan=is_plan)
            if isinstance(bronze, DeltaTable)
            else accept_gaps(pipeline, settings, layout, bronze, source, is_plan=is_plan)
            for bronze in chosen
        )


def _has_read(layout: Layout, bronze: Topic | DeltaTable) -> bool:
    return last_commit_metadata(layout.table_path(bronze.table), bronze.table) is not None


def _carry_out(layout: Layout, step: Step, stamp: str) -> list[str]:
    """Do one step; returns the folders with what it has replaced."""
    if step.kind == "repair":
        kept = repair(step.folder or layout.checkpoint_path(step.query), step.changes, stamp)
        return [kept] if kept is not None else []
    moved = []
    for path in step.moves:
        aside = Path(f"{path}__before_{stamp}")
        Path(path).rename(aside)
        moved.append(str(aside))
    return moved


def _written(pipeline: Pipeline, layout: Layout) -> tuple[str, ...]:
    """All tables and publications that a recovery may change."""
    names = (name for one in pipeline.tables for name in written_by(one))
    own = (name for name in names if layout.bronze is None or not name.startswith("bronze."))
    return (*own, *(one.table for one in pipeline.publish))


def _roll_back_torn_commits(pipeline: Pipeline, layout: Layout) -> None:
    """Take back commits that a power cut has torn, and hints that lead nowhere, as a start does."""
    for declared in pipeline.tables if layout.bronze is None else ():
        checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
        for table in written_by(declared):
            path = layout.table_path(table)
            delta_rs.delete_dangling_hint(path)
            delta_rs.roll_back_torn_commit(path, checkpoint.query_id(), checkpoint.last_committed())


def _lazy_spark(pipeline: Pipeline, settings: Settings, stack: ExitStack) -> SparkSource:
    """Gives a session that is started at the first call and ends with the stack."""
    session: list[SparkSession] = []

    def get() -> SparkSession:
        if not session:
            session.append(stack.enter_context(spark_for_reading(pipeline, settings, name="recover")))
        return session[0]

    return get
