"""The state of each job, in a file that its process rewrites every second and others read.

A file per job name, ``jobs/<name>.json`` in the pipeline's local folder: process, queries, and the cause of
the end. It holds nothing of a record. The tables do not depend on it: without it, the state of a query is
read from its lease and its checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from common.machine.files.state_file import StateFile
from common.machine.processes import start_mark

SILENT_SECONDS = 5.0
"""A job whose process lives but has not written its state for so long does not answer."""

JobQueryState = Literal["starting", "working", "waiting", "restarting", "failed", "ended"]


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """Facts of a finished micro-batch, from Spark's progress report."""

    batch_id: int  # number of the micro-batch
    ended_at: datetime  # when it ended
    duration_ms: int  # from its trigger to its end
    # The parts of the duration, by Spark's names: ``latestOffset``, ``queryPlanning``, ``addBatch`` (reading,
    # computing and writing), ``walCommit``, ``commitOffsets`` and others.
    phases_ms: Mapping[str, int]
    state_rows: int | None  # rows in the query's state after the batch; None for a query without state
    state_bytes: int | None  # memory of that state in bytes; None for a query without state


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A query of a job; ``since`` is the start of its state, ``error`` the cause of a failure.

    ``has_end``: it processes the available data and ends; ``waits_for``: the query that has failed, and that
    this one hangs on.
    """

    state: JobQueryState
    since: datetime
    batch_id: int | None = None
    error: str = ""
    restarts: int = 0
    last_batch: BatchFacts | None = None
    has_end: bool = False
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Killed:
    """The process of a job that has ended without a word; ``at`` is when it was seen last."""

    pid: int
    host: str
    at: datetime


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of one job."""

    job: str
    run_id: str  # identifies this run of the job, also in logs and in the history
    pid: int
    host: str
    started_at: datetime
    at: datetime  # when the state was written
    queries: Mapping[str, JobQuery] = field(default_factory=dict)
    ended: str = ""  # empty while the job runs, ``stopped`` after a requested stop, ``failed`` after an error
    error: str = ""  # the cause of the end, in one line
    mark: str = ""  # start mark of the process, so that a process with the same id is not taken for the job
    # Whether that is what single queries have failed by; the others have ended well.
    is_of_tables: bool = False
    killed: Killed | None = None  # the process before this one, if it was killed
    is_standby: bool = False  # whether this process was a standby before

    @property
    def is_alive(self) -> bool:
        """Whether the process of the job runs, on this host; true for a process of another host."""
        if self.host != os.uname().nodename:
            return True
        mark = start_mark(self.pid)
        return mark is not None and (not self.mark or self.mark == str(mark))

    def is_silent(self, now: datetime) -> bool:
        """Whether the job runs but has not written its state for ``SILENT_SECONDS``.

        A time in the future is one from before the clock was set back: a job that lives writes a new one.
        """
        return not self.ended and abs((now - self.at).total_seconds()) > SILENT_SECONDS


_FILE = StateFile(JobState)


def write_state(folder: Path, state: JobState) -> None:
    """Write a job's state; readers see the old or the new one, never a part.

    Raises:
        OSError: The folder cannot be written.
    """
    _FILE.write(folder, f"{state.job}.json", state)


def killed_before(folder: Path, job: str) -> Killed | None:
    """The last process of a job of this host, if it was killed: it wrote no end, and runs no more."""
    last = _FILE.read_or_none(folder, f"{job}.json")
    if last is None or last.ended or last.is_alive:
        return None
    return Killed(last.pid, last.host, last.at)


def read_states(folder: Path) -> tuple[JobState, ...]:
    """The states of all jobs that have run in this folder: those that run first, then the newest.

    A file that is damaged is absent. A job that has ended may have written a time that is in the future now.
    """
    read = (_FILE.read_or_none(folder, file.name) for file in sorted(folder.glob("*.json")))
    found = [state for state in read if state is not None]
    return tuple(
        sorted(found, key=lambda state: (not state.ended and state.is_alive, state.at), reverse=True)
    )
