"""What a workload is given: sizes, contenders, a scratch folder and a broker, and one line per step to say.

    def workload(run: Run) -> Section: ...

``run.scratch("x")`` is a new folder that goes at the end; ``run.sized(full, quick)`` picks a size by the
kind of run, unless the command line named one.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from distribution.bench.contenders.contender import Contender
from distribution.bench.contenders.flink import Flink
from distribution.bench.contenders.ours import PIPELINE, WIDE, Ours
from distribution.bench.contenders.script import Script
from distribution.bench.reporting.report import Section
from orchestration.access.embedded_broker.lifecycle import Broker

OURS = Ours.name
PEERS: dict[str, Contender] = {
    one.name: one
    for one in (
        Script(
            "tutorial",
            "three readStream/writeStream queries, Spark's and Delta's default settings, "
            "the same jars and heap",
        ),
        Script("polars", "a hand-written loop of confluent-kafka, Polars and delta-rs, one process"),
        Flink(
            "flink",
            "Flink SQL 1.20 on tables of Paimon 1.3, three chained jobs in one JVM of the same heap, a "
            "checkpoint each second",
        ),
    )
}

WIDE_PEERS: dict[str, Contender] = {"polars": Script("polars", PEERS["polars"].what, ("--wide",))}
"""Those that can do the job with all fields of the events."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the benchmark.

    Attributes:
        broker: Of all workloads.
        folder: Scratch, on the disk that tables are to be measured on.
        quick: Whether sizes are those that fit into minutes.
        peers: Whom ours is measured against; ``None``: whom the workload names itself.
        events: Messages of a drain, if the command line names them.
        rounds: Interleaved rounds, likewise.
        per_second: Messages per second, likewise.
        seconds: Length of what is measured by the clock, likewise.
        warm_up: Seconds before it, likewise.
        beside: Cores of other work, likewise; 0: freshness is measured without any.
        settings: Settings of the product, as ``--set`` takes them.
        left_out: Why each peer that was asked for is not measured.
    """

    broker: Broker
    folder: Path
    quick: bool = False
    peers: tuple[str, ...] | None = None
    events: int | None = None
    rounds: int | None = None
    per_second: int | None = None
    seconds: float | None = None
    warm_up: float | None = None
    beside: float = 0.0
    settings: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def sized(self, named: float | None, full: float, quick: float) -> int:
        """A size: the one that was named, else that of this kind of run."""
        return int(named if named is not None else quick if self.quick else full)

    def ours(self) -> Ours:
        """The product, with the settings that were given."""
        return Ours(self.settings)

    def contenders(self, peers: Sequence[str], *, wide: bool = False) -> list[Contender]:
        """Ours, and the peers of a workload or of the command line; of these the ones that can run here."""
        names = peers if self.peers is None else self.peers
        known = WIDE_PEERS if wide else PEERS
        ours = Ours(self.settings, WIDE if wide else PIPELINE)
        return [ours, *(known[name] for name in names if name in known and self._is_here(known[name]))]

    def _is_here(self, peer: Contender) -> bool:
        if peer.name not in self.left_out and (why := peer.set_up()) is not None:
            self.say(f"{peer.name} is left out: {why}")
            self.left_out[peer.name] = why
        return peer.name not in self.left_out

    def scratch(self, name: str) -> Path:
        """A new, empty folder."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def say(self, text: str) -> None:
        """A line of progress."""
        sys.stderr.write(f"[{time.monotonic() - self._began:6.0f} s] {text}\n")
        sys.stderr.flush()


Workload = Callable[[Run], Section]
