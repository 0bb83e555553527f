"""Upkeep of tables: small files made few, old files deleted; which tables, and what speaks against it.

A table is written by one process: its job must stand still, or upkeep waits for another time. Deleting
old files waits for every query that reads the table: one that lags behind needs files of old versions.
Bronze keeps its old files for good: a new silver table reads bronze from its first commit on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from common.config.paths import Layout, all_tables
from common.declare import Join, Pipeline, Publish
from common.delta import compaction
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader, Snapshot
from common.errors import UsageError, nearest
from gold.table.compaction import clustered_by
from orchestration.pipeline.lineage import Reader, readers, sources, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETENTION = "delta.deletedFileRetentionDuration"
_STANDARD = timedelta(days=7)
_DURATION = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to a table, or would be.

    Attributes:
        before: The table before; None where there is none yet.
        after: The same afterwards; None where nothing was done.
        deleted: Old files that were deleted; None where none was looked for.
        kept_because: Why old files stay; empty where they need not.
    """

    table: str
    before: Snapshot | None
    after: Snapshot | None = None
    deleted: int | None = None
    kept_because: str = ""


def chosen(pipeline: Pipeline, names: Sequence[str]) -> tuple[str, ...]:
    """The tables of these names, or all of the pipeline.

    Raises:
        UsageError: The pipeline has no such table.
    """
    known = all_tables(pipeline)
    for name in names:
        if name not in known:
            raise UsageError(f"{name!r} is no table of the pipeline; {nearest(name, known)}")
    return tuple(dict.fromkeys(names)) or known


def planned(pipeline: Pipeline, layout: Layout, table: str) -> Upkeep:
    """A table as it is, and what speaks against deleting its old files; nothing is done."""
    log = LogReader(layout.table_path(table))
    now = log.snapshot()
    return Upkeep(table, now, kept_because="" if now is None else _needed(pipeline, layout, table, log, now))


def maintain(spark: SparkSession, pipeline: Pipeline, layout: Layout, table: str) -> Upkeep:
    """Compact a table, and delete its old files where nothing speaks against it; its lease must be held."""
    plan, path = planned(pipeline, layout, table), layout.table_path(table)
    if plan.before is None:
        return plan
    told = delta_table.maintenance_metadata(pipeline.name, table, "compaction")
    gold = next((one for one in pipeline.gold if table in written(one)), None)
    columns = () if gold is None else clustered_by(gold, table)
    compaction.compact(spark, path, told, cluster_by=columns)
    deleted = None if plan.kept_because else compaction.vacuum(spark, path, told)
    return Upkeep(table, plan.before, LogReader(path).snapshot(), deleted, plan.kept_because)


def retention(log: LogReader) -> timedelta:
    """How long a table keeps files that it does not need any more."""
    match = _DURATION.search(log.properties().get(_RETENTION, ""))
    return _STANDARD if match is None else timedelta(**{f"{match[2].lower()}s": int(match[1])})


def _needed(pipeline: Pipeline, layout: Layout, table: str, log: LogReader, now: Snapshot) -> str:
    """Who still needs old files of a table, in words; empty where nobody does."""
    if table.startswith("bronze."):
        return "a new silver table reads bronze from its first commit on"
    oldest = datetime.now(UTC) - retention(log)
    for reader in _readers(pipeline, table):
        version = _next_version(layout, reader, now.table_id)
        if version > now.version:
            continue
        commit = log.commit(version)
        if commit is None or commit.timestamp < oldest:
            begun = "has not begun to read it" if version == 0 else f"has yet to read its version {version}"
            return f"{reader.table} {begun}; let its job catch up first"
    return ""


def _readers(pipeline: Pipeline, table: str) -> Iterator[Reader | Publish]:
    """The queries that read a table as a stream; one that looks rows up in it reads it as it is."""
    for reader in (*readers(pipeline), *pipeline.publish):
        is_looked_up = isinstance(reader, Join) and reader.mode == "lookup" and reader.reads != table
        if table in sources(reader) and not is_looked_up:
            yield reader


def _next_version(layout: Layout, reader: Reader | Publish, table_id: str) -> int:
    """The oldest version of which a query still reads files: 0 before its first finished micro-batch."""
    checkpoint = Checkpoint(layout.checkpoint_path(reader.table))
    entry = checkpoint.entry(checkpoint.last_committed())
    found = [
        int(position["reservoirVersion"])
        for position in (entry.sources if entry is not None else ())
        if position is not None and position.get("reservoirId") == table_id
    ]
    return min(found, default=0)
