"""Where an incremental audit starts: the versions, positions and counts of a state that balanced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.delta.checkpoint import DeltaPosition
from orchestration.records.audit.table_log import Partition


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """One partition before the starting point: its first offset, and the number of offsets per place."""

    first: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The state of a silver table at which an incremental audit starts.

    Attributes:
        label: Names the starting point for messages, such as ``the audit of 2026-01-01 08:00:00Z``.
        versions: Per table, the last version before the starting point.
        position: Position in bronze up to which silver has read; always between two commits of bronze.
        processed: Per partition, the next offset that silver was to process.
        batch_id: Silver's last micro-batch before the starting point.
        query_id: The id of silver's query.
        counts: Per partition, what an earlier audit counted; empty if there was none.
        gold: Per gold table, the version up to which an earlier audit found no change by others.
    """

    label: str
    versions: Mapping[str, int]
    position: DeltaPosition
    processed: Mapping[Partition, int]
    batch_id: int
    query_id: str
    counts: Mapping[Partition, PartitionCounts]
    gold: Mapping[str, int] = field(default_factory=dict)

    def version(self, table: str) -> int:
        """The last version of a table before the starting point; -1 if the table did not exist."""
        return self.versions.get(table, -1)
