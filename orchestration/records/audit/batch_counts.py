"""Checks the counts in the micro-batches' commits against the rows of bronze and the rows in the tables.

Pure: works on commits that are in memory. These faults have no coordinates, so each is a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from common.declare import Silver
from common.delta.checkpoint import DeltaPosition
from common.delta.match.batch_match import REBUILT
from orchestration.records.audit.accepted_gaps import Gap, lost_between
from orchestration.records.audit.offset_ranges import BronzeProgress, since_beginning
from orchestration.records.audit.table_log import (
    BATCH_COUNTS,
    Partition,
    Pins,
    TableCommit,
    TableLog,
    after_first_load,
    delta_position,
    foreign_commits,
    kafka_positions,
    since_rebuild,
)
from silver.judge.reasons_and_verdict import JUDGED_BY


def batch_faults(
    parts: Sequence[Pins], silver: Silver, after: int, start: DeltaPosition | None
) -> Iterator[str]:
    """Silver micro-batches after version ``after`` whose counts differ from the rows read or written.

    Args:
        parts: The state with each bronze table that silver reads.
        after: The last version of silver before the audited ones; -1 for an audit from the beginning.
        start: How far silver had read bronze by then.
    """
    pins = parts[0]
    read = [
        _RowsRead(part.bronze, place, start or _start_after_first_load(pins.silver, place))
        for place, part in enumerate(parts)
    ]
    for one in since_rebuild([one for one in pins.silver.steps("accepted") if one.version > after]):
        found = [each.by(one) for each in read]
        if one.is_rebuilt and not one.metadata[REBUILT].get("counted"):
            continue
        rows = None if None in found else sum(count or 0 for count in found)
        counted = sum(int(one.counts.get(name, 0)) for name in BATCH_COUNTS)
        # A record has one element or more, or is counted as empty.
        if rows is not None and (counted < rows or (counted > rows and silver.each is None)):
            yield (
                f"micro-batch {one.batch_id} of {silver.table} (version {one.version}) read "
                f"{rows:,} rows of {silver.read_text}, but its counts add up to {counted:,}"
            )
    yield from _step_faults(pins, silver, after)


class _RowsRead:
    """Counts the rows of a bronze table that micro-batches have read; call with ascending ones only."""

    def __init__(self, bronze: TableLog, place: int, begins: DeltaPosition | None) -> None:
        self._bronze, self._place, self._before = bronze, place, begins
        self._up_to = _RowsUpTo(bronze)

    def by(self, one: TableCommit) -> int | None:
        """The rows that a micro-batch has read; None where the log does not say it."""
        before, position = self._before, delta_position(one, self._place)
        self._before = position
        if one.is_rebuilt:
            before = None
        if position is None:
            return 0 if self._place or len(one.metadata.get("positions") or ()) > 1 else None
        first = self._bronze.commits[0].version if self._bronze.commits else 0
        is_known = self._bronze.is_whole if before is None else before.version >= first
        # Positions are counted in their order: the one before first.
        skipped = 0 if before is None else self._up_to.count(before)
        read = self._up_to.count(position)
        return read - skipped if is_known and read is not None and skipped is not None else None


def _step_faults(pins: Pins, silver: Silver, after: int) -> Iterator[str]:
    """Commits whose data files hold a different number of rows than their counts."""
    batches: dict[tuple[str | None, int | None], TableCommit] = {}
    for one in since_rebuild(pins.silver.steps("accepted")):
        if one.is_rebuilt:
            continue
        batches[one.query_id, one.batch_id] = one
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
            batch = batches.get((one.query_id, one.batch_id))
            if batch is None or one.is_rebuilt or batch.version <= after:
                continue
            yield from _differs(
                one, log.table, one.commit.rows, sum(int(batch.counts.get(name, 0)) for name in names)
            )


def _differs(one: TableCommit, table: str, rows: int | None, counted: int) -> Iterator[str]:
    if rows is not None and rows != counted:
        yield (
            f"micro-batch {one.batch_id} wrote {rows:,} rows into {table} (version {one.version}), "
            f"but its counts add up to {counted:,}"
        )


def table_faults(
    pins: Pins, held: Mapping[str, int], after: Mapping[str, int]
) -> Iterator[tuple[TableLog, str]]:
    """Tables that hold a different number of rows than the engine's commits wrote.

    A rebuild compares the table row by row with what must be there, and so makes good what others have
    changed before.

    Args:
        held: Number of rows added after ``after`` that each of ``silver``, ``late``, ``quarantine`` holds.
        after: Per table, the last version before the audited ones; -1 for an audit from the beginning.
    """
    for name, log in (("silver", pins.silver), ("late", pins.late), ("quarantine", pins.quarantine)):
        written = rows_left(log, after[name])
        if written is not None and written != held[name]:
            yield (
                log,
                f"{log.table} holds {held[name]:,} rows, but the engine's commits left {written:,} there"
                + _written_by_others(log),
            )


def rows_left(log: TableLog, after: int = -1) -> int | None:
    """How many rows the engine's commits after a version have left in a table; None where the log does not
    say it.

    That holds whatever moved the rows: a replay, a restatement, an erasure and a rebuild are such commits.
    """
    if not log.is_whole and after < 0:
        return None
    rebuilt = max((one.version for one in log.commits if one.is_rebuilt), default=-1)
    written = by_others = 0
    known = {file.path: file.rows for one in log.commits for file in one.commit.added}
    for one in log.since(after):
        change = _rows_more(one, known)
        if one.is_foreign and one.version > rebuilt:
            by_others += change or 0
            continue
        if change is None:
            return None
        # Rows that were erased, brought back by others, and erased again.
        back = max(0, min(int(one.counts.get("again", 0)), by_others)) if one.by == "erasure" else 0
        written, by_others = written + change + back, by_others - back
    return written


def _rows_more(one: TableCommit, known: Mapping[str, int | None]) -> int | None:
    """By how many rows a commit has made its table longer; None where its files do not say it.

    A RESTORE by delta-rs does not say how many rows the files had that it removed: the commits that added
    them do.
    """
    removed = [known.get(file.path) if file.rows is None else file.rows for file in one.commit.removed]
    if one.commit.rows is None or None in removed:
        return None
    return one.commit.rows - sum(rows or 0 for rows in removed)


def _written_by_others(log: TableLog) -> str:
    found = list(foreign_commits(log))
    return f"; written by someone else: {'; '.join(found[:3])}" if found else ""


def tombstone_faults(pins: Pins, silver: Silver, totals: Mapping[str, int], after: int) -> Iterator[str]:
    """Tombstones whose number in the commits differs from the number in bronze.

    Checked only if no other operation has moved rows since. A tombstone never changes its place. The number
    of duplicates needs no check of its own: it follows from the sum of all counts.
    """
    log = pins.silver
    if has_moved_rows(log, after, totals):
        return
    batches = since_rebuild([one for one in log.steps("accepted") if one.version > after])
    if any(one.is_rebuilt and not one.metadata[REBUILT].get("counted") for one in batches):
        return
    counted = sum(int(one.counts.get("tombstones", 0)) for one in batches)
    found = totals.get("tombstones", 0)
    # With tombstones="keep", a tombstone whose key has a row in silver counts as a duplicate.
    if (found > counted) if silver.tombstones == "keep" else (found != counted):
        yield (
            f"{silver.read_text} holds {found:,} processed records without a value, "
            f"but the micro-batches of {silver.table} counted {counted:,}"
        )


def other_faults(pins: Pins, silver: Silver, totals: Mapping[str, int], after: int) -> Iterator[str]:
    """Other tables' records whose number in the commits differs from the number in bronze.

    For a table that never had another condition. Checked only if it was in force in all these micro-batches,
    and no other operation has moved rows since.
    """
    log = pins.silver
    batches = since_rebuild([one for one in log.steps("accepted") if one.version > after])
    marks = {_mark_of_condition(one) for one in batches}
    if silver.where is None or len(marks) != 1 or None in marks or has_moved_rows(log, after, totals):
        return
    counted, found = sum(int(one.counts.get("other", 0)) for one in batches), totals.get("other", 0)
    if found != counted:
        yield (
            f"{silver.read_text} holds {found:,} processed records of other tables than {silver.table}, by "
            f"its condition where, but its micro-batches counted {counted:,}"
        )


def element_faults(pins: Pins, silver: Silver, totals: Mapping[str, int], after: int) -> Iterator[str]:
    """Elements whose number in the commits differs from the number in bronze.

    Checked only if no other operation has moved rows since.
    """
    log = pins.silver
    if silver.each is None or has_moved_rows(log, after, totals) or totals.get("gaps"):
        return
    batches = since_rebuild([one for one in log.steps("accepted") if one.version > after])
    if any(one.is_rebuilt for one in batches):
        return
    counted = sum(int(one.counts.get(name, 0)) for one in batches for name in BATCH_COUNTS)
    found = sum(count for name, count in totals.items() if name != "waiting")
    if found != counted:
        yield (
            f"{silver.read_text} holds {found:,} processed elements of {silver.each}, and records without "
            f"one, but the micro-batches of {silver.table} counted {counted:,}"
        )


def _mark_of_condition(one: TableCommit) -> str | None:
    marks = one.metadata.get(JUDGED_BY)
    return marks.get("where") if isinstance(marks, dict) else None


def has_moved_rows(log: TableLog, after: int, totals: Mapping[str, int]) -> bool:
    """Whether rows may have another place than the counts of the micro-batches after a version say."""
    is_part = after < 0 and not log.is_whole
    others = any(one.by not in {"", "compaction", "evolution"} for one in log.commits)
    is_gone = totals.get("erased", 0) + totals.get("expired", 0) > 0
    return is_part or others or is_gone


def bronze_faults(  # noqa: PLR0913
    bronze: TableLog,
    progress: BronzeProgress,
    firsts: Mapping[Partition, int],
    *,
    after: int,
    may_have_gaps: bool,
    lost: Sequence[Gap] = (),
) -> Iterator[str]:
    """Bronze micro-batches that wrote a different number of rows than the offsets that they read.

    Offsets that are accepted as ``lost`` have no rows.
    """
    if not progress.is_complete:
        return
    ends: dict[Partition, int] = {}
    for one in since_beginning(bronze):
        if one.batch_id is None:
            continue
        positions = kafka_positions(one)
        if one.version > after:
            starts = {**firsts, **ends}
            gone = lost_between(lost, starts, positions)
            yield from _bronze_batch(
                bronze.table, one, positions, starts, gone=gone, may_have_gaps=may_have_gaps
            )
        ends |= positions


def _bronze_batch(  # noqa: PLR0913
    table: str,
    one: TableCommit,
    ends: Mapping[Partition, int],
    starts: Mapping[Partition, int],
    *,
    gone: int,
    may_have_gaps: bool,
) -> Iterator[str]:
    where = f"micro-batch {one.batch_id} of {table} (version {one.version})"
    back = [place for place, end in ends.items() if end < starts.get(place, end)]
    if back:
        place = f"{back[0][0]}/{back[0][1]}"
        yield f"{where} ends before the previous one does, in {place}: their offsets overlap"
        return
    if not ends.keys() <= starts.keys() or one.commit.rows is None:
        return
    offsets = sum(end - starts[place] for place, end in ends.items())
    if one.commit.rows > offsets or (one.commit.rows < offsets - gone and not may_have_gaps):
        yield f"{where} wrote {one.commit.rows:,} rows for {offsets:,} offsets"


def _start_after_first_load(silver: TableLog, place: int) -> DeltaPosition | None:
    """Where the stream of a bronze table started after a first load; None if there was no first load."""
    for one in silver.commits:
        if one.by == "first load" and "bronze_version" in one.metadata:
            return after_first_load(one.metadata, place)
    return None


class _RowsUpTo:
    """Counts bronze's rows from its beginning up to a position; call with ascending positions only."""

    def __init__(self, bronze: TableLog) -> None:
        self._files: list[tuple[int, int, int | None]] = [
            (one.version, place, file.rows)
            for one in bronze.commits
            if not one.commit.is_change
            for place, file in enumerate(one.commit.added)
        ]
        self._place, self._rows = 0, 0
        self._known: dict[Any, int | None] = {}

    def count(self, position: DeltaPosition) -> int | None:
        """Number of rows up to ``position``; None if a file has no row count."""
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
