"""What a query has to read to fill its table again: rows, bytes, and the time by its measured speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from common.config.paths import HISTORY, Layout
from common.delta.log import LogReader
from common.errors import MedallionError
from orchestration.access.history import micro_batches

_HISTORY_DAYS = 30
_USUAL_RATE = {"bronze": 20_000.0, "silver": 5_000.0, "gold": 20_000.0, "publish": 5_000.0}
"""Rows per second that are assumed for a query without a history, by its layer."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What the next start of the job reads."""

    rows: int | None = None  # rows; None where the source does not say
    bytes: int = 0  # size of the files that hold the rows
    seconds: float | None = None  # estimated time; None where ``rows`` is None
    is_measured: bool = False  # whether the time is by the speed of the query's earlier micro-batches


def effort_of(layout: Layout, query: str, reads: Sequence[str]) -> Effort:
    """What a query reads that begins with its sources' first rows.

    Args:
        query: The query, by the name of the table that it writes.
    """
    rows, size = 0, 0
    for table in reads:
        try:
            found = LogReader(layout.table_path(table)).snapshot()
        except MedallionError:
            found = None
        if found is None or found.rows is None:
            return Effort()
        rows, size = rows + found.rows, size + found.bytes
    return effort(layout, query, rows, size)


def effort_of_range(layout: Layout, query: str, reads: Sequence[str], condition: Any) -> Effort:
    """What a query reads that judges some rows of its source again.

    Args:
        query: The query, by the name of the table that it writes.
        condition: Which rows, as an expression of PyArrow.
    """
    found = [LogReader(layout.table_path(table)).matching(condition) for table in reads]
    return effort(layout, query, sum(rows for rows, _ in found), sum(size for _, size in found))


def effort(layout: Layout, query: str, rows: int, size: int) -> Effort:
    """What it takes a query to read so many rows and bytes, by its measured speed.

    Args:
        query: The query, by the name of the table that it writes.
        size: The bytes of the files that hold them; 0 where that is not known.
    """
    rate = _measured_rate(layout, query)
    usual = _USUAL_RATE[query.partition(".")[0]]
    return Effort(rows, size, rows / (rate or usual), is_measured=rate is not None)


def _measured_rate(layout: Layout, query: str) -> float | None:
    """Rows per second of a query's recorded micro-batches; None where none is recorded."""
    columns = ("ended_at", "query", "rows", "duration_ms")
    since = datetime.now(UTC) - timedelta(days=_HISTORY_DAYS)
    try:
        found = micro_batches.read(layout.table_path(HISTORY), since, columns)
    except (MedallionError, OSError):
        return None
    own = [one for one in found if one["query"] == query and one["rows"] and one["duration_ms"]]
    took_ms = sum(one["duration_ms"] for one in own)
    return sum(one["rows"] for one in own) * 1000 / took_ms if took_ms else None
