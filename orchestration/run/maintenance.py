"""Maintenance of tables: compacts small files and deletes old files that no query needs.

One process writes a table: the maintenance of a table is done by its job, or by a command while its job is
stopped. Old files are deleted only when every query that reads the table has read past them. A silver table
that is added after that loads bronze from a snapshot, by event time (``silver.write.first_load``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from common.config.paths import Layout, all_tables
from common.declare import Join, Pipeline, Publish, Silver
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position
from common.delta.commit import count_rows
from common.delta.log import LogReader, Snapshot
from common.delta.maintenance import compaction
from common.delta.maintenance.retention import EXPIRED, FILES, retention
from common.delta.published_pointer import SUFFIX, read_published
from common.errors import UsageError, nearest
from gold.table.compact_every import clustered_by
from orchestration.access.declaration.lineage import Reader, readers, sources
from orchestration.records.audit.audit import Say
from orchestration.records.expiry.carry_out import carry_out, is_cut_off
from orchestration.records.expiry.choose import Expiry, plan_expiry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """The result of a table's maintenance, or its plan."""

    table: str
    before: Snapshot | None  # the table before maintenance; None if it does not exist
    after: Snapshot | None = None  # the table after maintenance; None if nothing was done
    deleted: int | None = None  # number of old files deleted; None if old files were not deleted
    kept_because: str = ""  # why old files are kept; empty if they may be deleted
    # Number of records that retention deleted from a bronze table; None for a table without ``Topic.keep``.
    expired: int | None = None
    expired_because: str = ""  # why expired records stay; empty if none stays


def select_tables(pipeline: Pipeline, names: Sequence[str]) -> tuple[str, ...]:
    """The named tables, or all tables of the pipeline if no name is given.

    Raises:
        UsageError: The pipeline declares no table of that name.
    """
    known = all_tables(pipeline)
    for name in names:
        if name not in known:
            raise UsageError(f"{name!r} is no table of the pipeline; {nearest(name, known)}")
    return tuple(dict.fromkeys(names)) or known


def plan_maintenance(
    pipeline: Pipeline, layout: Layout, table: str, *, at_once: bool = False
) -> MaintenanceResult:
    """The current state of a table, and the reason to keep its old files; changes nothing.

    Args:
        at_once: Old files may be deleted before their retention has passed.
    """
    log = LogReader(layout.table_path(table))
    now = log.snapshot()
    if now is None:
        return MaintenanceResult(table, None)
    keeps = timedelta(0) if at_once else retention(log.properties(), FILES)
    return MaintenanceResult(table, now, kept_because=_needed(pipeline, layout, table, log, now, keeps))


def plan_retention(  # noqa: PLR0913
    spark: SparkSession,
    pipeline: Pipeline,
    layout: Layout,
    table: str,
    *,
    accepted: Collection[str] = (),
    say: Say = lambda text: None,
) -> Expiry | None:
    """What retention deletes from a table (``orchestration.records.expiry.choose``); None if it keeps all.

    Audits the silver tables that read it; needs no turn of a query.
    """
    topic = next((one for one in pipeline.bronze if one.table == table), None)
    if topic is None or (topic.keep is None and not is_cut_off(layout.table_path(table))):
        return None
    return plan_expiry(spark, pipeline, layout, topic, accepted=accepted, say=say)


def maintain(  # noqa: PLR0913
    spark: SparkSession,
    pipeline: Pipeline,
    layout: Layout,
    table: str,
    *,
    at_once: bool = False,
    expiry: Expiry | None = None,
) -> MaintenanceResult:
    """Compact a table, and delete its old files unless a query needs them. The caller holds its lease.

    Args:
        at_once: Delete old files before their retention has passed: no older version can be read afterwards.
        expiry: The expired records that are deleted first.
    """
    plan, path = plan_maintenance(pipeline, layout, table, at_once=at_once), layout.table_path(table)
    if plan.before is None:
        return plan
    expired = None if expiry is None else carry_out(spark, pipeline.name, path, expiry)
    metadata = delta_table.maintenance_metadata(pipeline.name, table, "compaction")
    writer = next((one for one in pipeline.tables if table in {one.table, *one.side_tables}), None)
    columns = () if writer is None else clustered_by(writer, table)
    compaction.compact(spark, path, metadata, cluster_by=columns)
    deleted = None if plan.kept_because else compaction.vacuum(spark, path, metadata, at_once=at_once)
    return MaintenanceResult(
        table,
        plan.before,
        LogReader(path).snapshot(),
        deleted,
        plan.kept_because,
        None if expired is None else count_rows(expired),
        "" if expiry is None else expiry.kept_because,
    )


def reason_to_keep_files(pipeline: Pipeline, layout: Layout, table: str) -> str:
    """The reason to keep the old files of a table; empty if no query needs them, or there is no table."""
    return plan_maintenance(pipeline, layout, table).kept_because


def _needed(  # noqa: PLR0913, PLR0917  # what a table's old files are needed for
    pipeline: Pipeline, layout: Layout, table: str, log: LogReader, now: Snapshot, keeps: timedelta
) -> str:
    """The reason to keep files of a table that are older than ``keeps``; empty if no query needs them."""
    properties = log.properties() if table.startswith("bronze.") else {}
    is_rewritten = delta_table.ERASED in properties or EXPIRED in properties
    oldest = datetime.now(UTC) - keeps
    if (needed := _needed_by_readers(layout, table, log, now, oldest)) is not None:
        return needed
    for reader in _readers(pipeline, table):
        version = _next_version(layout, reader, log, now.table_id)
        has_begun = version > 0
        if is_rewritten and Checkpoint(layout.checkpoint_path(reader.table)).last_planned() is None:
            continue  # its first load reads the newest version
        version = _first_with_rows(log, version, is_change_skipped=_skips_changes(reader))
        if version > now.version:
            continue
        commit = log.commit(version)
        if commit is None or commit.timestamp < oldest:
            state = f"has yet to read its version {version}" if has_begun else "has not begun to read it"
            return f"{reader.table} {state}; let the job of {reader.table} catch up first"
    return ""


def _needed_by_readers(
    layout: Layout, table: str, log: LogReader, now: Snapshot, oldest: datetime
) -> str | None:
    """The reason to keep files of the version that a quality gate has published."""
    published = read_published(layout.table_path(table))
    if published is None or published.table_id != now.table_id or published.version >= now.version:
        return None
    commit = log.commit(published.version + 1)
    if commit is not None and commit.timestamp >= oldest:
        return None  # no file of that version is older than the retention
    return (
        f"readers of {table}{SUFFIX} read its version {published.version}, and no newer one has passed its "
        f"suite; see: medallion quality status {table}"
    )


def _skips_changes(reader: Reader | Publish) -> bool:
    """Whether a query never reads commits that remove rows."""
    if isinstance(reader, Silver):
        return True
    if isinstance(reader, Publish):
        return False
    return not reader.reads_removals


def _first_with_rows(log: LogReader, version: int, *, is_change_skipped: bool) -> int:
    """The first version, from ``version`` on, whose commit a reader takes rows from."""
    while (commit := log.commit(version)) is not None:
        if (commit.added or commit.removed) and not (commit.is_change and is_change_skipped):
            break
        version += 1
    return version


def _readers(pipeline: Pipeline, table: str) -> Iterator[Reader | Publish]:
    """The queries that read a table as a stream; a lookup join reads only the newest version of its table."""
    for reader in (*readers(pipeline), *pipeline.publish):
        is_looked_up = isinstance(reader, Join) and reader.mode == "lookup" and reader.reads != table
        if table in sources(reader) and not is_looked_up:
            yield reader


def _next_version(layout: Layout, reader: Reader | Publish, log: LogReader, table_id: str) -> int:
    """The oldest version whose files a query still has to read; 0 before its first finished micro-batch."""
    checkpoint = Checkpoint(layout.checkpoint_path(reader.table))
    entry = checkpoint.planned_batch(checkpoint.last_committed())
    positions = (delta_position(entry, number) for number in range(len(entry.sources))) if entry else ()
    found = [_after(log, one) for one in positions if one is not None and one.table_id == table_id]
    return min(found, default=0)


def _after(log: LogReader, position: DeltaPosition) -> int:
    """The version that a query at a position reads next.

    A stream of the change data feed may stop behind the last file of a commit instead of before the next
    commit.
    """
    commit = None if position.in_snapshot or position.index < 0 else log.commit(position.version)
    if commit is None:
        return position.version
    files = commit.change_files or len(commit.added) + len(commit.removed)
    return position.version + (position.index + 1 >= files)
