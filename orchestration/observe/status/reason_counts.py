"""Counts the rows of a quarantine by reason repeatedly; a call reads only the files that are new."""

from __future__ import annotations

import time
from collections import Counter

from common.config.paths import is_local
from common.delta.commit import DataFile
from common.delta.log import LogReader, Snapshot
from common.errors import TableError
from orchestration.access.query.duckdb_views import Database, count_reasons, count_reasons_in

_PAUSE_SECONDS = 60.0
"""Between two counts of a whole table that cannot be counted by its new files."""

Reasons = tuple[tuple[str, int], ...]


class ReasonCounter:
    """Counts one quarantine, which may have rows of a year: the whole table is counted once."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._version: int | None = None
        self._table_id = ""
        self._counted = Counter[str]()
        self._whole_at = 0.0

    def count(self, log: LogReader, now: Snapshot) -> Reasons:
        """Rows per reason, largest number first; those of the last count where the table cannot be read."""
        if self._version == now.version and self._table_id == now.table_id:
            return self._ordered()
        try:
            added = self._added(log, now)
            if added is not None:
                self._counted.update(dict(count_reasons_in(self._open(), added)))
            elif self._version is not None and time.monotonic() - self._whole_at < self._pause(now):
                return self._ordered()
            else:
                self._counted = Counter(dict(count_reasons(self._open(), log.path, now.version)))
                self._whole_at = time.monotonic()
        except TableError:
            return self._ordered()
        self._version, self._table_id = now.version, now.table_id
        return self._ordered()

    def _pause(self, now: Snapshot) -> float:
        return _PAUSE_SECONDS if self._table_id == now.table_id else 0.0

    def _added(self, log: LogReader, now: Snapshot) -> list[str] | None:
        """The files since the last count; None if they do not say it: rows were removed, or in a store."""
        if self._version is None or self._table_id != now.table_id or now.version < self._version:
            return None
        if not is_local(log.path):
            return None
        added: list[DataFile] = []
        for version in range(self._version + 1, now.version + 1):
            commit = log.commit(version)
            if commit is None or commit.removed or commit.restored_to is not None:
                return None
            added += commit.added
        return [file.path_in(log.path) for file in added]

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database()
        return self._database

    def _ordered(self) -> Reasons:
        return tuple(sorted(self._counted.items(), key=lambda one: (-one[1], one[0])))
