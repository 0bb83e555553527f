"""Which versions a run reads: the tables of the suites, the tables that they compare with, and slices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from common.config.paths import Layout
from common.declare import Pipeline, Quality, References, SumsEqual
from common.delta.log import LogReader
from common.errors import TableMissingError, UsageError, nearest
from orchestration.quality.engines import Pinned

_COMMITS_BACK = 200
"""Commits that are searched for the newest one of the table's query; maintenance commits are between."""


def select_suites(pipeline: Pipeline, tables: Sequence[str]) -> tuple[Quality, ...]:
    """The suites of these tables, or all suites if no table is named.

    Raises:
        UsageError: A named table has no suite, or the pipeline declares no suite.
    """
    if not pipeline.quality:
        raise UsageError(
            f"pipeline {pipeline.name} declares no quality suite. Add quality=[Quality(…)] to it."
        )
    known = [suite.table for suite in pipeline.quality]
    for table in tables:
        if table not in known:
            raise UsageError(f"{table} has no quality suite; {nearest(table, known)}")
    return tuple(suite for suite in pipeline.quality if not tables or suite.table in tables)


def pin(layout: Layout, table: str, version: int | None = None, since: int | None = None) -> Pinned:
    """A table at a version; unset: its newest one.

    Raises:
        TableMissingError: The table does not exist yet.
        UsageError: The table has no such version, or ``since`` is not older than it.
    """
    path = layout.table_path(table)
    newest = LogReader(path).latest_version()
    if newest is None:
        raise TableMissingError(table, path)
    version = newest if version is None else version
    if since is not None and not 0 <= since <= version:
        raise UsageError(
            f"--since-version {since}: {table} is at version {version}; name an older version of it."
        )
    return Pinned(table, path, version, since)


def version_before(layout: Layout, table: str, age: timedelta) -> int | None:
    """The newest version of a table that is at least so old; None where all versions in the log are newer."""
    log = LogReader(layout.table_path(table))
    newest, oldest = log.latest_version(), log.oldest_version()
    if newest is None or oldest is None:
        return None
    limit, low, high = datetime.now(UTC) - age, oldest - 1, newest
    while low < high:  # commits are in order of time
        middle = (low + high + 1) // 2
        commit = log.commit(middle)
        if commit is not None and commit.timestamp <= limit:
            low = middle
        else:
            high = middle - 1
    return low if low >= oldest else None


def pin_others(layout: Layout, suite: Quality, pinned: Pinned) -> dict[str, Pinned]:
    """The other tables that a suite reads; one that feeds the table at the version that was read of it.

    Raises:
        TableMissingError: A table does not exist yet.
    """
    others: dict[str, Pinned] = {}
    for one in suite.expectations:
        if isinstance(one, SumsEqual):
            others[one.table] = pin(layout, one.table, _version_read(layout, pinned, one.table))
        elif isinstance(one, References):
            others.setdefault(one.table, pin(layout, one.table))
    return others


def _version_read(layout: Layout, pinned: Pinned, other: str) -> int | None:
    """The version of ``other`` that the table has read completely; None where its commits name none."""
    log, source = LogReader(pinned.path), LogReader(layout.table_path(other)).snapshot()
    for version in range(pinned.version, max(-1, pinned.version - _COMMITS_BACK), -1):
        commit = log.commit(version)
        for position in (commit.metadata.get("positions") or ()) if commit is not None else ():
            if position and source is not None and position.get("reservoirId") == source.table_id:
                read, index = int(position["reservoirVersion"]), int(position["index"])
                return read - 1 if index < 0 else read
    return None
