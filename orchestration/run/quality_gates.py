"""Gates of quality suites in a running job: a thread evaluates new versions of tables that have a gate.

The thread is off the way of the rows: queries never wait for it. It reads the newest version, so it skips
versions where it is slower than the queries. ``gate="publish"`` moves the pointer of a table to a version
that passed; ``gate="stop"`` stops the query that writes the table after a version failed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.declare import Quality
from common.declare.intervals import parse_duration
from common.delta.log import LogReader
from common.delta.published_pointer import SUFFIX, publish_version, read_published, withdraw_other
from common.errors import MedallionError, QualityFailedError, TableError
from common.machine.console import say
from common.streaming.query import told
from orchestration.run.supervisor import Supervisor
from orchestration.run.wiring import Layer, Wiring

if TYPE_CHECKING:
    from orchestration.quality.judgement import SuiteResult
    from orchestration.quality.session import QualitySession

_POLL_SECONDS = 2.0
_PAUSE_PER_SECOND = 10.0
"""Seconds without an evaluation for each second that the last one took."""


@dataclass
class _Gate:
    """The state of one table's gate. Times are those of ``time.monotonic``."""

    suite: Quality
    log: LogReader
    version: int = -1  # the newest version that was evaluated; -1 before the first evaluation
    result: SuiteResult | None = None  # its result
    error: str = ""  # why the newest version could not be evaluated; empty if it could
    due: float = 0.0  # time before which no further version is evaluated


class QualityGates:
    """The gates of the tables that a job writes."""

    def __init__(self, wiring: Wiring, supervisor: Supervisor, layers: Sequence[Layer]) -> None:
        self._wiring, self._supervisor = wiring, supervisor
        self._gates = [
            _Gate(suite, LogReader(wiring.layout.table_path(suite.table)))
            for suite in wiring.pipeline.quality
            if suite.gate is not None and suite.table.partition(".")[0] in layers
        ]
        self._interval = _seconds(wiring.settings.quality.gate_interval)
        self._ended, self._woken = threading.Event(), threading.Event()
        self._evaluating = threading.Lock()
        self._session: QualitySession | None = None

    @contextmanager
    def running(self) -> Iterator[QualityGates]:
        """Evaluate new versions in a thread inside the block; without gates there is no thread."""
        if not self._gates:
            yield self
            return
        for gate in self._gates:
            table = gate.suite.table
            self._withdraw_other(gate.suite)
            self._supervisor.notifier.follow(f"quality gate of {table}", (table,), self._woken.set)
        thread = threading.Thread(target=self._loop, name="quality gates", daemon=True)
        self._supervisor.beside.append(thread)  # what it publishes is this job's to publish
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            self._woken.set()
            thread.join(self._wiring.settings.stop_timeout_seconds)

    def judge(self, *, evaluate: bool) -> None:
        """Raise the failure of the gates, after the newest versions were evaluated.

        Args:
            evaluate: Whether to evaluate versions that the thread has not evaluated; else only queries that
                a gate stopped are failures.

        Raises:
            QualityFailedError: A suite with a gate failed on the newest version, or a gate stopped a query.
        """
        failed, tables = list[str](), list[str]()
        for gate in self._gates:
            if evaluate:
                self._evaluate(gate)
            is_stopped = gate.suite.table in self._supervisor.gate.closed_for
            if gate.result is not None and not gate.result.is_met and (evaluate or is_stopped):
                failed.append(_failure(gate.result))
                tables.append(gate.suite.table)
            if evaluate and gate.error:
                failed.append(f"{gate.suite.table}: {gate.error}")
        if failed:
            if tables:
                failed.append(f"The failing rows: medallion quality status {' '.join(tables)} --rows")
            raise QualityFailedError("\n".join(failed))

    def _loop(self) -> None:
        while not self._ended.is_set():
            for gate in self._gates:
                if time.monotonic() >= gate.due and not self._ended.is_set():
                    self._evaluate(gate)
            self._woken.wait(_POLL_SECONDS)
            self._woken.clear()

    def _evaluate(self, gate: _Gate) -> None:
        """Evaluate the newest version, unless it was evaluated; an error is reported and ends nothing."""
        with self._evaluating:
            began = time.monotonic()
            try:
                version = gate.log.latest_version()
                if version is None or version == gate.version or _is_new(gate.log, version):
                    return
                self._evaluate_version(gate, version)
                gate.error = ""
            except Exception as error:  # noqa: BLE001  # any fault must end the evaluation only
                kind = "" if isinstance(error, MedallionError) else f"{type(error).__name__}: "
                if (text := f"cannot evaluate the newest version: {kind}{told(error)}") != gate.error:
                    gate.error = text
                    say(f"quality gate of {gate.suite.table}: {text}", level="error")
            took = time.monotonic() - began
            gate.due = time.monotonic() + max(self._interval, _PAUSE_PER_SECOND * took)

    def _evaluate_version(self, gate: _Gate, version: int) -> None:
        from orchestration.quality.versions import pin

        suite, layout = gate.suite, self._wiring.layout
        before = gate.result
        snapshot = gate.log.snapshot()
        pinned = pin(layout, suite.table, version)
        ((_, result),) = self._quality_session().evaluate([(suite, pinned)], reason="gate")
        if result.is_met and suite.gate == "publish" and snapshot is not None:
            publish_version(pinned.path, suite.table, snapshot.table_id, version)
        gate.version, gate.result = version, result
        if not result.is_met and suite.gate == "stop":
            self._supervisor.stop_query(suite.table)
        if before is None or before.is_met != result.is_met or not result.is_met:
            text = f"quality gate of {suite.table}: {self._consequence(suite, result)}"
            say(text, level="info" if result.is_met else "warning")

    def _withdraw_other(self, suite: Quality) -> None:
        """Take back a published version that is not the table's any more, as with an older copy of it."""
        if suite.gate != "publish":
            return
        path = self._wiring.layout.table_path(suite.table)
        try:
            why = withdraw_other(path)
        except TableError as error:
            say(
                f"which version of {suite.table} is published cannot be told: {error}. Readers get an error "
                f"until a version passes its suite; if that cannot be published, delete {path}{SUFFIX}",
                level="warning",
            )
            return
        if why is not None:
            say(
                f"{suite.table}{SUFFIX} is taken back: {why}: an older copy of the table was restored. "
                "Readers get the next version that passes its suite",
                level="warning",
            )

    def _quality_session(self) -> QualitySession:
        """The session of all evaluations; jobs without a gate load nothing of it."""
        from orchestration.quality.session import QualitySession

        if self._session is None:
            wiring = self._wiring
            self._session = QualitySession(
                wiring.pipeline, wiring.settings, wiring.layout, lambda: wiring.spark, is_beside_queries=True
            )
        return self._session

    def _consequence(self, suite: Quality, result: SuiteResult) -> str:
        if result.is_met:
            reads = f"; readers of {suite.table}{SUFFIX} get it" if suite.gate == "publish" else ""
            return f"version {result.version} passed{reads}"
        if suite.gate == "stop":
            return f"{_failure(result)}. Its query stops at a micro-batch boundary; the others go on"
        published = read_published(self._wiring.layout.table_path(suite.table))
        stay = "have no version yet" if published is None else f"stay on version {published.version}"
        return f"{_failure(result)}. Readers of {suite.table}{SUFFIX} {stay}"


def _is_new(log: LogReader, version: int) -> bool:
    """Whether the table was only created yet: its query has written nothing that could be judged."""
    snapshot = log.snapshot() if version == 0 else None
    return snapshot is not None and snapshot.files == 0


def _failure(result: SuiteResult) -> str:
    broken = [one for one in result.checked if one.is_failure]
    found = "; ".join(
        f"{one.expectation.removeprefix('expect_')} {one.column}".strip() + f": {one.observed or 'not met'}"
        for one in broken[:3]
    )
    more = f"; and {len(broken) - 3} more" if len(broken) > 3 else ""  # noqa: PLR2004  # as many as are shown
    return f"version {result.version} of {result.table} failed its quality suite ({found}{more})"


def _seconds(duration: str) -> float:
    length = parse_duration(duration)
    return 0.0 if length is None else length.seconds
