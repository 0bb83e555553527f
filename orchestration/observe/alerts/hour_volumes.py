"""Reads from the history how many records bronze read in the last hour, and in that hour of former days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from common.delta.log import latest_version
from orchestration.access.query.duckdb_views import Database
from orchestration.observe.alerts.volume import HourVolume

_HOUR, _DAY = 3_600, 86_400


def hour_volumes(
    database: Database, path: str, tables: Sequence[str], end: datetime
) -> dict[str, HourVolume]:
    """Records of the hour before ``end``, and of the same hour of each former day that the history has.

    Args:
        database: The database; used by one thread at a time.
        path: The table ``ops.micro_batches``.
        end: End of the hour, in UTC; the history is complete until then.
    """
    if latest_version(path) is None:
        return {table: HourVolume(0, ()) for table in tables}
    rows = database.connection.execute(
        "SELECT query, cast(floor(($end - epoch(ended_at)) / $day) AS BIGINT) AS days, "  # noqa: S608  # our own path, quoted
        f"sum(rows) FROM {database.source(path)} WHERE query IN (SELECT unnest($tables)) "
        "AND epoch(ended_at) <= $end AND ($end - epoch(ended_at)) % $day < $hour AND rows > 0 GROUP BY ALL",
        {"end": end.astimezone(UTC).timestamp(), "day": _DAY, "hour": _HOUR, "tables": list(tables)},
    ).fetchall()
    found: dict[str, dict[int, int]] = {table: {} for table in tables}
    for query, days, records in rows:
        found[query][int(days)] = int(records)
    return {
        table: HourVolume(days.pop(0, 0), tuple(count for _, count in sorted(days.items())))
        for table, days in found.items()
    }
