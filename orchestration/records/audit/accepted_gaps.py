"""The Delta table ``ops.gaps``: offsets that are lost and that somebody has accepted as lost.

Grain: one row per accepted gap, that is, consecutive offsets of one partition that bronze will never hold.
``medallion recover --accept-gap`` and ``medallion files skip`` append to it, and nothing deletes from it. The
audit counts these offsets under ``gaps``, as long as no table holds them.

Columns: bronze (string, the table), topic (string, the column ``topic`` of bronze's rows), partition (int),
first_offset and last_offset (bigint, both are lost), reason (string: ``retention``, ``not read``, or
``skipped``, a file's path and why; or ``versions`` of a Delta source, of which no offsets are known: then
last_offset is the one before first_offset, and the gap lies between them), read_at and next_at (timestamps of
Kafka, UTC: of the last record before the gap and of the first one after it; null where unknown), accepted_at
(timestamp, UTC), offsets (bigint, the number of lost offsets).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from common.config.paths import GAPS, Layout
from common.declare import Pipeline, Stream
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.small_table import SmallTable, rows_of, schema_of
from common.streaming.file_list import FileList, shown
from common.streaming.topic_identity import coordinate_ends

Partition = tuple[str, int]

SKIPPED = "skipped"
"""How the reason of a gap begins that is a file's: its path and why it was given up follow."""


VERSIONS = "versions"
"""How the reason of a gap begins that is commits of a Delta source: from, to and folder follow."""


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
    """The accepted gaps of a bronze table, by topic, partition and offset; none before the first.

    Raises:
        TableError: The table cannot be read.
    """
    table = _table(layout).read(Gap.__slots__)
    rows = [] if table is None else table.to_pylist()
    found = (Gap(**row) for row in rows if row["bronze"] == bronze)
    return tuple(sorted(found, key=lambda gap: (gap.topic, gap.partition, gap.first_offset)))


def lost_without_offsets(gap: Gap) -> str:
    """What a gap without offsets says of the place where it lies; empty for one with offsets."""
    if not gap.reason.startswith(VERSIONS):
        return ""
    return f"before offset {gap.first_offset:,} {gap.reason} were lost and accepted"


def given_up(pipeline: Pipeline, layout: Layout, bronze: str) -> Iterator[str]:
    """What is not read of sources, and why: of files that were given up, and of Delta tables."""
    for gap in read_gaps(layout, bronze):
        if text := lost_without_offsets(gap):
            yield f"{gap.topic}: {text}"
        if gap.reason.startswith(SKIPPED):
            span = f"{gap.first_offset:,} to {gap.last_offset:,}"
            yield f"{gap.topic}: the records {span} are lost, {gap.reason}"
    for source in pipeline.bronze:
        if isinstance(source, Stream) and source.table == bronze and not source.replayable:
            yield f"{source.coordinate}: {_not_sent_again(layout, source)}"
    for files in pipeline.files:
        if bronze not in {files.table, files.into}:
            continue
        listed = FileList(layout.file_list_path(files.table))
        listed.update(sys.maxsize)
        for one in listed.skipped.values():
            if not one.rows:
                yield f"{files.coordinate}: nothing more is read of {shown(one.skipped)}, skipped: {one.why}"


def _not_sent_again(layout: Layout, stream: Stream) -> str:
    """What is not known of a source that sends no row again."""
    last = last_commit_metadata(layout.table_path(stream.table), stream.table)
    position = (last or {}).get("positions", [None])[0]
    known = "how many rows were lost with jobs that were killed is not known"
    if stream.format.strip().lower() == "socket" and position is not None:
        lost = int(position) - coordinate_ends(last).get((stream.coordinate, 0), 0)
        known = f"{lost:,} lines were received and lost with jobs that were killed before they wrote them"
    return f"open point: {known}; what was sent while no job was connected is not known"


def append_gaps(layout: Layout, gaps: Sequence[Gap]) -> None:
    """Append gaps in one commit, and create the table with the first.

    Raises:
        TableError: The table cannot be written.
    """
    import pyarrow as pa

    schema = schema_of(Gap, partition=pa.int32()).append(pa.field("offsets", pa.int64()))
    _table(layout).write(rows_of(gaps, schema))


def _table(layout: Layout) -> SmallTable:
    return SmallTable(layout.table_path(GAPS), {"delta.appendOnly": "true"})


def not_accepted(layout: Layout, bronze: str, gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Gaps of a bronze table without the offsets that were accepted before, accepted now."""
    known, now = read_gaps(layout, bronze), datetime.now(UTC)
    for gap in gaps:
        for first, last in without(gap, known):
            yield replace(gap, first_offset=first, last_offset=last, accepted_at=now)


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
