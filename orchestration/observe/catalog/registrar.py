"""Registers the tables of a job in a catalog, in a thread: after their first commit, and after a new schema.

Queries never wait for a catalog, and no failure of it ends a job: the failure is a warning, shown by
``medallion status``, and the table is tried again later.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common.delta.log import LogReader
from common.errors import CatalogError, MedallionError
from common.machine.console import say
from common.spark.table_catalog import TableCatalog
from common.streaming.error_lines import one_line
from common.streaming.failure_cause import causes_text
from orchestration.access.history.catalog_state import CatalogEntry, read_entries, write_entries
from orchestration.observe.catalog.names import Name

_LOOK_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 600.0
"""Seconds until a catalog that failed is tried again; each failure in a row doubles the pause."""

_LONG_SECONDS = 5.0
"""A failure that took so long is the catalog's: the other tables are not tried in the same look."""

_END_SECONDS = 30.0
"""How long the end of a job waits for the catalog."""

_AWAY = re.compile(r"Could not connect to meta store[^\n]*Exception: ([^\n()]*\w)")

_log = logging.getLogger("medallion.catalog")


@dataclass
class _Watched:
    """A table that is to be registered."""

    name: Name
    log: LogReader  # the table's log
    entry: CatalogEntry  # what is known of the table in the catalog
    version: int = -1  # the newest version that was looked at
    schema: str = ""  # the columns as they were registered last; empty before


class Registrar:
    """Keeps the entries of a job's tables in a catalog.

    Args:
        connect: Opens the catalog; called in the thread, at the first table that is to be registered.
        folder: Where the entries are written for ``medallion status``.
    """

    def __init__(
        self,
        names: Sequence[Name],
        connect: Callable[[], TableCatalog],
        folder: Path,
        job: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        known = read_entries(folder)
        self._watched = [_Watched(name, LogReader(name.path), _before(name, known)) for name in names]
        self._connect, self._folder, self._job, self._clock = connect, folder, job, clock
        self._catalog: TableCatalog | None = None
        self._pause, self._free_at, self._said = _FIRST_PAUSE, 0.0, ""

    def look(self) -> None:
        """Register the tables that are new or have new columns. After a failure, does nothing for a while."""
        if self._clock() < self._free_at:
            return
        before = [watched.entry for watched in self._watched]
        has_failed, away = False, ""
        for watched in self._watched:
            began = self._clock()
            if not self._guarded(watched, away):
                has_failed = True
                away = away or (watched.entry.error if self._clock() - began > _LONG_SECONDS else "")
        if has_failed:
            self._free_at = self._clock() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        else:
            self._pause, self._said = _FIRST_PAUSE, ""
        if before != [watched.entry for watched in self._watched]:
            self._write()

    def _guarded(self, watched: _Watched, away: str) -> bool:
        """Register a table where that is due; returns whether that went well.

        Args:
            away: Why the catalog did not answer for another table, after a long time; empty if it did.
        """
        try:
            self._update(watched, away)
        except Exception as error:  # noqa: BLE001  # a catalog may raise anything
            why = _reason(error)
            if why != self._said:
                # If the catalog cannot be reached, one line is logged for all tables.
                self._said = why
                say(
                    f"catalog: {watched.name.full} is not registered, and is tried again: {why}",
                    level="warning",
                )
                _log.warning("%s is not registered in the catalog", watched.name.full, exc_info=error)
            watched.entry = CatalogEntry(watched.name.full, watched.entry.registered_at, why)
            return False
        return True

    def _update(self, watched: _Watched, away: str) -> None:
        version = watched.log.latest_version()
        if version is None or version == watched.version:
            return
        schema = watched.log.schema()
        if schema != watched.schema or watched.entry.error:
            if away:
                raise CatalogError(away)
            self._register(watched.name, schema)
            watched.schema = schema
            watched.entry = CatalogEntry(watched.name.full, datetime.now(UTC))
        watched.version = version

    def _register(self, name: Name, schema: str) -> None:
        if self._catalog is None:
            self._catalog = self._connect()
        found = self._catalog.find(name.database, name.name)
        if found is None:
            self._catalog.create(name.database, name.name, name.path, name.comment)
            found = self._catalog.find(name.database, name.name)
        if found is None or found.location != name.path.rstrip("/"):
            where = "nowhere" if found is None else found.location
            raise CatalogError(
                f"the catalog has a table {name.full} at {where}, and this job writes {name.path}. Give this "
                "environment a prefix of its own (the setting prefix), or drop the table there: "
                f"DROP TABLE {name.full}"
            )
        if found.schema != schema:
            self._catalog.replace_schema(name.database, name.name, schema)

    def _write(self) -> None:
        known = {
            watched.name.table: watched.entry
            for watched in self._watched
            if watched.entry.registered_at is not None or watched.entry.error
        }
        try:
            write_entries(self._folder, self._job, known)
        except OSError as error:
            _log.warning("the entries of the catalog cannot be recorded", exc_info=error)


def _reason(error: Exception) -> str:
    """Why a table is not registered, in one line."""
    if isinstance(error, MedallionError):
        return str(error)
    # Hive's own message names a class that it could not create.
    away = _AWAY.search(causes_text(error)) or _AWAY.search(str(error))
    return f"the Hive metastore does not answer ({away[1]})" if away else one_line(str(error))


def _before(name: Name, known: Mapping[str, CatalogEntry]) -> CatalogEntry:
    """The entry of an earlier run, without its error."""
    entry = known.get(name.table, CatalogEntry(""))
    return CatalogEntry(name.full, entry.registered_at if entry.name == name.full else None)


@contextmanager
def registering(registrar: Registrar) -> Iterator[None]:
    """Keep the entries in a thread inside the block; the tables of a short run are registered at its end."""
    ending = threading.Event()

    def loop() -> None:
        while not ending.wait(_LOOK_SECONDS):
            registrar.look()
        registrar.look()

    thread = threading.Thread(target=loop, name="catalog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(_END_SECONDS)
