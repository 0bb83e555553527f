"""Who writes a table right now, seen from outside: the lease is looked at, never taken."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from common.machine.table_lease import lease_file


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes a table; ``started_at`` is None where the lease does not say."""

    job: str
    pid: int
    host: str
    started_at: datetime | None


def holder(folder: Path, table: str) -> Holder | None:
    """Who holds a table's lease, or None when nobody does.

    A free lease must not look held to a job that starts just now, so it is locked (shared, and for
    a moment) only when what it says is plausible: a process that lives.
    """
    path = lease_file(folder, table)
    try:
        with path.open("rb") as file:
            named = _named(file.read())
            if named is None or not _may_live(named):
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return named
    except FileNotFoundError:
        pass
    return None


def _named(content: bytes) -> Holder | None:
    try:
        said = json.loads(content)
        started = said.get("started_at")
        return Holder(
            job=str(said["job"]),
            pid=int(said["pid"]),
            host=str(said["host"]),
            started_at=datetime.fromisoformat(started) if started else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _may_live(named: Holder) -> bool:
    if named.host != socket.gethostname():
        return True
    try:
        os.kill(named.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
