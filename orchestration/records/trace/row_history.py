"""The commits of a silver table in which the rows of a record came, changed or left.

A replay, a restatement, a rebuild, its undo, RESTORE and other programs move rows outside of the micro-batch
that has judged the record. The log says which commits may have; the table, read before and after each of
them, says which did. A commit that writes the rows into another file as they are is none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from common.delta.log import LogReader
from common.errors import TableError
from orchestration.access.query.record_place import Place
from orchestration.records.audit.table_log import TableCommit, delta_position
from orchestration.records.trace.tables import Tables

_LEAVES_ROWS = {"compaction", "evolution", "lease"}
"""Operations of the engine that change no row."""
_ONLY_DELETES = {"erasure", "retention"}


@dataclass(frozen=True, slots=True)
class RowChange:
    """A commit that changed the rows of a record."""

    commit: TableCommit
    change: str  # ``inserted``, ``changed`` or ``deleted``
    how: str  # what the commit is, in words; empty for the micro-batch that has judged the record
    columns: tuple[str, ...]  # the changed columns
    sql: str  # a query for the rows before and after it


def row_changes(
    tables: Tables, table: str, place: Place, bronze_version: int | None, *, is_there: bool
) -> list[RowChange]:
    """The commits of a silver table that changed a record's rows, oldest first, as far as the log goes back.

    Versions whose files maintenance has deleted are left out.

    Args:
        bronze_version: The version of bronze that has the record; None where the log no longer says.
        is_there: Whether the table has a row of the record now.
    """
    found = list(_candidates(tables, table, place, bronze_version, is_there=is_there))
    if not found or (not is_there and all(one.batch_id is not None and not one.is_rebuilt for one in found)):
        return []  # no later commit could have taken a row away
    before = _state(tables, table, place, found[0].version - 1)
    changes = []
    for one in found:
        after = _state(tables, table, place, one.version)
        if before is None and not one.commit.is_change:
            before = []  # files that were only added
        if before is not None and after is not None and before != after:
            changes.append(_changed(tables, table, place, one, (before, after)))
        before = after
    return changes


def _candidates(
    tables: Tables, table: str, place: Place, bronze_version: int | None, *, is_there: bool
) -> Iterator[TableCommit]:
    """The commits that may have changed the rows: those that read the record, and all outside of queries."""
    log = LogReader(tables.layout.table_path(table), bounds_of="_kafka_offset")
    has_read, reading = False, None
    for one in tables.log(table).commits:
        # Without files, too: the rows of a micro-batch that are all late come with the commit behind it.
        if one.step == "accepted" and not has_read and _touches(one, bronze_version):
            reading = (one.query_id, one.batch_id)
        has_read = _has_read(one, bronze_version, has_read)
        if not (one.commit.added or one.commit.removed):
            continue
        if one.batch_id is None:
            skipped = _LEAVES_ROWS | (_ONLY_DELETES if is_there else set())
            is_candidate = one.by not in skipped
        else:
            is_candidate = one.is_rebuilt or reading == (one.query_id, one.batch_id)
        if is_candidate and _may_hold(log, one, place.offset):
            yield one


def _touches(one: TableCommit, bronze_version: int | None) -> bool:
    """Whether a micro-batch has read at least one file of a version of bronze."""
    position = delta_position(one)
    if position is None or bronze_version is None:
        return False
    return position.version > bronze_version or (position.version == bronze_version and position.index >= 0)


def _has_read(one: TableCommit, bronze_version: int | None, former: bool) -> bool:  # noqa: FBT001
    """Whether the query has read all of a version of bronze, after a commit."""
    position = delta_position(one) if one.step == "accepted" else None
    if position is None or bronze_version is None:
        return former
    return position.version > bronze_version


def _may_hold(log: LogReader, one: TableCommit, offset: int) -> bool:
    """Whether a commit may have written or removed a row with an offset, by the statistics of its files."""
    if one.commit.is_change:
        return True  # removed files have no statistics
    commit = log.commit(one.version)
    bounds = [file.bounds for file in commit.added] if commit is not None else [None]
    return any(each is None or int(each[0]) <= offset <= int(each[1]) for each in bounds)


def _state(tables: Tables, table: str, place: Place, version: int) -> list[dict[str, Any]] | None:
    """The rows of a record at a version, without nulls; None where the version cannot be read any more."""
    if version < 0:
        return []
    try:
        rows = tables.rows(_rows_at(tables, table, place, version))
    except (TableError, OSError):
        return None
    known = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return sorted(known, key=repr)


def _rows_at(tables: Tables, table: str, place: Place, version: int) -> str:
    return f"SELECT * FROM {tables.source(table, version)} WHERE {place.condition('_kafka_')}"


def _changed(
    tables: Tables,
    table: str,
    place: Place,
    one: TableCommit,
    states: tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]],
) -> RowChange:
    before, after = states
    change = "inserted" if not before else "changed" if after else "deleted"
    columns: tuple[str, ...] = ()
    if change == "changed":
        names = dict.fromkeys(name for row in (*before, *after) for name in row)
        columns = tuple(
            name
            for name in names
            if sorted(repr(row.get(name)) for row in before) != sorted(repr(row.get(name)) for row in after)
        )
    versions = [one.version - 1] * bool(before) + [one.version] * bool(after)
    sql = " UNION ALL BY NAME ".join(_rows_at(tables, table, place, version) for version in versions)
    return RowChange(one, change, _how(one, tables.log(table).commits), columns, sql)


def _how(one: TableCommit, commits: Sequence[TableCommit]) -> str:
    """What a commit is, in words; empty for a micro-batch and a first load."""
    if one.is_rebuilt:
        former = (each for each in commits if each.version < one.version)
        is_undo = any(each.query_id == one.query_id for each in former)
        return "by the undo of a rebuild" if is_undo else "by a rebuild"
    if one.batch_id is not None:
        return "late, and merged" if one.step == "late" else ""
    if not one.by:
        return f"by {one.commit.operation or 'a commit'} of another program"
    article = "an" if one.by[0] in "aeiou" else "a"
    return "" if one.by == "first load" else f"by {article} {one.by}"
