"""Other processes of this machine: is it alive, is it the one we mean, who holds a port, end it.

Read from ``/proc`` where there is one, else from ``ps`` (macOS). A pid alone names no process, because
it is given out again; a pid with its start does. What a process is *for* belongs elsewhere.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self" / "stat").exists()
_LISTEN = "0A"
_POLL_SECONDS = 0.05


def started(pid: int) -> str | None:
    """When a live process started, in its system's own notation; None for one that is gone or a zombie."""
    if not _HAS_PROC:
        state, _, start = _ps(pid, "state=,lstart=").partition(" ")
        return None if not state or state.startswith("Z") else start.strip()
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold anything; what follows it starts with field 3 and the start is field 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]


def command(pid: int) -> str:
    """The command line of a process, blanks between its words; empty where it cannot be read."""
    if not _HAS_PROC:
        return _ps(pid, "command=")
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def parent(pid: int) -> int | None:
    """Pid of the process that started it, or that took it over; None for one that is gone."""
    if not _HAS_PROC:
        found = _ps(pid, "ppid=")
        return int(found) if found else None
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def find(*words: str) -> list[int]:
    """Pids of live processes, this one left out, whose command line holds all these words; ascending."""
    found = []
    for pid in _pids():
        line = command(pid)
        if pid != os.getpid() and all(word in line for word in words) and started(pid) is not None:
            found.append(pid)
    return sorted(found)


def end(pid: int, start: str | None, *, timeout_seconds: float) -> bool:
    """End a process: SIGTERM, wait, then SIGKILL; whether SIGTERM was enough.

    Does nothing to a process of that pid that started at another time. Returns once it is gone.
    """
    if not _signal(pid, start, signal.SIGTERM) or _gone(pid, start, timeout_seconds):
        return True
    if _signal(pid, start, signal.SIGKILL):
        _gone(pid, start, timeout_seconds=10)
    return False


def ended(code: int) -> str:
    """How a process ended, in words, from what ``subprocess`` calls its return code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"


def is_running(pid: int, start: str | None) -> bool:
    """Whether the process of that pid and start is alive; without a start, whether any of that pid is."""
    now = started(pid)
    return now is not None and start in {None, now}


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(*, besides: int = 0) -> int:
    """A port of 127.0.0.1 that nobody listens on, other than ``besides``."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port != besides:
            return port


def listener(port: int) -> int | None:
    """Pid of the process that listens on a port; None where that cannot be found (other user, no /proc)."""
    inodes = set(_listening_inodes(port))
    for pid in _pids() if inodes else ():
        try:
            for descriptor in (_PROC / str(pid) / "fd").iterdir():
                if str(descriptor.readlink()) in inodes:
                    return pid
        except OSError:
            continue
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                yield f"socket:[{inode}]"


def _pids() -> Iterator[int]:
    if _HAS_PROC:
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    else:
        yield from (int(line) for line in _run("ps", "-axo", "pid=").split())


def _signal(pid: int, start: str | None, number: signal.Signals) -> bool:
    if not is_running(pid, start):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _gone(pid: int, start: str | None, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while is_running(pid, start):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _ps(pid: int, columns: str) -> str:
    return _run("ps", "-ww", "-o", columns, "-p", str(pid)).strip()


def _run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout
