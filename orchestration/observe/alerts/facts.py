"""What rules are compared with: the model, quality results, volumes, and restarts within an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from orchestration.access.history.alert_state import Restarts
from orchestration.observe.alerts.volume import HourVolume
from orchestration.observe.status.model import Status, TableStatus
from orchestration.quality.last_results import LastResult

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one look at a pipeline."""

    status: Status  # the model
    suites: tuple[LastResult, ...] = ()  # the last result of each quality suite that was run
    # By bronze table, the records of the last hour and of former days.
    volumes: Mapping[str, HourVolume] = field(default_factory=dict)
    restarts: Mapping[str, Restarts] = field(default_factory=dict)  # by table, the restarts of its query


def count_restarts(status: Status, known: Mapping[str, Restarts]) -> dict[str, Restarts]:
    """Restarts of each query, with those since the last look.

    A restart is one that the job counts (``QueryNow.restarts``), or a start of a job after one in which the
    query failed or whose process vanished.
    """
    return {
        table.table: _counted(table, known.get(table.table, Restarts()), status.at) for table in status.tables
    }


def _counted(table: TableStatus, known: Restarts, at: datetime) -> Restarts:
    started = known.job_started_at if table.holder is None else table.holder.started_at
    now = table.query.restarts
    if started == known.job_started_at:
        new = max(0, now - known.count)
    else:
        # The first job that is seen may have restarted its query at any time: these are not counted.
        new = (now if known.job_started_at is not None else 0) + int(known.was_faulty)
    times = tuple(time for time in (*known.times, *[at] * new) if at - time < _HOUR)
    is_faulty = table.query.state in {"failed", "dead"}  # a start after one of them is a restart
    return Restarts(started, now, was_faulty=is_faulty, times=times)
