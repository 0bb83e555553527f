"""What a micro-batch costs a running job, one at a time: from a commit of its source to that of its table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from common.delta.log import LogReader
from tests.bench.contenders.started_process import ContenderError, Started
from tests.bench.data import history
from tests.bench.measure.machine import Meter
from tests.bench.measure.stats import median, number, ratio
from tests.bench.reporting.report import table
from tests.bench.run import OURS

WARM_UP = 2
_TIMEOUT_SECONDS = 600.0
_END_SECONDS = 1.0
"""The end of a micro-batch, after its commit, is its own."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a job.

    Attributes:
        what: That the job does, in words.
        cpu: CPU seconds of the job and all its processes, for each micro-batch.
        foreign_cores: What other processes used meanwhile, on average.
        failures: What makes the figures void.
    """

    what: str
    cpu: tuple[float, ...]
    foreign_cores: float
    failures: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        """CPU seconds of a micro-batch."""
        return median(self.cpu)


def cost_of(
    what: str, started: Started, source: Path, target: Path, rows: Callable[[int], pa.Table], batches: int
) -> Cost:
    """What micro-batches cost a job, after ``WARM_UP`` that do not count.

    Args:
        what: The job does, in words.
        started: The job.
        source: The table that gets the rows.
        target: The table that the job makes of it.
        rows: Those of a micro-batch, by its number.
        batches: How many are measured.

    Raises:
        ContenderError: The process has ended, or takes too long.
    """
    with Meter({OURS: started.pid}) as meter:
        for batch in range(WARM_UP):
            _processed(source, target, rows(batch), started)
        cpu, begun = [], meter.read()
        for batch in range(WARM_UP, WARM_UP + batches):
            made, before = rows(batch), meter.read()
            _processed(source, target, made, started)
            cpu.append(meter.read().since(before, OURS).cpu)
        return Cost(what, tuple(cpu), meter.read().since(begun, OURS).foreign_cores)


def _processed(source: Path, target: Path, rows: pa.Table, started: Started) -> None:
    version = history.append(source, rows)
    over = time.monotonic() + _TIMEOUT_SECONDS
    while read_to(target) < version:
        started.check()
        if time.monotonic() > over:
            raise ContenderError(f"{target.name} has not read version {version}\n{started.said()}")
        time.sleep(0.02)
    time.sleep(_END_SECONDS)


def read_to(target: Path) -> int:
    """The newest version of its first source that a table has the rows of; -1 where it has none."""
    log = LogReader(str(target))
    latest = log.latest_version()
    commit = None if latest is None else log.commit(latest)
    positions = None if commit is None else commit.metadata.get("positions")
    return int(positions[0]["reservoirVersion"]) - 1 if positions else -1


def cost_table(found: Sequence[Cost], base: str, rows: int, *, what: str, times: str) -> list[str]:
    """The lines of a table of costs.

    Args:
        found: The costs, a line each.
        base: What the others are ratios to; if it is not among them, there are none.
        rows: Of a micro-batch.
        what: Head of the first column.
        times: Head of the ratios.
    """
    of_base = next((one.median for one in found if one.what == base), float("nan"))
    body = [
        (
            one.what,
            number(one.median),
            number(one.median / rows * 1e6),
            number(ratio(one.median, of_base)),
            f"{one.foreign_cores:.2f}",
        )
        for one in found
    ]
    return table((what, "CPU s of a micro-batch", "CPU µs per row", times, "foreign cores"), body)
