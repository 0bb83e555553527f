"""The Delta table ``ops.gaps``: offsets that are lost and that somebody has accepted as lost.

Grain: one row per accepted gap, that is, consecutive offsets of one partition that bronze will never hold.
``medallion recover --accept-gap`` appends to it, and nothing deletes from it. The audit counts these offsets
under ``gaps``, as long as no table holds them.

Columns: bronze (string, the table), topic (string, the column ``topic`` of bronze's rows), partition (int),
first_offset and last_offset (bigint, both are lost), offsets (bigint, their number), read_at and next_at
(timestamps of Kafka, UTC: of the last record before the gap and of the first one after it; null where
unknown), accepted_at (timestamp, UTC), reason (string: ``retention`` or ``not read``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from common.config.paths import GAPS, Layout
from common.delta.log import latest_version
from common.machine.object_store import storage_options

if TYPE_CHECKING:
    import pyarrow as pa

_ATTEMPTS = 5

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """Consecutive offsets of one partition that are lost; the attributes are the table's columns."""

    bronze: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    read_at: datetime | None = None
    next_at: datetime | None = None
    accepted_at: datetime | None = None

    @property
    def offsets(self) -> int:
        """Number of lost offsets."""
        return self.last_offset - self.first_offset + 1


def read_gaps(layout: Layout, bronze: str) -> tuple[Gap, ...]:
    """The accepted gaps of a bronze table, by topic, partition and offset; none before the first."""
    path = layout.table_path(GAPS)
    if latest_version(path) is None:
        return ()
    from deltalake import DeltaTable

    names = tuple(Gap.__dataclass_fields__)
    rows = (
        DeltaTable(path, storage_options=storage_options(path))
        .to_pyarrow_table(columns=list(names))
        .to_pylist()
    )
    found = (Gap(**row) for row in rows if row["bronze"] == bronze)
    return tuple(sorted(found, key=lambda gap: (gap.topic, gap.partition, gap.first_offset)))


def append_gaps(layout: Layout, gaps: Sequence[Gap]) -> None:
    """Append gaps in one commit, and create the table with the first.

    Raises:
        DeltaError: The table cannot be written.
        OSError: The disk or the store cannot be written.
    """
    import pyarrow as pa
    from deltalake import CommitProperties, write_deltalake

    rows: list[dict[str, Any]] = [{**asdict(gap), "offsets": gap.offsets} for gap in gaps]
    write_deltalake(
        layout.table_path(GAPS),
        pa.Table.from_pylist(rows, schema=_schema()),
        mode="append",
        configuration={"delta.appendOnly": "true"},
        commit_properties=CommitProperties(max_commit_retries=_ATTEMPTS),
        storage_options=storage_options(layout.table_path(GAPS)),
    )


def without(gap: Gap, known: Iterable[Gap]) -> list[tuple[int, int]]:
    """The offsets of a gap that no known gap of its partition has, as first and last offsets."""
    left = [(gap.first_offset, gap.last_offset)]
    for one in known:
        if (one.topic, one.partition) != (gap.topic, gap.partition):
            continue
        parts = []
        for first, last in left:
            parts += [(first, min(last, one.first_offset - 1)), (max(first, one.last_offset + 1), last)]
        left = [(first, last) for first, last in dict.fromkeys(parts) if first <= last]
    return sorted(left)


def lost_between(gaps: Iterable[Gap], starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int:
    """How many accepted offsets lie between two positions of bronze."""
    lost = 0
    for gap in gaps:
        place = gap.topic, gap.partition
        if place in ends:
            first = max(gap.first_offset, starts.get(place, gap.first_offset))
            lost += max(0, min(gap.last_offset + 1, ends[place]) - first)
    return lost


def _schema() -> pa.Schema:
    import pyarrow as pa

    moment = pa.timestamp("us", "UTC")
    return pa.schema(
        [
            ("bronze", pa.string()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("first_offset", pa.int64()),
            ("last_offset", pa.int64()),
            ("offsets", pa.int64()),
            ("read_at", moment),
            ("next_at", moment),
            ("accepted_at", moment),
            ("reason", pa.string()),
        ]
    )
