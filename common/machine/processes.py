"""Processes and TCP ports of this machine, through psutil.

A pid alone identifies no process, because the system reuses pids; a pid together with its start mark does.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil

JVM_LOG = "-Dmedallion.log="
"""The option of a JVM of the engine that names its log file; by it the engine finds its JVMs."""

_POLL_SECONDS = 0.05
_LOW_PRIORITY = 10
"""A tenth of the CPU of a thread that competes: the lowest one, 19, would be a hundredth."""
_NOT_RUNNING = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


def start_mark(pid: int) -> str | None:
    """When a process started, as text that state files store; None for a process that is gone or a zombie.

    On Linux the clock ticks from boot to the start, which a change of the wall clock does not move; elsewhere
    the local time as ``ps -o lstart`` prints it.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in _NOT_RUNNING:
            return None
        return _ticks_since_boot(process) if psutil.LINUX else time.ctime(process.create_time())
    except psutil.Error:
        return None


def is_running(pid: int, mark: str | None) -> bool:
    """Whether the process of this pid and start mark runs; without a mark, whether any of this pid does."""
    now = start_mark(pid)
    return now is not None and mark in {None, now}


def command_line(pid: int) -> str:
    """The command line of a process, its words joined by blanks; empty where it cannot be read."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def parent_pid(pid: int) -> int | None:
    """Pid of the parent process, which may have adopted it; None for a process that is gone."""
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None


def find_by_command_line(*words: str) -> list[int]:
    """Pids of running processes, except this one, whose command line contains all these words; ascending."""
    lines = {pid: command_line(pid) for pid in psutil.pids() if pid != os.getpid()}
    return sorted(
        pid for pid, line in lines.items() if all(word in line for word in words) and start_mark(pid)
    )


def terminate(pid: int, mark: str | None, *, timeout_seconds: float) -> bool:
    """End a process by SIGTERM, and by SIGKILL where it still runs after the timeout.

    A process of this pid with another start mark is not touched. Returns when the process has ended.

    Returns:
        Whether SIGTERM was enough.
    """
    if not _signal(pid, mark, signal.SIGTERM) or _has_ended(pid, mark, timeout_seconds):
        return True
    kill(pid, mark)
    return False


def kill(pid: int, mark: str | None) -> None:
    """End a process by SIGKILL, unless a process of this pid has another start mark; waits for the end."""
    if _signal(pid, mark, signal.SIGKILL):
        _has_ended(pid, mark, timeout_seconds=10)


def let_others_first(pid: int, threads: str) -> None:
    """Give the threads of a process whose names begin so a low priority, where the system is Linux.

    Threads that such a thread starts later have it too; a thread that has ended meanwhile is left out.
    """
    for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        with suppress(OSError):
            if (task / "comm").read_text(encoding="utf-8").startswith(threads):
                os.setpriority(os.PRIO_PROCESS, int(task.name), _LOW_PRIORITY)


def describe_exit(code: int) -> str:
    """How a process ended, in words, from the return code that ``subprocess`` reports."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"


def is_port_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        # As servers do: without it a port whose last server has just ended would look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(*, besides: int = 0) -> int:
    """A free port of 127.0.0.1, other than ``besides``."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port != besides:
            return port


def listening_pid(port: int) -> int | None:
    """Pid of the process that listens on a port; None where the system does not show it (another user's)."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:  # macOS shows them to root only
        return None
    for each in connections:
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port:
            return each.pid
    return None


def describe_listener(port: int) -> str:
    """The process that listens on a port, as ``java (pid 4711)``; ``another process`` where it is hidden."""
    pid = listening_pid(port)
    try:
        return "another process" if pid is None else f"{psutil.Process(pid).name()} (pid {pid})"
    except psutil.Error:
        return f"a process (pid {pid})"


def _ticks_since_boot(process: psutil.Process) -> str:
    while True:  # psutil adds the boot time, which moves when the wall clock is set
        boot = psutil.boot_time()
        created = psutil.Process(process.pid).create_time()
        if psutil.boot_time() == boot:
            return str(round((created - boot) * os.sysconf("SC_CLK_TCK")))


def _signal(pid: int, mark: str | None, number: signal.Signals) -> bool:
    if not is_running(pid, mark):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _has_ended(pid: int, mark: str | None, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while is_running(pid, mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
