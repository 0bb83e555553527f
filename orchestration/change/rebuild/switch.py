"""Puts other rows and another checkpoint into the place of a silver table's, in steps that can be finished.

1. The record of the switch is written: which query comes, and the versions of the tables before it.
2. Quarantine and late table get the rows of the query that comes, each by one commit.
3. The silver table gets them by one commit, a MERGE by Kafka's coordinates: a reader sees the former version
   or the new one, and a reader of the change data feed sees only the rows that differ.
4. The former checkpoint is moved aside, and that of the query that comes into its place.

Each commit carries the identity of the newest micro-batch of the query that comes. Between the first commit
and the end, a start of the live query is refused, because its checkpoint is not that of its tables; the same
command finishes the switch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from common.config.paths import Layout
from common.declare import Silver
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.delta.match.batch_match import BESIDE, REBUILT
from common.delta.match.checkpoint_match import last_commit_metadata
from orchestration.records.rejudge.apply import make_equal
from orchestration.records.rejudge.stage import Switch, keep_record
from silver.read.column_names import row_coordinates
from silver.write.late_rows import STEP as LATE_STEP
from silver.write.writer import ACCEPTED, QUARANTINED


@dataclass(frozen=True, slots=True)
class Incoming:
    """The rows and the checkpoint that come."""

    rows: Mapping[str, DataFrame]  # per table of the query, its rows
    metadata: Mapping[str, Any]  # the metadata of the newest micro-batch of the query that wrote them
    # What became of all rows that the query has read; None where its log no longer says.
    counts: Mapping[str, int] | None
    checkpoint: str  # the path of its checkpoint


def has_rows_of(layout: Layout, silver: Silver, query_id: str) -> bool:
    """Whether the newest commit of the silver table is by a query."""
    last = last_commit_metadata(layout.table_path(silver.table), silver.table)
    return last is not None and last["query_id"] == query_id


def write_rows(layout: Layout, silver: Silver, incoming: Incoming) -> None:
    """Steps 2 and 3. A table that has the rows of this micro-batch already is left as it is."""
    steps = {silver.quarantine: QUARANTINED, silver.late_table: LATE_STEP, silver.table: ACCEPTED}
    for table, step in steps.items():
        path, rows = layout.table_path(table), incoming.rows[table]
        last = last_commit_metadata(path, silver.table)
        same = ("query_id", "batch_id", REBUILT)
        metadata = _metadata(incoming, step)
        if last is not None and all(last.get(name) == metadata[name] for name in same):
            continue
        text = json.dumps(metadata)
        if table == silver.table:
            make_equal(path, rows, text, key=row_coordinates(rows.columns))
        else:
            delta_table.replace_all(rows, path, text)


def move_checkpoints(layout: Layout, silver: Silver, switch: Switch) -> None:
    """Step 4, then the record says that the switch is complete."""
    live = layout.checkpoint_path(silver.table)
    if Checkpoint(live).query_id() != switch.query_id:
        if Path(live).exists():
            Path(live).rename(switch.kept)
        Path(switch.coming).rename(live)
    keep_record(layout, silver.table, replace(switch, is_done=True))


def total_counts(path: str, query: str, query_id: str) -> Mapping[str, int] | None:
    """What became of all rows that a query has read, by its commits; None where its log is cleaned up."""
    log, total = LogReader(path), dict[str, int]()
    if log.oldest_version() != 0:
        return None
    for commit in log.commits():
        metadata = commit.metadata
        by_query = metadata.get("query") == query and metadata.get("query_id") == query_id
        if not (by_query and metadata.get("step") == ACCEPTED):
            continue
        counts = metadata.get("counts") or {}
        if metadata.get(REBUILT):
            total = {}
        for name, count in counts.items():
            if isinstance(count, int):
                total[name] = total.get(name, 0) + count
    return total


def _metadata(incoming: Incoming, step: str) -> dict[str, Any]:
    batch = int(incoming.metadata["batch_id"])
    counts = {**(incoming.counts or {}), "merged": 0, "rules": {}}
    return {
        **incoming.metadata,
        "step": step,
        "counts": counts,
        BESIDE: {LATE_STEP: batch, QUARANTINED: batch},
        REBUILT: {"counted": incoming.counts is not None},
    }
