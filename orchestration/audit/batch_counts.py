"""Whether the micro-batches' own counts add up: to the rows of bronze they read, and to what the tables hold.

Pure: works on commits that were read before. Faults are told in words, for they have no coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from common.declare import Silver
from common.delta.checkpoint import DeltaPosition
from orchestration.audit.offset_ranges import BronzeReach
from orchestration.audit.table_log import (
    FATES,
    Partition,
    Pins,
    TableLog,
    Told,
    delta_position,
    foreign,
    kafka_positions,
)


def batch_faults(pins: Pins, silver: Silver, after: int, start: DeltaPosition | None) -> Iterator[str]:
    """Micro-batches of silver after a version whose counts are not the rows they read, or wrote."""
    batches = [one for one in pins.silver.steps("accepted") if one.version > after]
    covered = _Covered(pins.bronze)
    before = start or _handed_over(pins.silver)
    first = pins.bronze.commits[0].version if pins.bronze.commits else 0
    for one in batches:
        position = delta_position(one)
        skipped = covered.upto(before) if before is not None else 0
        read = covered.upto(position) if position is not None else None
        is_known = before is not None or pins.bronze.is_whole
        if before is not None and before.version < first:
            is_known = False
        told = sum(int(one.counts.get(name, 0)) for name in FATES)
        if is_known and read is not None and skipped is not None and told != read - skipped:
            yield (
                f"micro-batch {one.batch_id} of {silver.table} (version {one.version}) read "
                f"{read - skipped:,} rows of {silver.reads}, but its counts are {told:,}"
            )
        before = position
    yield from _step_faults(pins, silver, after)


def _step_faults(pins: Pins, silver: Silver, after: int) -> Iterator[str]:
    """Commits whose files hold another number of rows than their counts say."""
    told: dict[int, Told] = {}
    for one in pins.silver.steps("accepted"):
        told[one.batch_id or 0] = one
        if one.version > after and silver.keep == "first":
            yield from _differs(one, silver.table, one.commit.rows, int(one.counts.get("accepted", 0)))
    for one in pins.silver.steps("late"):
        if one.version > after and "merged" in one.counts:
            yield from _differs(one, silver.table, one.commit.rows, int(one.counts["merged"]))
    for log, step, names in (
        (pins.quarantine, "quarantine", ("quarantined", "dropped")),
        (pins.late, "late", ("late",)),
    ):
        for one in log.steps(step):
            batch = told.get(one.batch_id or 0)
            if batch is None or batch.version <= after:
                continue
            yield from _differs(
                one, log.table, one.commit.rows, sum(int(batch.counts.get(name, 0)) for name in names)
            )


def _differs(one: Told, table: str, rows: int | None, told: int) -> Iterator[str]:
    if rows is not None and rows != told:
        yield (
            f"micro-batch {one.batch_id} wrote {rows:,} rows into {table} (version {one.version}), "
            f"but its counts say {told:,}"
        )


def table_faults(
    pins: Pins, held: Mapping[str, int], after: Mapping[str, int]
) -> Iterator[tuple[TableLog, str]]:
    """Tables that hold another number of rows than the engine's commits have put there.

    Args:
        pins: The commits.
        held: Rows per table: ``silver``, ``late``, ``quarantine``; what commits after ``after`` brought.
        after: Per table the version from which on is looked; -1 is from the beginning.
    """
    for name, log in (("silver", pins.silver), ("late", pins.late), ("quarantine", pins.quarantine)):
        if not log.is_whole and after[name] < 0:
            continue
        written = 0
        for one in log.since(after[name]):
            if one.is_foreign:
                continue
            taken = [file.rows for file in one.commit.removed]
            if one.commit.rows is None or None in taken:
                break
            written += one.commit.rows - sum(rows or 0 for rows in taken)
        else:
            if written != held[name]:
                yield (
                    log,
                    f"{log.table} holds {held[name]:,} rows, but the engine's commits left {written:,} there"
                    + _by_whom(log),
                )


def _by_whom(log: TableLog) -> str:
    found = list(foreign(log))
    return f"; written by someone else: {'; '.join(found[:3])}" if found else ""


def fate_faults(pins: Pins, silver: Silver, totals: Mapping[str, int], after: int) -> Iterator[str]:
    """Fates that the commits count otherwise than the rows show; looked at where nothing moved since.

    A tombstone stays what it was for ever. Duplicates and the others follow, since all of them are counted.
    """
    log = pins.silver
    if (after < 0 and not log.is_whole) or any(one.by not in {"", "compaction"} for one in log.commits):
        return
    if totals.get("erased", 0):
        return
    told = sum(int(one.counts.get("tombstones", 0)) for one in log.steps("accepted") if one.version > after)
    found = totals.get("tombstones", 0)
    # Of those that are kept, the ones with a witness are duplicates.
    if (found > told) if silver.tombstones == "keep" else (found != told):
        yield (
            f"{silver.reads} holds {found:,} processed records without a value, "
            f"but the micro-batches of {silver.table} counted {told:,}"
        )


def bronze_faults(
    bronze: TableLog, reach: BronzeReach, firsts: Mapping[Partition, int], *, after: int, may_have_gaps: bool
) -> Iterator[str]:
    """Bronze's micro-batches that wrote another number of rows than the offsets they read."""
    if not reach.is_told:
        return
    ends: dict[Partition, int] = {}
    for one in bronze.commits:
        if one.batch_id is None:
            continue
        positions = kafka_positions(one)
        if one.version > after:
            yield from _bronze_batch(
                bronze.table, one, positions, {**firsts, **ends}, may_have_gaps=may_have_gaps
            )
        ends |= positions


def _bronze_batch(
    table: str,
    one: Told,
    ends: Mapping[Partition, int],
    starts: Mapping[Partition, int],
    *,
    may_have_gaps: bool,
) -> Iterator[str]:
    where = f"micro-batch {one.batch_id} of {table} (version {one.version})"
    back = [place for place, end in ends.items() if end < starts.get(place, end)]
    if back:
        yield f"{where} ends before the one before it, in {back[0][0]}/{back[0][1]}: they do not join up"
        return
    if not ends.keys() <= starts.keys() or one.commit.rows is None:
        return
    offsets = sum(end - starts[place] for place, end in ends.items())
    if one.commit.rows > offsets or (one.commit.rows < offsets and not may_have_gaps):
        yield f"{where} wrote {one.commit.rows:,} rows for {offsets:,} offsets"


def _handed_over(silver: TableLog) -> DeltaPosition | None:
    """Where the stream began after a first load; None where there was none."""
    for one in silver.commits:
        if one.by == "first load" and "bronze_version" in one.facts:
            return DeltaPosition(int(one.facts["bronze_version"]) + 1, -1, "", in_snapshot=False)
    return None


class _Covered:
    """Rows that a stream has read from bronze's beginning to a position; positions must not go back."""

    def __init__(self, bronze: TableLog) -> None:
        self._files: list[tuple[int, int, int | None]] = [
            (one.version, place, file.rows)
            for one in bronze.commits
            if not one.commit.is_change
            for place, file in enumerate(one.commit.added)
        ]
        self._place, self._rows = 0, 0
        self._known: dict[Any, int | None] = {}

    def upto(self, position: DeltaPosition) -> int | None:
        """Rows read; None where a file does not say how many it has."""
        key = (position.version, position.index)
        while self._place < len(self._files):
            version, index, rows = self._files[self._place]
            if version > position.version or (version == position.version and index > position.index):
                break
            if rows is None:
                return None
            self._rows += rows
            self._place += 1
        return self._known.setdefault(key, self._rows)
