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
from common.errors import TableError
from common.machine.object_store import storage_options
from orchestration.quality.judgement import ExpectationResult, SuiteResult

TABLE = "quality.results"
DAYS = 90
"""How far back a run looks for earlier results."""
_FILE_BYTES = 16 * 2**20
_COMPACT_EVERY = 100
"""Appends after which small files become one and the log gets a checkpoint."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of ``quality.results``.

    Attributes:
        at: Time of the run, UTC; equal for all rows of a run.
        reason: What ran the suite: ``command``, or ``gate`` of a job.
        details: JSON: facts for the next run.
    """

    pipeline: str
    at: datetime
    reason: str
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
    details: str


def append(layout: Layout, pipeline: str, results: Sequence[SuiteResult], *, reason: str = "command") -> None:
    """Append the results of a run; creates the table.

    Raises:
        TableError: The table cannot be written.
    """
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import DeltaError

    rows = [row for result in results for row in _rows(pipeline, result, reason)]
    if not rows:
        return
    path = layout.table_path(TABLE)
    columns = {name: [getattr(row, name) for row in rows] for name in Row.__slots__}
    try:
        write_deltalake(
            path, pa.table(columns, schema=_schema()), mode="append", storage_options=storage_options(path)
        )
        table = DeltaTable(path, storage_options=storage_options(path))
        if table.version() % _COMPACT_EVERY == _COMPACT_EVERY - 1:
            table.optimize.compact(target_size=_FILE_BYTES)
            table.vacuum(retention_hours=168, dry_run=False)
            table.create_checkpoint()
            table.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise TableError(f"{TABLE} in {path} cannot be written: {error}") from error


def read(layout: Layout, *, tables: Iterable[str] = (), days: int = DAYS) -> list[Row]:
    """The rows of some tables, or of all, oldest run first; empty before the first run.

    Args:
        layout: Paths of the tables.
        tables: Full names of the tables; none: all.
        days: Runs that are older are not read.

    Raises:
        TableError: The table cannot be read.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    path, wanted = layout.table_path(TABLE), sorted(set(tables))
    try:
        condition = ds.field("at") >= pa.scalar(
            datetime.now(UTC) - timedelta(days=days), pa.timestamp("us", tz="UTC")
        )
        if wanted:
            condition &= ds.field("table").isin(wanted)
        found = (
            DeltaTable(path, storage_options=storage_options(path))
            .to_pyarrow_dataset()
            .to_table(filter=condition)
            .to_pylist()
        )
    except TableNotFoundError:
        return []
    except (DeltaError, OSError) as error:
        raise TableError(f"{TABLE} in {path} cannot be read: {error}") from error
    return sorted((Row(**row) for row in found), key=lambda row: (row.at, row.table))


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


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"at": pa.timestamp("us", tz="UTC"), "is_met": pa.bool_(), "seconds": pa.float64()}
    numbers = ("version", "since", "failing_rows", "rows")
    return pa.schema(
        [
            pa.field(name, kinds.get(name, pa.int64() if name in numbers else pa.string()))
            for name in Row.__slots__
        ]
    )
