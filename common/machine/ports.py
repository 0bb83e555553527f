"""Which TCP ports of this machine are taken, and by whom."""

from __future__ import annotations

import socket
from pathlib import Path

_LISTENING = "0A"


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: without it, a port whose last server has just gone would look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def holder_of(port: int) -> str:
    """Who listens on a port, as ``java (pid 4711)``; a vague word where the system does not tell."""
    inodes = _listening_inodes(port)
    if inodes:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and inodes & _sockets(entry):
                return f"{_name(entry)} (pid {entry.name})"
    return "another process"


def _listening_inodes(port: int) -> set[str]:
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found


def _sockets(process: Path) -> set[str]:
    links: set[str] = set()
    try:
        for handle in (process / "fd").iterdir():
            links.add(str(handle.readlink()))
    except OSError:  # it ended meanwhile, or is another user's
        pass
    return links


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"
