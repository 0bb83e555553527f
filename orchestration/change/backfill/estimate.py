"""What a backfill reads, before it starts: rows, bytes and time per query, by its measured speed.

A layer's rows are those that wait in its source, and those that the layer before brings in the same run: at
most, because rules and duplicates take some away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from common.config.paths import Layout
from common.declare import Files, Pipeline, Stream, Topic
from common.delta.checkpoint import Checkpoint, PlannedBatch, delta_position, kafka_position
from common.delta.log import LogReader
from common.errors import MedallionError
from orchestration.access.history.effort import Effort, effort
from orchestration.access.progress.rows_read import begins_later, streamed_sources

Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Reads:
    """What one query reads; ``effort.rows`` is None where the log or the broker does not say.

    ``is_counted_later``: the records of files and of other sources, and what a query reads whose declaration
    says where to begin, are counted when they are read; so are the rows that a table of the same run makes of
    them, beside the ``waiting`` ones that its ``sources`` have already.
    """

    table: str
    effort: Effort
    is_at_most: bool
    is_counted_later: bool = False
    sources: tuple[str, ...] = ()
    waiting: int | None = None


def estimate(  # noqa: PLR0913  # what is read, and what is known of it
    pipeline: Pipeline,
    layout: Layout,
    tables: Sequence[str],
    topics: Mapping[str, tuple[Offsets, Offsets]],
    records_per_second: float | None = None,
    *,
    begins: Collection[str] = (),
) -> tuple[Reads, ...]:
    """What the queries of a run read, in the order of data flow.

    Args:
        topics: Per bronze table, the first offsets that it has yet to read, and the ends of its topics.
        records_per_second: Most records that one query reads per second; None: as many as it can.
        begins: Bronze tables that begin with the first offsets, whatever their checkpoints say.
    """
    brought: dict[str, tuple[int | None, int]] = {}
    counted_later = {one.into or one.table for one in pipeline.files if one.table in tables}
    found = []
    for name in tables:
        declared = pipeline.table(name)
        is_later, waiting = isinstance(declared, Files | Stream), None
        is_later |= begins_later(declared) and _committed(layout, name) is None
        sources = () if is_later else streamed_sources(declared)
        if is_later:
            rows, size, is_at_most = None, 0, False
        elif isinstance(declared, Topic):
            entry = None if name in begins else _committed(layout, name)
            rows, size = _records(layout, name, entry, *topics.get(name, ({}, {})))
            is_at_most = False
        else:
            waits = [_waiting(layout, name, at, one) for at, one in enumerate(sources)]
            comes = [brought[one] for one in sources if one in brought]
            rows = _sum([one[0] for one in (*waits, *comes)])
            size = sum(one[1] for one in (*waits, *comes))
            is_at_most = any(one[0] != 0 for one in comes)
            is_later, waiting = not counted_later.isdisjoint(sources), _sum([one[0] for one in waits])
            rows = None if is_later else rows
        if is_later:
            counted_later.add(name)
        brought[name] = rows, size
        took = Effort() if rows is None else effort(layout, name, rows, size)
        if took.seconds is not None and records_per_second:
            took = replace(took, seconds=max(took.seconds, (rows or 0) / records_per_second))
        found.append(Reads(name, took, is_at_most, is_later, sources, waiting))
    return tuple(found)


def _records(
    layout: Layout, table: str, entry: PlannedBatch | None, firsts: Offsets, ends: Offsets
) -> tuple[int | None, int]:
    """The records that a bronze table has yet to read, and their size if they are like those before."""
    if not ends:
        return None, 0
    position = {} if entry is None else kafka_position(entry)
    rows = sum(
        max(0, end - position.get(name, {}).get(number, firsts[name][number]))
        for name, partitions in ends.items()
        for number, end in partitions.items()
    )
    try:
        known = LogReader(layout.table_path(table)).snapshot()
    except MedallionError:
        known = None
    each = known.bytes / known.rows if known is not None and known.rows else 0.0
    return rows, round(rows * each)


def _waiting(layout: Layout, table: str, place: int, source: str) -> tuple[int | None, int]:
    """The rows of a source that a query has yet to read, and the size of their files."""
    entry = _committed(layout, table)
    position = None if entry is None else delta_position(entry, place)
    try:
        found = LogReader(layout.table_path(source)).backlog(position)
    except MedallionError:
        return None, 0
    return found.rows, found.bytes


def _committed(layout: Layout, table: str) -> PlannedBatch | None:
    checkpoint = Checkpoint(layout.checkpoint_path(table))
    return checkpoint.planned_batch(checkpoint.last_committed())


def _sum(rows: Sequence[int | None]) -> int | None:
    return None if None in rows else sum(one or 0 for one in rows)
