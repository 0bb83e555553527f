"""The records of backfills: one file per run in the pipeline's local folder, written at its begin, after each
layer, and at its end. A run whose process is gone without an end was killed.

The tables do not depend on these files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from common.errors import first_line
from common.machine.files.state_file import StateFile
from common.machine.processes import start_mark

RUNNING, COMPLETE, STOPPED, FAILED, KILLED = "running", "complete", "stopped", "failed", "killed"


@dataclass(frozen=True, slots=True)
class LayerRead:
    """What a run has read for one layer."""

    layer: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BackfillRun:
    """One run."""

    started_at: datetime  # when it began, UTC
    options: str  # the options that say what it reads; empty: everything that is available
    pid: int  # its process; ``host`` and ``mark`` say which process of that number
    host: str
    mark: str
    ended_at: datetime | None = None  # when it ended; None while it runs, and where it was killed
    ended: str = ""  # ``complete``, ``stopped`` at the boundary of a micro-batch, or ``failed``; empty before
    error: str = ""  # the cause of a failure, in one line
    layers: tuple[LayerRead, ...] = field(default_factory=tuple)  # what it has read, layer by layer

    @property
    def rows(self) -> int:
        """Rows that its layers have read, and records of Kafka."""
        return sum(one.rows for one in self.layers)

    @property
    def seconds(self) -> float:
        """Duration; of a run that was killed, that of its complete layers."""
        if self.ended_at is not None:
            return (self.ended_at - self.started_at).total_seconds()
        return sum(one.seconds for one in self.layers)

    @property
    def state(self) -> str:
        """How it ended; ``running`` while its process lives, ``killed`` where that is gone."""
        if self.ended:
            return self.ended
        if self.host != os.uname().nodename:
            return RUNNING
        mark = start_mark(self.pid)
        return RUNNING if mark is not None and str(mark) == self.mark else KILLED


_FILE = StateFile(BackfillRun)


class RunRecord:
    """Writes the record of this process's run."""

    def __init__(self, folder: Path, options: str) -> None:
        """Begin the record of a run.

        Args:
            folder: ``Layout.backfills``.
        """
        pid = os.getpid()
        now = datetime.now(UTC)
        self._folder, self._name = folder, f"{now:%Y%m%dT%H%M%S%f}Z.json"
        self.run = BackfillRun(now, options, pid, os.uname().nodename, str(start_mark(pid)))
        self._write()

    def read(self, layer: str, rows: int, seconds: float) -> None:
        """Add what was read for a layer."""
        done = LayerRead(layer, rows, round(seconds, 3))
        self.run = replace(self.run, layers=(*self.run.layers, done))
        self._write()

    def end(self, how: str, error: str = "") -> None:
        """Say how the run ended."""
        text = first_line(error)
        self.run = replace(self.run, ended_at=datetime.now(UTC), ended=how, error=text)
        self._write()

    def _write(self) -> None:
        _FILE.write(self._folder, self._name, self.run)


def read_runs(folder: Path, most: int | None = None) -> Sequence[BackfillRun]:
    """The runs, newest first; a file that is damaged is absent.

    Args:
        folder: ``Layout.backfills``.
        most: How many; None: all.
    """
    files = sorted(folder.glob("*.json"), reverse=True)[:most]
    read = (_FILE.read_or_none(folder, file.name) for file in files)
    return [run for run in read if run is not None]
