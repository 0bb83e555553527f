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
    """The state of a silver table at which an incremental audit starts."""

    label: str  # names the starting point for messages, such as ``the audit of 2026-01-01 08:00:00Z``
    versions: Mapping[str, int]  # per table, the last version before the starting point
    # Position in bronze up to which silver has read; always between two commits of bronze.
    position: DeltaPosition
    processed: Mapping[Partition, int]  # per partition, the next offset that silver was to process
    batch_id: int  # silver's last micro-batch before the starting point
    query_id: str  # the id of silver's query
    # Per partition, what an earlier audit counted; empty if there was none.
    counts: Mapping[Partition, PartitionCounts]
    # Per gold table, the version up to which an earlier audit found no change by others.
    gold: Mapping[str, int] = field(default_factory=dict)

    def version(self, table: str) -> int:
        """The last version of a table before the starting point; -1 if the table did not exist."""
        return self.versions.get(table, -1)
