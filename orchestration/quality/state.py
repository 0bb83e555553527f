"""The state of suites and gates: the last run of each suite, its history, and the published version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from common.config.paths import Layout
from common.declare import Quality
from common.delta.log import latest_version
from common.delta.published_pointer import read_published
from orchestration.access.query.shown_values import part
from orchestration.quality import results
from orchestration.quality.judgement import ExpectationResult
from orchestration.quality.results import Row


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run of a suite."""

    at: datetime
    reason: str  # ``command``, or ``gate`` of a job
    table: str
    version: int
    since: int | None  # only rows written after this version were read; None: all rows
    rows: int | None
    seconds: float
    checked: tuple[ExpectationResult, ...]  # the results, in no order

    @property
    def failures(self) -> tuple[ExpectationResult, ...]:
        """Expectations of severity ``error`` that failed."""
        return tuple(one for one in self.checked if one.is_failure)

    @property
    def warnings(self) -> tuple[ExpectationResult, ...]:
        """Expectations of severity ``warn`` that failed."""
        return tuple(one for one in self.checked if not one.is_met and not one.is_failure)


@dataclass(frozen=True, slots=True)
class SuiteState:
    """The state of a suite."""

    suite: Quality
    newest: int | None  # the newest version of the table; None if there is no table
    # The version that readers of ``<table>__published`` get; None if no version is published.
    published: int | None
    runs: tuple[PastRun, ...]  # runs over the table or a part of it, newest first

    @property
    def last(self) -> PastRun | None:
        """The last run."""
        return self.runs[0] if self.runs else None

    @property
    def last_failed(self) -> PastRun | None:
        """The last run that failed; None if none did."""
        return next((run for run in self.runs if run.failures), None)

    @property
    def word(self) -> str:
        """The state in one word: ``passed``, ``warned``, ``failed`` or ``never run``."""
        if self.last is None:
            return "never run"
        if self.last.failures:
            return "failed"
        return "warned" if self.last.warnings else "passed"


def states(layout: Layout, suites: Sequence[Quality], *, days: int = results.DAYS) -> list[SuiteState]:
    """The state of each suite, from the runs of the last ``days``."""
    runs = past_runs(results.read(layout, tables=[suite.table for suite in suites], days=days))
    found = []
    for suite in suites:
        path = layout.table_path(suite.table)
        published = read_published(path) if suite.gate == "publish" else None
        found.append(
            SuiteState(
                suite,
                latest_version(path),
                None if published is None else published.version,
                tuple(run for run in runs if run.table == suite.table),
            )
        )
    return found


def past_runs(rows: Iterable[Row]) -> list[PastRun]:
    """The runs, newest first, and runs of one time by table."""
    found = []
    ordered = sorted(rows, key=lambda row: (-row.at.timestamp(), row.table, row.version))
    for (at, table, version), group in groupby(ordered, lambda row: (row.at, row.table, row.version)):
        of_run = list(group)
        first = of_run[0]
        seconds = sum(row.seconds for row in of_run)
        checked = tuple(map(_result, of_run))
        found.append(PastRun(at, first.reason, table, version, first.since, first.rows, seconds, checked))
    return found


def _result(row: Row) -> ExpectationResult:
    return ExpectationResult(
        expectation=row.expectation,
        column=row.column,
        is_met=row.is_met,
        observed=row.observed,
        severity=row.severity,
        expected=row.expected,
        failing_rows=row.failing_rows,
        seconds=row.seconds,
    )


def document(state: SuiteState, history: int) -> Mapping[str, object]:
    """A state for ``--json``, with its newest runs."""
    return {
        "table": state.suite.table,
        "gate": state.suite.gate,
        "state": state.word,
        "version": state.newest,
        "published_version": state.published,
        "runs": [_run_document(run) for run in state.runs[:history]],
    }


def _run_document(run: PastRun) -> Mapping[str, object]:
    return {
        **part(run, "at", "reason", "version", "since", "rows"),
        "passed": not run.failures,
        "seconds": round(run.seconds, 3),
        "not_met": [
            part(one, "expectation", "column", "severity", "observed", "failing_rows")
            for one in run.checked
            if not one.is_met
        ],
    }
