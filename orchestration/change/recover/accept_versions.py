"""Accepts versions of a Delta source as lost: writes which ones into ``ops.gaps``, and lets bronze go on.

The clean-up of a source's log deletes commits that bronze has not read. How many rows they had is not known,
so the gap has no offsets: it says which versions are lost, and between which offsets. Bronze commits two
micro-batches without a row, and the checkpoint follows them: the first one ends where the log begins now, and
the second one begins and ends there, because a start reads the newest micro-batch once more. The gap is
written first, and once: an interrupted command is finished by the same command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import DeltaTable, Pipeline
from common.delta.checkpoint import DeltaPosition, delta_position_of
from common.delta.lease.job_leases import TableLeases
from common.delta.log import LogReader
from common.delta.match.batch_match import check_positions
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.checkpoint_repair import bring_to_newest
from common.delta.micro_batch import MicroBatch
from common.errors import UsageError
from common.streaming.topic_identity import OFFSETS, RECOVERED, coordinate_ends
from orchestration.change.recover.accept_gap import Accepted
from orchestration.change.recover.startable import append_without_rows
from orchestration.records.audit.accepted_gaps import VERSIONS, Gap, append_gaps, read_gaps

_GAP, _BEHIND = "gap", "behind the gap"
"""What both micro-batches say of themselves."""


def accept_versions(
    pipeline: Pipeline, settings: Settings, layout: Layout, declared: DeltaTable, *, is_plan: bool = False
) -> Accepted:
    """Write down which versions of its source a bronze table has lost, and let bronze go on after them.

    Raises:
        CheckpointMismatchError: The checkpoint is not the table's; ``medallion recover`` comes first.
        LeaseHeldError: A job writes the table.
        UsageError: Bronze has read nothing yet, reads the source's first state, or another table is there.
    """
    layout.require_own((declared.table,))
    path, checkpoint = layout.table_path(declared.table), layout.checkpoint_path(declared.table)
    last = last_commit_metadata(path, declared.table)
    if last is None:
        raise UsageError(f"{declared.table} has read nothing yet: there is no gap in it.")
    with TableLeases(layout, (declared.table,), "recover"):
        if is_plan or _step(declared, last) is None:
            check_positions(declared.table, path, checkpoint)
        else:
            bring_to_newest(declared.table, path, checkpoint)  # of a command that was cut off
        folder = layout.table_path(declared.reads)
        position = _position(declared, folder, last)
        begins = _oldest_kept(folder, position)
        gaps: tuple[Gap, ...] = ()
        if begins > position.version:
            end = coordinate_ends(last).get((declared.coordinate, 0), 0)
            lost = f"{VERSIONS} {position.version} to {begins - 1} of {folder}, rows not known"
            gaps = (Gap(declared.table, declared.coordinate, 0, end, end - 1, lost),)
        if is_plan:
            return Accepted(declared.table, gaps)
        known = {replace(one, accepted_at=None) for one in read_gaps(layout, declared.table)}
        if new := [replace(gap, accepted_at=datetime.now(UTC)) for gap in gaps if gap not in known]:
            append_gaps(layout, new)
        kept = None
        for step in (_GAP, _BEHIND) if gaps else (_BEHIND,) if _step(declared, last) == _GAP else ():
            append_without_rows(pipeline, settings, path, _metadata(pipeline, declared, last, begins, step))
            kept = bring_to_newest(declared.table, path, checkpoint) or kept
            last = last_commit_metadata(path, declared.table) or last
        return Accepted(declared.table, gaps, kept)


def _step(declared: DeltaTable, last: Mapping[str, Any]) -> str | None:
    """Which of both micro-batches the newest one is."""
    found: str | None = last.get(RECOVERED, {}).get(declared.coordinate)
    return found


def _position(declared: DeltaTable, folder: str, last: Mapping[str, Any]) -> DeltaPosition:
    """How far bronze has read the source, which is the table that is there now."""
    position = delta_position_of(last["positions"])
    now = LogReader(folder).snapshot()
    if position is None or now is None or position.table_id != now.table_id:
        raise UsageError(
            f"{declared.table}: the table in {folder} is not the one that was read: a gap cannot be "
            "told. Declare the other one under another name."
        )
    if position.in_snapshot:
        raise UsageError(
            f"{declared.table} still reads the first state of {folder}, version {position.version}, "
            "which has no later part to go on with. Restore its log, or declare the source under another "
            "name, which reads the table as it is now."
        )
    return position


def _oldest_kept(folder: str, position: DeltaPosition) -> int:
    """The first version from which on the source's log has every commit."""
    log = LogReader(folder)
    oldest = log.oldest_version()
    if oldest is None:
        return position.version
    behind = [version for version in log.missing_versions() if version >= position.version]
    return max(oldest, behind[-1] + 1 if behind else 0)


def _metadata(
    pipeline: Pipeline, declared: DeltaTable, last: Mapping[str, Any], begins: int, step: str
) -> str:
    """The metadata of a micro-batch without rows that ends before a version."""
    place = dict(last["positions"][0])
    place |= {"reservoirVersion": begins, "index": -1, "isStartingVersion": False}
    batch = MicroBatch(
        pipeline=pipeline.name,
        query=declared.table,
        query_id=str(last["query_id"]),
        batch_id=int(last["batch_id"]) + 1,
        positions=(place,),
        facts={OFFSETS: last.get(OFFSETS, {}), RECOVERED: {declared.coordinate: step}},
    )
    return batch.metadata("append", {})
