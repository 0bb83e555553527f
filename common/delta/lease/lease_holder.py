"""Finds the process that writes a table, by reading the table's lease without taking it.

The lock files of this host name the writers of this host. Where the tables are on an object store, the leases
beside them name those of other hosts.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.delta.lease.local_leases import lease_file
from common.delta.lease.standby_place import BEAT_SECONDS, PREFIX
from common.delta.lease.store_leases import DEFAULT_SECONDS, StoredLease, read_lease
from common.machine import object_store
from common.machine.files.state_file import StateFile

if TYPE_CHECKING:
    from obstore.store import S3Store

_SILENT_SECONDS = 3 * BEAT_SECONDS
"""A standby that has not written its place for so long does not answer."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes a table."""

    job: str  # its job
    pid: int
    host: str
    started_at: datetime | None = None  # None if the lease does not contain it
    release: str = ""  # the release of the product that it runs; empty if the lease does not contain it


_LEASE = StateFile(Holder)


@dataclass(frozen=True, slots=True)
class Standby:
    """A process of this host that waits for the leases of a job."""

    place: str  # its place, ``standby-1`` or a higher number; its log files have this name
    job: str  # the job that it goes on with
    pid: int
    host: str
    started_at: datetime | None
    is_ready: bool  # Whether it would take over now. Before, it starts; later, it may be suspended.
    reads: str = ""  # fingerprint of the pipeline file that it has read
    release: str = ""  # the release of the product that it runs; empty if its place does not contain it


@dataclass(slots=True)
class _Renewals:
    """A lease on the store, as far as this process has seen it."""

    lease: StoredLease | None
    read_at: float  # when it was read, by the monotonic clock of this process
    renewed_at: float  # when it was renewed, by the same clock


class Holders:
    """The writers of a pipeline's tables, on this host and on others that share an object store.

    A lease on the store is read at most three times in the seconds that it lasts, and only while no process
    of this host writes the table.
    """

    def __init__(self, layout: Layout, most_seconds: float = math.inf) -> None:
        """Create a reader of leases that has read none.

        Args:
            most_seconds: Seconds after which a lease on the store is read again, if its third is longer.
        """
        self._layout, self._most = layout, most_seconds
        self._stores: dict[str, S3Store] = {}
        self._seen: dict[str, _Renewals] = {}
        self._unknown: set[str] = set()

    def find(self, table: str) -> Holder | None:
        """The process that writes a table; ``started_at`` is None for a process of another host."""
        here = find_holder(self._layout.leases, table)
        if here is not None or not object_store.is_s3(self._layout.warehouse):
            return here
        seen = self._look(table)
        return None if seen.lease is None or _lapsed_seconds(seen) else _named(seen.lease)

    def is_known(self, table: str) -> bool:
        """Whether the store has answered the last ``find`` that read its lease."""
        return table not in self._unknown

    def has_ended(self, table: str) -> bool:
        """Whether the lease that the last ``find`` read on the store is of a process of this host that has
        ended: the lease need not be waited for.
        """
        seen = self._seen.get(table)
        return seen is not None and seen.lease is not None and seen.lease.has_ended

    def lapsed(self, table: str) -> tuple[Holder, float] | None:
        """The process that neither released nor renewed its lease on the store, and the seconds since its
        last renewal; None if there is no such process. It refers to the last ``find``.
        """
        seen = self._seen.get(table)
        if seen is None or seen.lease is None or not _lapsed_seconds(seen):
            return None
        return _named(seen.lease), _lapsed_seconds(seen)

    def _look(self, table: str) -> _Renewals:
        before, now = self._seen.get(table), time.monotonic()
        lasts = before.lease.seconds if before is not None and before.lease is not None else DEFAULT_SECONDS
        if before is not None and now - before.read_at < min(lasts / 3, self._most):
            return before
        root, name = self._layout.lease_of(table)
        if root not in self._stores:
            self._stores[root] = object_store.conditional_store(root)
        from obstore.exceptions import BaseError

        try:
            lease = read_lease(self._stores[root], name)
        except (BaseError, OSError):  # what was known stays, and grows old
            self._unknown.add(table)
            return before or _Renewals(None, now, now)
        self._unknown.discard(table)
        self._seen[table] = _Renewals(lease, now, _renewed_at(before, lease, now))
        return self._seen[table]


def _renewed_at(before: _Renewals | None, lease: StoredLease | None, now: float) -> float:
    """The last renewal by the local clock, as hosts' clocks may differ: a changed ETag is a renewal."""
    if lease is None:
        return now
    if before is not None and before.lease is not None:
        return before.renewed_at if before.lease.tag == lease.tag else now
    return now - max(0.0, (datetime.now(UTC) - lease.renewed_at).total_seconds())


def _lapsed_seconds(seen: _Renewals) -> float:
    """Seconds since the last renewal of a lease that has ended; 0 while it lasts."""
    age = time.monotonic() - seen.renewed_at
    return age if seen.lease is not None and age > seen.lease.seconds else 0.0


def _named(lease: StoredLease) -> Holder:
    return Holder(lease.job, lease.pid, lease.host, None)


def find_holder(folder: Path, table: str) -> Holder | None:
    """The holder of a table's lease; None if the lease is free.

    The test for a free lease locks it (shared, for a moment), and a job that starts at that moment would take
    the lease for held. So the lease is tested only if it names a process that may be alive.
    """
    path = lease_file(folder, table)
    try:
        with path.open("rb") as file:
            named = _parse(file.read())
            if named is None or not _may_be_alive(named):
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return named
    except FileNotFoundError:
        pass
    return None


def find_standbys(folder: Path) -> tuple[Standby, ...]:
    """The processes of this host that wait for leases of a pipeline, by place."""
    found = []
    for file in sorted(folder.glob(f"{PREFIX}*.lock")):
        if (one := find_holder(folder, file.stem)) is None:
            continue
        state, reads, age = _noted(file)
        if state in {"starting", "ready"}:
            is_ready = state == "ready" and age < _SILENT_SECONDS
            found.append(
                Standby(file.stem, one.job, one.pid, one.host, one.started_at, is_ready, reads, one.release)
            )
    return tuple(found)


def _noted(file: Path) -> tuple[object, str, float]:
    """What a standby has written into its place: what it does, what it has read, and seconds since then."""
    try:
        content, written_at = json.loads(file.read_bytes()), file.stat().st_mtime
        return content.get("state"), str(content.get("reads", "")), abs(time.time() - written_at)
    except (OSError, ValueError, AttributeError):
        return None, "", 0.0


def _parse(content: bytes) -> Holder | None:
    with suppress(ValueError):  # none is held, or it is just being written
        return _LEASE.parse(content)
    return None


def _may_be_alive(named: Holder) -> bool:
    if named.host != socket.gethostname():
        return True
    try:
        os.kill(named.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
