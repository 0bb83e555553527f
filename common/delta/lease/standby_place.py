"""The place of a standby: a lock file beside the leases that names a process which waits for them.

A standby holds no lease of a table. Its place has the lowest number that is free on this host, and the
standby's log files have the name of the place. The process keeps the place when it has taken over.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from common.delta.lease.local_leases import Leases
from common.errors import LeaseHeldError

PREFIX = "standby-"
"""What the names of places begin with; tables have names with a layer."""

_MOST = 100
"""More standbys on one host are a mistake, such as a loop that starts them."""

BEAT_SECONDS = 5.0
"""A standby that waits writes its place so often; one that is suspended does not."""

PlaceState = Literal["starting", "ready", "took over"]


class StandbyPlace:
    """A place that this process holds until it ends.

    Attributes:
        name: ``standby-1``, or a higher number.
    """

    def __init__(self, folder: Path, job: str, reads: str = "") -> None:
        """Create a place that is not held yet.

        Args:
            job: The job that the process goes on with.
            reads: Fingerprint of the pipeline file that the process has read.
        """
        self._folder, self._job, self._reads = folder, job, reads
        self._noted: tuple[PlaceState | None, float] = None, 0.0
        self.name = ""

    def __enter__(self) -> Self:
        last: LeaseHeldError | None = None
        for number in range(1, _MOST + 1):
            name = f"{PREFIX}{number}"
            try:
                self._lock = Leases(self._folder, [name], self._job).__enter__()
            except LeaseHeldError as held:
                last = held
                continue
            self.name = name
            self.note("starting")
            return self
        raise last or AssertionError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def record_jvm(self, pid: int) -> None:
        """Record the JVM: the next standby of this place waits until it has ended."""
        self._lock.record_jvm(pid)

    def note(self, state: PlaceState) -> None:
        """Write what the standby does, for those who look; the same again as a beat, every few seconds."""
        now = time.monotonic()
        if self._noted[0] == state and now - self._noted[1] < BEAT_SECONDS:
            return
        with suppress(OSError):  # as on a full disk: the standby waits all the same
            self._lock.note(state=state, reads=self._reads)
            self._noted = state, now
