"""The leases of a job on the tables that it writes: always on its own disk, and on the store of its tables.

The lock files of the local disk exclude other processes of this host. Where the tables are on ``s3a://``,
``common.delta.lease.store_leases`` excludes those of other hosts. A folder on a local disk to which the job
publishes has a lock file too: a copy of the data folder has lock files of its own, and publishes to the same
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from common.config.paths import Layout
from common.delta.lease.local_leases import Leases
from common.delta.lease.store_leases import DEFAULT_SECONDS, StoreLeases
from common.errors import LeaseLostError, SetupError
from common.machine import lease_owner
from common.machine.object_store import is_s3


class TableLeases:
    """All leases of one job; all of them are acquired, or none.

    Raises:
        LeaseHeldError: Another process holds a lease; names the table and the holder.
        SetupError: A lease cannot be written.
    """

    def __init__(
        self,
        layout: Layout,
        tables: Sequence[str],
        job: str,
        seconds: float = DEFAULT_SECONDS,
        published: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        """Take what the job writes.

        Args:
            seconds: How long a lease on an object store lasts.
            published: By publication, the folder of its lock file.
        """
        self._local = Leases(layout.leases, tables, job)
        self._beside = [Leases(folder, names, job) for folder, names in layout.locks(tables).items()]
        self._published = [Leases(folder, [query], job) for query, folder in published.items()]
        stored: dict[str, list[str]] = {}
        for root, name in map(layout.lease_of, tables if is_s3(layout.warehouse) else ()):
            stored.setdefault(root, []).append(name)
        self._stored = [StoreLeases(root, names, job, seconds) for root, names in stored.items()]
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._local)
            for beside in self._beside:
                stack.enter_context(beside)
            for one in self._published:
                with suppress(SetupError):  # a folder that cannot be written fails its publication alone
                    stack.enter_context(one)
            for stored in self._stored:
                stack.enter_context(stored)
            for one in (self._local, *self._beside):
                stack.callback(lease_owner.hold_while(one.prove))
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release all leases before the end of the block; does nothing when there are none."""
        self._open.close()

    def record_jvm(self, pid: int) -> None:
        """Record the JVM that writes for this process, for the next holder after a SIGKILL."""
        held: list[Leases | StoreLeases] = [self._local, *self._beside, *self._published, *self._stored]
        for one in held:
            one.record_jvm(pid)

    def lost(self) -> LeaseLostError | None:
        """The error for a lease that is another process's by now; ``None`` while all are held."""
        held: list[Leases | StoreLeases] = [self._local, *self._beside, *self._stored]
        found = (one.lost() for one in held)
        return next(filter(None, found), None)
