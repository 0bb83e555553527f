"""One writer per table: a lock file per table, held for as long as the writer lives.

The lock is the kernel's (``flock``), so it goes with the process that held it, however that ends. The
file beside it says who holds it. A JVM may outlive its Python parent by some seconds after a SIGKILL
and still finish a commit; its pid is recorded too, and the next holder waits until it is gone.

Local disks only: two hosts that write one object store are not told apart here.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from common.errors import LeaseHeldError, SetupError
from common.machine.processes import start_mark

_ORPHAN_SECONDS = 30.0
"""How long a JVM whose parent is gone may take to end: it stops by itself when its pipe closes."""


class Leases:
    """The leases of one job on all tables it writes; taken together or not at all.

    Raises:
        LeaseHeldError: Another process holds one; names the table and the holder.
    """

    def __init__(self, folder: Path, tables: Sequence[str], job: str) -> None:
        self._folder, self._tables, self._job = folder, tuple(tables), job
        self._files: dict[str, int] = {}

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"{self._folder} cannot be made ({error.strerror}). Name a folder that can be written with "
                "data_dir, or warehouse for the tables."
            ) from error
        try:
            for table in self._tables:
                self._take(table)
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def record_jvm(self, pid: int) -> None:
        """Note the JVM that writes for this process, for whoever comes after a SIGKILL."""
        for descriptor in self._files.values():
            self._write(descriptor, jvm_pid=pid)

    def release(self) -> None:
        """Give all leases back; harmless when there are none."""
        for descriptor in self._files.values():
            os.ftruncate(descriptor, 0)
            os.close(descriptor)
        self._files.clear()

    def _take(self, table: str) -> None:
        descriptor = os.open(lease_file(self._folder, table), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(descriptor)
            os.close(descriptor)
            raise LeaseHeldError(table, _described(holder)) from None
        try:
            _await_end(table, _read(descriptor))
        except BaseException:
            os.close(descriptor)  # as it is: the next to come must know of that JVM too
            raise
        self._files[table] = descriptor
        self._write(descriptor)

    def _write(self, descriptor: int, jvm_pid: int | None = None) -> None:
        holder = {
            "job": self._job,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if jvm_pid is not None:
            holder |= {"jvm_pid": jvm_pid, "jvm_started": start_mark(jvm_pid)}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def lease_file(folder: Path, table: str) -> Path:
    """The lock file of a table."""
    return folder / f"{table}.lock"


def _await_end(table: str, last: dict[str, object]) -> None:
    pid, mark = last.get("jvm_pid"), last.get("jvm_started")
    if not isinstance(pid, int) or last.get("host") != socket.gethostname():
        return
    deadline = time.monotonic() + _ORPHAN_SECONDS
    while (now := start_mark(pid)) is not None and now == mark:
        if time.monotonic() > deadline:
            raise LeaseHeldError(table, f"the JVM {pid} of a job that is gone; end it with: kill {pid}")
        time.sleep(0.1)


def _read(descriptor: int) -> dict[str, object]:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _described(holder: dict[str, object]) -> str:
    if not holder:
        return "another process"
    where = f"pid {holder.get('pid')} on {holder.get('host')}, since {holder.get('started_at')}"
    return f"{holder.get('job')} ({where})"
