"""One writer per table: a lock file per table, locked for as long as the writer's process runs.

The lock is the kernel's (``flock``), so the kernel releases it however the process ends. The lock file names
the holder. After a SIGKILL of the Python process its JVM may run on for some seconds and finish a commit;
therefore the file also has the JVM's pid, and the next holder ends that JVM by SIGKILL too before it goes on.
The file names its folder, too: in a copy of the folder it tells of a job that writes elsewhere.

Leases work on local disks only: they do not keep two hosts from writing one object store.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from common.delta.lease.release import own_release
from common.errors import LeaseHeldError, LeaseLostError, SetupError
from common.machine import processes
from common.machine.file_modes import refused
from common.machine.processes import start_mark

_ORPHAN_SECONDS = 30.0
"""How long an orphaned JVM of another user may take to end; it stops by itself when the pipe to its parent
closes."""

_SURE_SECONDS = 0.5
"""After so long the parent of a JVM is not one that is just ending."""


class Leases:
    """The leases of one job on all tables that it writes; all of them are acquired, or none.

    Raises:
        LeaseHeldError: Another process holds a lease; names the table and the holder.
        SetupError: A lease cannot be written, as on a full disk.
    """

    def __init__(self, folder: Path, tables: Sequence[str], job: str) -> None:
        self._folder, self._tables, self._job = folder, tuple(tables), job
        self._files: dict[str, int] = {}
        self._noted: dict[str, object] = {}
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            error.filename = error.filename or str(self._folder)
            raise SetupError(
                f"the folder of the leases: {refused(error)}, or name another folder with data_dir, or "
                "warehouse for the tables. Nothing was started."
            ) from error
        with ExitStack() as undo:
            undo.callback(self.release)
            for table in self._tables:
                try:
                    self._acquire(table)
                except OSError as error:
                    error.filename = str(lease_file(self._folder, table))
                    raise SetupError(
                        f"the lease of {table}: {refused(error)}, or name another folder with data_dir, or "
                        "warehouse for the tables. Nothing was started."
                    ) from error
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def record_jvm(self, pid: int) -> None:
        """Record the JVM that writes for this process, for the next holder after a SIGKILL."""
        self.note(jvm_pid=pid, jvm_started=start_mark(pid))

    def note(self, **facts: object) -> None:
        """Write facts about the holder into its lock files, beside those that are there."""
        self._noted |= facts
        for descriptor in self._files.values():
            self._write(descriptor)

    def release(self) -> None:
        """Release all leases; does nothing when there are none."""
        for descriptor in self._files.values():
            with suppress(OSError):  # without a content to empty, the lock is free all the same
                os.ftruncate(descriptor, 0)
            os.close(descriptor)
        self._files.clear()

    def lost(self) -> LeaseLostError | None:
        """The error for a lock file that is no longer the one that is locked; None while all are.

        A clean-up that deletes the files, or a copy of the folder that is put back, lets another process lock
        new ones.
        """
        for table, descriptor in list(self._files.items()):
            path = lease_file(self._folder, table)
            try:
                named, held = path.stat(), os.fstat(descriptor)
            except FileNotFoundError:
                return LeaseLostError(table, "", f"its lock file {path} was deleted")
            except OSError:
                continue  # released meanwhile, or a disk that does not answer: its writes fail by themselves
            if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
                return LeaseLostError(
                    table, _describe(_named(path)), f"its lock file {path} was replaced by another one"
                )
        return None

    def prove(self) -> None:
        """Prove that all leases are held.

        Raises:
            LeaseLostError: One is not.
        """
        if (lost := self.lost()) is not None:
            raise lost

    def _acquire(self, table: str) -> None:
        descriptor = os.open(lease_file(self._folder, table), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _told(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise LeaseHeldError(table, _describe(holder)) from None
        with ExitStack() as undo:
            undo.callback(
                os.close, descriptor
            )  # the content stays: the next process must wait for that JVM too
            _await_orphan(table, os.path.realpath(self._folder), _told(os.pread(descriptor, 4096, 0)))
            undo.pop_all()
        self._files[table] = descriptor
        self._write(descriptor)

    def _write(self, descriptor: int) -> None:
        holder = {
            "job": self._job,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started_at": self._started_at,
            "release": own_release(),
            "folder": os.path.realpath(self._folder),
        }
        content = json.dumps(holder | self._noted).encode()
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))


def lease_file(folder: Path, table: str) -> Path:
    """Path of a table's lock file."""
    return folder / f"{table}.lock"


def _await_orphan(table: str, folder: str, last: dict[str, object]) -> None:
    """Wait until the JVM of a job that was killed has ended, and end it.

    While the process that wrote the lock file runs, it holds the lock of the file that it wrote: another one
    is a copy of that. Where it was put back into the same folder, its process finds its lease lost, and ends.
    """
    pid, mark = last.get("jvm_pid"), last.get("jvm_started")
    if not isinstance(pid, int) or last.get("host") != socket.gethostname():
        return
    begun = time.monotonic()
    copied = last.get("folder", folder) != folder
    while (now := start_mark(pid)) is not None and now == mark:
        # A process that has just begun may not have its command line or its new parent yet.
        is_orphan = processes.parent_pid(pid) != last.get("pid")
        if is_orphan and processes.JVM_LOG in processes.command_line(pid):
            with suppress(OSError):  # it belongs to another user
                processes.kill(pid, str(mark))
        seconds = time.monotonic() - begun
        # An earlier release names no folder: there, too, a parent that runs on is another folder's.
        if not is_orphan and (copied or ("folder" not in last and seconds > _SURE_SECONDS)):
            return
        if seconds > _ORPHAN_SECONDS:
            jvm = f"the JVM {pid} of a job that has ended; end the JVM with: kill -9 {pid}"
            raise LeaseHeldError(table, jvm if is_orphan else _describe(last))
        time.sleep(0.1)


def _told(content: bytes) -> dict[str, object]:
    try:
        holder = json.loads(content)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _named(path: Path) -> dict[str, object]:
    """What a lock file says, whoever holds it."""
    try:
        return _told(path.read_bytes())
    except OSError:
        return {}


def _describe(holder: dict[str, object]) -> str:
    if not holder:
        return "another process"
    where = f"pid {holder.get('pid')} on {holder.get('host')}, since {holder.get('started_at')}"
    return f"{holder.get('job')} ({where})"
