"""What processes cost, and what else the machine did meanwhile, as Linux counts it in ``/proc``.

    with Meter({"ours": pid, "broker": broker.pid}) as meter:
        before = meter.read()           # or meter.at_birth("ours", began), for all that it has used
        ...
        usage = meter.read().since(before, "ours")

CPU seconds are those of a process and of all that it started, ended ones and zombies included; nothing is
counted twice. Foreign cores are what the rest of the machine used: neither the metered processes nor this
one. They make CPU figures a little worse and wall figures worthless, so ``Usage.refusal`` says no to the
latter above ``MOST_FOREIGN``. Time stolen by a hypervisor is told apart; it is nobody's work.
"""

from __future__ import annotations

import os
import platform
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from distribution.bench.reporting import page

MOST_FOREIGN = 0.3
"""Cores that others may use before a wall figure says nothing."""

HARNESS = "harness"
"""The group of this process and what it started, but for the metered processes."""

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_SECONDS = 0.2
_PROC = Path("/proc")


class Stat(NamedTuple):
    """A process as ``/proc/<pid>/stat`` tells of it; times in clock ticks, memory in bytes."""

    pid: int
    parent: int
    session: int
    started: int
    own: int
    of_children: int
    virtual: int
    resident: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group of processes used between two readings.

    Attributes:
        seconds: On the clock.
        cpu: Seconds of CPU, user and system.
        peak_bytes: The most memory resident at once, from the meter's first to its last reading.
        others: Seconds of CPU of each other metered group.
        foreign_cores: What processes outside of all groups used, on average.
        stolen_cores: What the hypervisor kept back, on average.
    """

    seconds: float
    cpu: float
    peak_bytes: int
    others: Mapping[str, float]
    foreign_cores: float
    stolen_cores: float

    @property
    def cores(self) -> float:
        """How many it kept busy."""
        return self.cpu / self.seconds if self.seconds else 0.0

    @property
    def refusal(self) -> str | None:
        """Why figures of the clock are not to be believed; ``None`` where they are."""
        if self.foreign_cores > MOST_FOREIGN:
            return f"others used {self.foreign_cores:.1f} cores"
        return None


@dataclass(frozen=True, slots=True)
class Reading:
    """All counters at one moment, in seconds since whenever they began."""

    at: float
    cpu: Mapping[str, float]
    peak_bytes: Mapping[str, int]
    busy: float
    stolen: float

    def since(self, before: Reading, group: str) -> Usage:
        """What a group used since an earlier reading of the same meter."""
        seconds = self.at - before.at
        used = {name: self.cpu[name] - before.cpu[name] for name in self.cpu}
        foreign = self.busy - before.busy - sum(used.values())
        return Usage(
            seconds=seconds,
            cpu=used[group],
            peak_bytes=self.peak_bytes[group],
            others={name: cpu for name, cpu in used.items() if name != group},
            foreign_cores=max(0.0, foreign / seconds) if seconds else 0.0,
            stolen_cores=(self.stolen - before.stolen) / seconds if seconds else 0.0,
        )


@dataclass
class Tree:
    """One metered process, with all that it started.

    A process is known by its pid and start. What is seen last of one that has ended stands for it, unless
    its parent, which waited for it, knows of more.
    """

    seen: dict[tuple[int, int], Stat] = field(default_factory=dict)
    ended: set[tuple[int, int]] = field(default_factory=set)
    peak_bytes: int = 0

    def look(self, alive: Mapping[tuple[int, int], Stat]) -> None:
        """Take note of the members that are alive now."""
        self.ended |= self.seen.keys() - alive.keys()
        self.seen.update(alive)
        self.peak_bytes = max(self.peak_bytes, _resident(alive.values()))

    @property
    def ticks(self) -> int:
        """CPU of all members, clock ticks."""
        known: dict[int, int] = {}
        for key in self.ended:
            stat = self.seen[key]
            known[stat.parent] = known.get(stat.parent, 0) + stat.own + stat.of_children
        own = sum(stat.own for stat in self.seen.values())
        return own + sum(max(0, stat.of_children - known.get(stat.pid, 0)) for stat in self.seen.values())


def _resident(stats: Iterable[Stat]) -> int:
    """Memory of processes; one that has just been forked still has its parent's, which is counted once."""
    by_pid = {stat.pid: stat for stat in stats}
    return sum(
        stat.resident
        for stat in by_pid.values()
        if stat.parent not in by_pid or by_pid[stat.parent].virtual != stat.virtual
    )


class Meter:
    """Watches processes from its beginning to its end, in a thread of its own.

    Args:
        roots: A process per group. What one of them starts belongs to its group, unless it is a root itself.
    """

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._roots = {pid: name for name, pid in roots.items()} | {os.getpid(): HARNESS}
        self._trees = {name: Tree() for name in self._roots.values()}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="meter")

    def __enter__(self) -> Self:
        self._first = self.read()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def at_birth(self, group: str, began: float) -> Reading:
        """The counters as they were when a group's process was started, a moment before this meter.

        Args:
            group: It had used nothing then.
            began: When that was, by ``time.monotonic``.
        """
        return replace(self._first, at=began, cpu={**self._first.cpu, group: 0.0})

    def read(self) -> Reading:
        """The counters as they are now."""
        with self._lock:
            self._sample()
            busy, stolen = machine_seconds()
            return Reading(
                at=time.monotonic(),
                cpu={name: tree.ticks / _TICKS for name, tree in self._trees.items()},
                peak_bytes={name: tree.peak_bytes for name, tree in self._trees.items()},
                busy=busy,
                stolen=stolen,
            )

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            with self._lock:
                self._sample()

    def _sample(self) -> None:
        now = {stat.pid: stat for stat in _processes()}
        members: dict[str, dict[tuple[int, int], Stat]] = {name: {} for name in self._trees}
        for stat in now.values():
            if name := self._group(stat, now):
                members[name][stat.pid, stat.started] = stat
        for name, tree in self._trees.items():
            tree.look(members[name])

    def _group(self, stat: Stat, now: Mapping[int, Stat]) -> str | None:
        at: Stat | None = stat
        while at is not None:
            if name := self._roots.get(at.pid):
                return name
            at = now.get(at.parent)
        # Its parent has ended: what was a member stays one, and so does what is in a member's session.
        key = stat.pid, stat.started
        known = (name for name, tree in self._trees.items() if key in tree.seen)
        return next(known, None) or self._roots.get(stat.session)


def _processes() -> Iterator[Stat]:
    for entry in os.listdir(_PROC):  # noqa: PTH208  # twice as fast, five times a second
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123
                    yield parsed(file.read())
            except OSError:  # it has ended
                continue


def parsed(stat: bytes) -> Stat:
    """A line of ``/proc/<pid>/stat``. The name, in brackets, may hold anything."""
    pid = stat.partition(b" ")[0]
    fields = stat.rpartition(b")")[2].split()  # from field 3, the state, on
    return Stat(
        pid=int(pid),
        parent=int(fields[1]),
        session=int(fields[3]),
        started=int(fields[19]),
        own=int(fields[11]) + int(fields[12]),
        of_children=int(fields[13]) + int(fields[14]),
        virtual=int(fields[20]),
        resident=int(fields[21]) * _PAGE,
    )


def machine_seconds() -> tuple[float, float]:
    """CPU seconds, since the machine started, that its processors worked, and that were stolen from it."""
    words = (_PROC / "stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, _, _, interrupts, soft, stolen = map(int, words[1:9])
    return (user + nice + system + interrupts + soft) / _TICKS, stolen / _TICKS


def facts() -> dict[str, Any]:
    """The machine and the moment, for whoever reads figures."""
    import deltalake
    import polars as pl
    import pyspark

    memory = os.sysconf("SC_PHYS_PAGES") * _PAGE
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "cpu": page.cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "delta_rs": deltalake.__version__,
        "polars": pl.__version__,
        "commit": _commit(),
    }


def _commit() -> str:
    words = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return done.stdout.strip()
