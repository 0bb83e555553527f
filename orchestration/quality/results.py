"""The table ``quality.results``: one row per expectation and run, appended by each run of a suite.

Grain: one row per run, table and expectation. It is a plain Delta table, written without Spark, which every
Delta reader reads; ``medallion query`` knows it as ``quality.results``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from common.config.paths import Layout
from common.delta.small_table import SmallTable, rows_of, schema_of
from orchestration.quality.judgement import ExpectationResult, SuiteResult

TABLE = "quality.results"
DAYS = 90
"""How far back a run looks for earlier results."""
_TIDY_EVERY = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One row of ``quality.results``."""

    pipeline: str
    at: datetime  # time of the run, UTC; equal for all rows of a run
    reason: str  # what ran the suite: ``command``, or ``gate`` of a job
    table: str
    version: int
    since: int | None
    expectation: str
    column: str
    expected: str
    severity: str
    is_met: bool
    observed: str
    failing_rows: int | None
    rows: int | None
    seconds: float
    engine: str
    details: str  # JSON: facts for the next run


def append(layout: Layout, pipeline: str, results: Sequence[SuiteResult], *, reason: str = "command") -> None:
    """Append the results of a run; creates the table.

    Raises:
        TableError: The table cannot be written.
    """
    rows = [row for result in results for row in _rows(pipeline, result, reason)]
    if rows:
        _table(layout).write(rows_of(rows, schema_of(Row)))


def read(layout: Layout, *, tables: Iterable[str] = (), days: int = DAYS) -> list[Row]:
    """The rows of some tables, or of all, oldest run first; empty before the first run.

    Args:
        tables: Full names of the tables; none: all.
        days: Runs that are older are not read.

    Raises:
        TableError: The table cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    begin, wanted = datetime.now(UTC) - timedelta(days=days), sorted(set(tables))
    condition = pc.field("at") >= pa.scalar(begin, pa.timestamp("us", "UTC"))
    if wanted:
        condition &= pc.field("table").isin(wanted)
    found = _table(layout).read(where=condition)
    rows = [] if found is None else found.to_pylist()
    return sorted((Row(**row) for row in rows), key=lambda row: (row.at, row.table))


def last_details(
    rows: Sequence[Row], *, whole: bool = True
) -> Mapping[tuple[str, str, str], Mapping[str, Any]]:
    """The details of the last run in which each expectation was met, by table, expectation and columns.

    Args:
        rows: The rows, oldest run first.
        whole: Whether runs over whole tables count, or runs over parts of them.
    """
    return {
        (row.table, row.expectation, row.column): {"version": row.version, **json.loads(row.details)}
        for row in rows
        if row.details != "{}" and (row.is_met or row.expectation == "rule") and (row.since is None) == whole
    }


def _rows(pipeline: str, result: SuiteResult, reason: str) -> Iterable[Row]:
    if result.at is None:
        raise AssertionError("a result that is kept has the time of its run")
    for one in result.checked:
        yield _row(pipeline, result, one, reason)


def _row(pipeline: str, result: SuiteResult, one: ExpectationResult, reason: str) -> Row:
    return Row(
        pipeline=pipeline,
        at=result.at,  # type: ignore[arg-type]  # checked by the caller
        reason=reason,
        table=result.table,
        version=result.version,
        since=result.since,
        expectation=one.expectation,
        column=one.column,
        expected=one.expected,
        severity=one.severity,
        is_met=one.is_met,
        observed=one.observed,
        failing_rows=one.failing_rows,
        rows=result.rows,
        seconds=round(one.seconds, 6),
        engine=result.engine,
        details=json.dumps(dict(one.details), sort_keys=True),
    )


def _table(layout: Layout) -> SmallTable:
    return SmallTable(layout.table_path(TABLE), tidy_every=_TIDY_EVERY)
