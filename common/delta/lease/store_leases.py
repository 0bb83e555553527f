"""One writer per table for several hosts: a small object beside the tables, written by conditional puts.

    <warehouse>/_leases/<layer>.<table>.json    owner, fencing number, job, host, pid, seconds

The store refuses a put whose condition no longer holds, so of two processes one gets the lease. The holder
puts the object again every third of its seconds. A lease that was not renewed for its seconds, by the clock
of the store, may be taken over; so may the lease of a process of this host that has ended.

A process that was stopped for longer than its lease continues as if it still held the lease. Three facts keep
it from writing (``medallion.store.LeasedLogStore`` is the second half):

1. A commit is a conditional put: a version of a table is never written twice.
2. Before each put the log store reads the lease, and refuses where the owner is another.
3. Who takes over a lease that was not released adds an empty commit to the table before reading it. A commit
   of the former owner comes before that one, and is seen; or finds its version taken, and looks at 2 again.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from common.delta.log import LogReader
from common.errors import LeaseHeldError, LeaseLostError, SetupError, first_line
from common.machine import lease_owner, object_store, processes

if TYPE_CHECKING:
    from obstore.store import S3Store

DEFAULT_SECONDS = 60.0
"""How long a lease lasts after its last renewal."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESS_IDS = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A lease that is not released, as the store has it."""

    job: str
    pid: int
    host: str
    seconds: float  # how long it lasts after a renewal
    renewed_at: datetime  # when it was renewed, by the clock of the store, in whole seconds
    tag: str | None  # identifies this renewal
    content: Mapping[str, Any] = field(default_factory=dict, compare=False)  # all that the holder has written

    @property
    def has_ended(self) -> bool:
        """Whether the holder was a process of this host, and neither it nor its JVM runs any more."""
        return _has_ended(self.content)


def read_lease(store: S3Store, table: str) -> StoredLease | None:
    """The lease of a table by one request; ``None`` where there is none, it is released, or it is damaged.

    Raises:
        obstore.exceptions.BaseError: The store does not answer, or refuses access.
    """
    import obstore

    try:
        found = obstore.get(store, _key(table))
        content = json.loads(bytes(found.bytes()))
        if not content["owner"]:
            return None
        return StoredLease(
            str(content["job"]),
            int(content["pid"]),
            str(content["host"]),
            float(content.get("seconds", DEFAULT_SECONDS)),
            found.meta["last_modified"],
            found.meta["e_tag"],
            content,
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


class StoreLeases:
    """The leases of one job on all tables that it writes; all of them are acquired, or none.

    Raises:
        LeaseHeldError: Another process holds a lease; names the table and the holder.
        SetupError: The store does not answer, or refuses access.
    """

    def __init__(self, warehouse: str, tables: Sequence[str], job: str, seconds: float) -> None:
        self._warehouse, self._tables, self._job, self._seconds = warehouse, tuple(tables), job, seconds
        self._store: S3Store = object_store.conditional_store(warehouse)
        self._held: dict[str, str] = {}
        self._spark_pid: int | None = None
        self._fence = 0
        self._lost: LeaseLostError | None = None
        self._changing, self._ended = threading.Lock(), threading.Event()
        self._renewing = threading.Thread(target=self._renew_until_end, name="leases", daemon=True)

    def __enter__(self) -> Self:
        from obstore.exceptions import BaseError

        with ExitStack() as undo:
            undo.callback(self._release)
            try:
                self._require_conditions()
                for table in self._acquire_all():
                    self._add_fence(table)
            except (BaseError, OSError) as error:
                raise SetupError(
                    f"{self._warehouse}/_leases cannot be written: {first_line(error)[:300]}. Check "
                    "the address and the credentials of the object store. Nothing was started."
                ) from error
            undo.pop_all()
        lease_owner.hold(
            max(self._fence, lease_owner.fence() or 0)
        )  # a job may have leases at several places
        self._renewing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._renewing.join()
        lease_owner.hold(None)
        self._release()

    def record_jvm(self, pid: int) -> None:
        """Record the JVM that writes for this process: while it runs, the lease is not a dead process's."""
        self._spark_pid = pid
        self._renew_all()

    def lost(self) -> LeaseLostError | None:
        """The error for a lease that another process has taken over; ``None`` while all are held."""
        return self._lost

    def _require_conditions(self) -> None:
        """Refuse a store that writes an object although the condition of the put does not hold.

        On such a store two jobs that start at once would both have every lease.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        key = f"_leases/_probe-{lease_owner.OWNER}"
        # The answer to a put that succeeded may be lost: the client puts again, and is refused.
        with suppress(AlreadyExistsError):
            obstore.put(self._store, key, b"first", mode="create")
        try:
            for mode in ("create", {"e_tag": '"another"'}):
                with suppress(AlreadyExistsError, PreconditionError):
                    obstore.put(self._store, key, b"second", mode=mode)  # type: ignore[arg-type]
                    raise SetupError(
                        f"{self._warehouse}: the store ignores the conditions of a put (If-None-Match, "
                        "If-Match), so that two jobs could write one table. Use a store that has them, as "
                        "AWS S3 does. Nothing was started."
                    )
        finally:
            with suppress(BaseError, OSError):
                obstore.delete(self._store, key)

    def _acquire_all(self) -> list[str]:
        """Acquire all leases under one fencing number; returns the tables whose lease was not released."""
        found = {table: self._read(table) for table in self._tables}
        for table, (content, _) in found.items():
            if content.get("owner") and (holder := self._holder(table, content)) is not None:
                raise LeaseHeldError(table, holder)
        self._fence = 1 + max((int(content.get("fence", 0)) for content, _ in found.values()), default=0)
        for table, (_, tag) in found.items():
            if not self._put(table, tag):
                holder = _describe(self._read(table)[0])
                raise LeaseHeldError(table, holder)
        return [table for table, (content, _) in found.items() if content.get("owner")]

    def _holder(self, table: str, content: Mapping[str, Any]) -> str | None:
        """Who holds a lease; ``None`` for one that has expired, or whose process on this host has ended."""
        if _has_ended(content):
            return None
        left = float(content.get("seconds", DEFAULT_SECONDS)) - self._age_seconds(table)
        if left <= 0:
            return None
        return f"{_describe(content)}; its lease ends in {left:.0f} s unless the job renews it"

    def _age_seconds(self, table: str) -> float:
        """How long ago a lease was renewed, by the clock of the store."""
        import obstore

        clock = f"_leases/_clock-{lease_owner.OWNER}"
        renewed = obstore.head(self._store, _key(table))["last_modified"]
        obstore.put(self._store, clock, b"now")
        now = obstore.head(self._store, clock)["last_modified"]
        obstore.delete(self._store, clock)
        return (now - renewed).total_seconds()

    def _read(self, table: str) -> tuple[dict[str, Any], str | None]:
        """The content of a lease and the tag of this content; empty and ``None`` where there is no lease."""
        import obstore

        try:
            found = obstore.get(self._store, _key(table))
        except FileNotFoundError:
            return {}, None
        tag = found.meta["e_tag"]
        try:
            content = json.loads(bytes(found.bytes()))
        except ValueError:
            content = {}
        return (content if isinstance(content, dict) else {}), tag

    def _put(self, table: str, tag: str | None, *, owner: str = lease_owner.OWNER) -> bool:
        """Write a lease if it still has the tag, or still does not exist; whether it was written."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        content = json.dumps(self._content(owner)).encode()
        try:
            put = obstore.put(
                self._store, _key(table), content, mode="create" if tag is None else {"e_tag": tag}
            )
        except (AlreadyExistsError, PreconditionError):
            found, tag = self._read(table)
            # The answer to a put that succeeded may be lost: the client puts again and is refused.
            if found.get("owner") != lease_owner.OWNER or tag is None:
                return False
            self._held[table] = tag
            return True
        self._held[table] = str(put["e_tag"])
        return True

    def _content(self, owner: str) -> dict[str, Any]:
        return {
            "owner": owner,
            "fence": self._fence,
            "job": self._job,
            "host": socket.gethostname(),
            "boot": _boot_id(),
            "pids": _process_ids(),
            "pid": os.getpid(),
            "started": processes.start_mark(os.getpid()),
            "jvm": self._spark_pid,
            "jvm_started": None if self._spark_pid is None else processes.start_mark(self._spark_pid),
            "seconds": self._seconds,
            "renewed_at": datetime.now(UTC).isoformat(),
        }

    def _add_fence(self, table: str) -> None:
        """Add an empty commit to a table, so that no commit that its former owner has begun fits any more."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        layer, _, name = table.partition(".")
        version = LogReader(f"{self._warehouse}/{layer}/{name}").latest_version()
        while version is not None:
            version += 1
            with suppress(AlreadyExistsError):
                key = f"{layer}/{name}/_delta_log/{version:020}.json"
                obstore.put(self._store, key, self._fence_commit(table), mode="create")
                return

    def _fence_commit(self, table: str) -> bytes:
        metadata = {"table": table, "by": "lease", "fence": self._fence}
        commit = {
            "timestamp": int(time.time() * 1000),
            "operation": "LEASE",
            "operationParameters": {},
            "isBlindAppend": True,
            "txnId": str(uuid.uuid4()),
            "userMetadata": json.dumps(metadata),
        }
        return json.dumps({"commitInfo": commit}, separators=(",", ":")).encode() + b"\n"

    def _renew_until_end(self) -> None:
        while not self._ended.wait(self._seconds / 3) and self._lost is None:
            self._renew_all()

    def _renew_all(self) -> None:
        """Renew all leases; a store that does not answer is tried again at the next renewal."""
        from obstore.exceptions import BaseError

        with self._changing, suppress(BaseError, OSError):
            for table, tag in list(self._held.items()):
                if not self._put(table, tag):
                    del self._held[table]
                    self._lost = LeaseLostError(table, _describe(self._read(table)[0]))
                    return

    def _release(self) -> None:
        from obstore.exceptions import BaseError

        with self._changing:
            for table, tag in self._held.items():
                with suppress(BaseError, OSError):  # the lease then ends by itself
                    self._put(table, tag, owner="")
            self._held.clear()


def _has_ended(content: Mapping[str, Any]) -> bool:
    """Whether a lease is that of a process of this host that has ended, with its JVM."""
    # In another container of this machine the same id is another process, or none.
    own = {"host": socket.gethostname(), "boot": _boot_id(), "pids": _process_ids()}
    if any(content.get(name) != value for name, value in own.items()):
        return False
    started = [(content.get("pid"), content.get("started")), (content.get("jvm"), content.get("jvm_started"))]
    return not any(isinstance(pid, int) and processes.is_running(pid, mark) for pid, mark in started)


def _key(table: str) -> str:
    return f"_leases/{table}.json"


def _boot_id() -> str | None:
    """Identifies the machine since its start; ``None`` where the system does not tell."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _process_ids() -> str | None:
    """Identifies the namespace of this process's ids; ``None`` where the system has none."""
    try:
        return str(_PROCESS_IDS.readlink())
    except OSError:
        return None


def _describe(content: Mapping[str, Any]) -> str:
    if not content:
        return "another process"
    where = f"pid {content.get('pid')} on {content.get('host')}"
    return f"{content.get('job')} ({where}, fencing number {content.get('fence')})"
