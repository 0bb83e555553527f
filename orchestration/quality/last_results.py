"""The last result of each quality suite, from ``quality.results``, for the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from common.config.paths import Layout
from common.declare import Quality
from orchestration.quality.judgement import ExpectationResult
from orchestration.quality.state import PastRun, states


@dataclass(frozen=True, slots=True)
class LastResult:
    """The newest run of one suite."""

    table: str  # the table that the suite judges
    version: int  # the version that was judged
    at: datetime  # the time of the run, UTC
    is_met: bool  # whether all expectations of severity ``error`` were met
    checked: int  # number of expectations and rules
    # Those of severity ``error`` that were not met: name and columns. No value of a row.
    failed: tuple[str, ...]
    warned: tuple[str, ...]  # those of severity ``warn`` that were not met


def last_results(layout: Layout, suites: Iterable[Quality]) -> tuple[LastResult, ...]:
    """The newest result of each suite that was run, by a command or by a gate, in the order of the suites.

    Raises:
        TableError: ``quality.results`` cannot be read.
    """
    found = states(layout, list(suites))
    return tuple(_last(state.last) for state in found if state.last is not None)


def _last(run: PastRun) -> LastResult:
    def named(results: Iterable[ExpectationResult]) -> tuple[str, ...]:
        return tuple(f"{one.expectation} {one.column}".strip() for one in results)

    return LastResult(
        table=run.table,
        version=run.version,
        at=run.at,
        is_met=not run.failures,
        checked=len(run.checked),
        failed=named(run.failures),
        warned=named(run.warnings),
    )
