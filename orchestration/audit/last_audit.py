"""Where the last audit that balanced ended, so that the next one looks only at what is new.

A mark is one JSON file per silver table in the pipeline's local folder: the versions and the position up
to which every offset was accounted for, and how many were in each place. It is written in one piece.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from common.config.paths import Layout
from common.delta.checkpoint import DeltaPosition
from common.delta.log import LogReader
from orchestration.audit.offset_ranges import bronze_reach, is_read
from orchestration.audit.table_log import Partition, Pins, Told, before, delta_position, made_ms, shown

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Counted:
    """One partition up to a mark: its first offset, and how many offsets are in each place."""

    first: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Start:
    """Where an audit begins: everything before was accounted for, or is not asked for.

    Attributes:
        label: Where that is, in words.
        versions: Per table the version after which is looked.
        position: How far silver had read bronze; between two commits.
        cut: The next offset that silver was to process, per partition.
        batch_id: Silver's micro-batch at which it is.
        query_id: Of silver's query.
        counted: What was counted before, per partition; empty where it was not.
    """

    label: str
    versions: Mapping[str, int]
    position: DeltaPosition
    cut: Mapping[Partition, int]
    batch_id: int
    query_id: str
    counted: Mapping[Partition, Counted]

    def version(self, table: str) -> int:
        """The version of a table after which is looked; -1 is its beginning."""
        return self.versions.get(table, -1)


def boundary(pins: Pins, position: DeltaPosition | None) -> DeltaPosition | None:
    """A position as one between two commits of bronze; None where it is within one."""
    if position is None or position.in_snapshot:
        return None
    if position.index < 0:
        return position
    commit = next((one.commit for one in pins.bronze.commits if one.version == position.version), None)
    if commit is None or not is_read(commit, position):
        return None
    return DeltaPosition(position.version + 1, -1, position.table_id, in_snapshot=False)


def since(pins: Pins, when: datetime) -> Start | None:
    """The newest micro-batch of silver before a moment that ends between two commits of bronze.

    None where there is none: an audit then begins with the first.
    """
    batches = pins.silver.steps("accepted")
    for one, following in reversed(list(pairwise(batches))):
        if one.commit.timestamp >= when:
            continue
        position = boundary(pins, delta_position(one))
        if position is None:
            continue
        reach = bronze_reach(pins.bronze, position)
        logs = [before(following, log) for log in (pins.silver, pins.quarantine, pins.late)]
        return Start(
            label=shown(when),
            versions={log.table: log.version for log in logs if log.version is not None},
            position=position,
            cut=reach.cut,
            batch_id=one.batch_id or 0,
            query_id=one.query_id or "",
            counted={},
        )
    return None


def file_of(layout: Layout, table: str) -> Path:
    """The mark of a silver table."""
    return layout.local / "audit" / f"{table}.json"


def load(layout: Layout, table: str) -> Start | None:
    """The mark, or None where there is none, or its tables are not those that it was made of."""
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
            if commit is not None and made_ms(commit) != one["made_ms"]:
                return None
        cut = {(each["topic"], each["partition"]): each["end"] for each in found["partitions"]}
        counted = {
            (each["topic"], each["partition"]): Counted(each["first"], each["counts"])
            for each in found["partitions"]
        }
        return Start(
            label=f"the audit of {found['at']}",
            versions={name: one["version"] for name, one in found["tables"].items()},
            position=DeltaPosition(found["bronze_version"], -1, found["bronze_id"], in_snapshot=False),
            cut=cut,
            batch_id=found["batch_id"],
            query_id=found["query_id"],
            counted=counted,
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def save(layout: Layout, pins: Pins, batch: Told, counted: Mapping[Partition, Counted]) -> bool:
    """Write the mark of an audit that balanced; False where silver is in the middle of a commit of bronze."""
    position = boundary(pins, pins.position)
    if position is None:
        return False
    document = {
        "format": _FORMAT,
        "table": pins.silver.table,
        "at": shown(datetime.now(UTC)),
        "batch_id": batch.batch_id,
        "query_id": batch.query_id,
        "bronze_version": position.version,
        "bronze_id": position.table_id,
        "tables": {
            log.table: {"version": log.version, "made_ms": made_ms(log.commits[-1].commit)}
            for log in pins.tables[1:]
            if log.version is not None
        },
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "first": one.first,
                "end": one.first + sum(one.counts.values()),
                "counts": dict(one.counts),
            }
            for (topic, partition), one in sorted(counted.items())
        ],
    }
    file = file_of(layout, pins.silver.table)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(part, file)  # noqa: PTH105  # in one piece
    return True
