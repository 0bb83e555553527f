"""A contender's process: started in a session of its own, told to stop, and ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from common.machine import processes

ROOT = Path(__file__).parents[3]
_POLL_SECONDS = 0.05
_PHASE = re.compile(r"^(\w+)[: ].* in ([\d.]+) s\b", re.MULTILINE)


class ContenderError(Exception):
    """A contender ended before it should have, or did not end when it should have."""


class Started:
    """A process with its output in ``<log>``; as a context manager nothing of it is left at the end.

    It is not asked for its exit code until ``end``: what it used is then still to be read in ``/proc``.

    Attributes:
        pid: Of the process, of its session and of its process group.
        began: When it was started, by ``time.monotonic``.
    """

    def __init__(
        self, module: str, words: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
                cwd=ROOT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return processes.start_mark(self.pid) is not None

    def await_end(self, timeout_seconds: float) -> None:
        """Return once it has ended by itself, and well.

        Raises:
            ContenderError: It did not within this time, or failed; with the end of its output.
        """
        deadline = time.monotonic() + timeout_seconds
        while self.is_running():
            if time.monotonic() > deadline:
                raise ContenderError(
                    f"pid {self.pid} did not end within {timeout_seconds:.0f} s\n{self.said()}"
                )
            time.sleep(_POLL_SECONDS)
        # Asked for, not reaped: its counters stay.
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if found is not None and found.si_status != 0:
            raise ContenderError(f"pid {self.pid} failed (status {found.si_status})\n{self.said()}")

    def check(self) -> None:
        """Raise where it has ended.

        Raises:
            ContenderError: It has; with the end of its output.
        """
        if not self.is_running():
            raise ContenderError(f"pid {self.pid} has ended\n{self.said()}")

    def stop(self, timeout_seconds: float = 90) -> None:
        """Ask it to stop, as Ctrl-C does, and wait for its end.

        Raises:
            ContenderError: It did not end within this time.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
        deadline = time.monotonic() + timeout_seconds
        while self.is_running():
            if time.monotonic() > deadline:
                raise ContenderError(f"pid {self.pid} did not stop in {timeout_seconds:.0f} s\n{self.said()}")
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """SIGKILL for it and all that is in its process group, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Leave nothing of it: it goes first, so that it starts no more, then whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        # Until it is waited for, its pid stays the name of its session.
        while left := _session(self.pid):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        self._process.wait()

    def phases(self) -> dict[str, float]:
        """Seconds by what it says of itself, in lines such as ``silver: 20,000 rows in 4.3 s``."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return {name: float(seconds) for name, seconds in _PHASE.findall(text)}

    def said(self, lines: int = 30) -> str:
        """The end of its output."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def _session(pid: int) -> list[int]:
    """Live processes of the session that a process leads; those it started, wherever they hang now."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != pid:
            with contextlib.suppress(OSError):
                if os.getsid(int(entry.name)) == pid and processes.start_mark(int(entry.name)):
                    found.append(int(entry.name))
    return found


def set_options(settings: Sequence[str]) -> Iterator[str]:
    """``--set`` words."""
    for text in settings:
        yield from ("--set", text)
