"""The file in which a balanced audit saves its end, from which ``--since last`` continues.

There is one JSON file per silver table in the pipeline's local folder. It holds the table versions and the
bronze position up to which every offset was accounted for, and the counts per place. The file is replaced
atomically.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from common.config.paths import Layout
from common.delta.checkpoint import DeltaPosition
from common.delta.log import LogReader
from common.machine.files.state_file import replace_file
from orchestration.records.audit.offset_ranges import bronze_progress, is_read
from orchestration.records.audit.starting_point import PartitionCounts, StartingPoint
from orchestration.records.audit.table_log import (
    Partition,
    Pins,
    TableCommit,
    commit_ms,
    delta_position,
    log_before,
    utc_text,
)

_FORMAT = 1


def boundary(pins: Pins, position: DeltaPosition | None) -> DeltaPosition | None:
    """The same position expressed as the start of a bronze commit; None if it is inside a commit."""
    if position is None or position.in_snapshot:
        return None
    if position.index < 0:
        return position
    commit = next((one.commit for one in pins.bronze.commits if one.version == position.version), None)
    if commit is None or not is_read(commit, position):
        return None
    return DeltaPosition(position.version + 1, -1, position.table_id, in_snapshot=False)


def since(pins: Pins, when: datetime) -> StartingPoint | None:
    """The starting point after silver's newest micro-batch before ``when``.

    Only micro-batches that end between two commits of bronze qualify. None if no micro-batch qualifies; the
    audit then starts from the beginning.
    """
    batches = pins.silver.steps("accepted")
    for one, following in reversed(list(pairwise(batches))):
        if one.commit.timestamp >= when:
            continue
        position = boundary(pins, delta_position(one))
        if position is None:
            continue
        progress = bronze_progress(pins.bronze, position)
        logs = [log_before(following, log) for log in (pins.silver, pins.quarantine, pins.late)]
        return StartingPoint(
            label=utc_text(when),
            versions={log.table: log.version for log in logs if log.version is not None},
            position=position,
            processed=progress.processed,
            batch_id=one.batch_id or 0,
            query_id=one.query_id or "",
            counts={},
        )
    return None


def file_of(layout: Layout, table: str) -> Path:
    """The file of a silver table."""
    return layout.local / "audit" / f"{table}.json"


def load(layout: Layout, table: str) -> StartingPoint | None:
    """The saved starting point. None if there is none, or if a table was recreated or restored since."""
    try:
        found = json.loads(file_of(layout, table).read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            return None
        for name, one in found["tables"].items():
            log = LogReader(layout.table_path(name))
            commit = log.commit(one["version"])
            latest = log.latest_version()
            if latest is None or latest < one["version"]:
                return None
            if commit is not None and commit_ms(commit) != one["made_ms"]:
                return None
        processed = {(each["topic"], each["partition"]): each["end"] for each in found["partitions"]}
        counts = {
            (each["topic"], each["partition"]): PartitionCounts(each["first"], each["counts"])
            for each in found["partitions"]
        }
        return StartingPoint(
            label=f"the audit of {found['at']}",
            versions={name: one["version"] for name, one in found["tables"].items()},
            gold=found.get("gold", {}),
            position=DeltaPosition(found["bronze_version"], -1, found["bronze_id"], in_snapshot=False),
            processed=processed,
            batch_id=found["batch_id"],
            query_id=found["query_id"],
            counts=counts,
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def save(
    layout: Layout,
    pins: Pins,
    batch: TableCommit,
    counts: Mapping[Partition, PartitionCounts],
    gold: Mapping[str, int],
) -> bool:
    """Save the end of a balanced audit; False if silver has read a commit of bronze only in part.

    Args:
        batch: Silver's last micro-batch in it.
        counts: Per partition, its counts.
        gold: Per gold table, the version up to which no other program has changed it.
    """
    position = boundary(pins, pins.position)
    if position is None:
        return False
    document = {
        "format": _FORMAT,
        "table": pins.silver.table,
        "at": utc_text(datetime.now(UTC)),
        "batch_id": batch.batch_id,
        "query_id": batch.query_id,
        "bronze_version": position.version,
        "bronze_id": position.table_id,
        "tables": {
            log.table: {"version": log.version, "made_ms": commit_ms(log.commits[-1].commit)}
            for log in pins.tables[1:]
            if log.version is not None
        },
        "gold": dict(gold),
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "first": one.first,
                "end": one.first + sum(one.counts.values()),
                "counts": dict(one.counts),
            }
            for (topic, partition), one in sorted(counts.items())
        ],
    }
    replace_file(file_of(layout, pins.silver.table), json.dumps(document, indent=1).encode() + b"\n")
    return True
