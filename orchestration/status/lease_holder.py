"""Finds the process that writes a table, by reading the table's lease without taking it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from common.delta.lease.local_leases import lease_file


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes a table; ``started_at`` is None if the lease does not contain it."""

    job: str
    pid: int
    host: str
    started_at: datetime | None


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


def _parse(content: bytes) -> Holder | None:
    try:
        lease = json.loads(content)
        started = lease.get("started_at")
        return Holder(
            job=str(lease["job"]),
            pid=int(lease["pid"]),
            host=str(lease["host"]),
            started_at=datetime.fromisoformat(started) if started else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
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
