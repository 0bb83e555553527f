"""Every metric: ``metrics.tsv`` has names, labels and meanings, and this module what each one counts.

Names and labels are stable; the unit ends the name.
Labels are bounded: tables and queries of the pipeline, declared rules, states. No label and no value comes
from a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar, get_args

from common.data_table import rows
from orchestration.observe.status.model import State, Status, TableStatus
from orchestration.observe.status.recent_rows import RecentRows

Value = float | int | None
Sample = tuple[tuple[str, ...], Value]
_Part = TypeVar("_Part")

_MOST_REASONS = 50
_HOUR_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str  # without the suffix ``_total`` of counters
    kind: Literal["gauge", "counter"]  # a gauge, or a counter that only grows while a job runs
    help: str  # what it says, with the unit; None values are not exported
    labels: tuple[str, ...]  # names of the labels
    samples: Callable[[Status], Iterable[Sample]]  # label values and value, from the model

    @property
    def series(self) -> str:
        """The name of the metric's time series."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _each(read: Callable[[TableStatus, datetime], Value]) -> Callable[[Status], Iterator[Sample]]:
    """A value per table, labelled by pipeline, layer and table."""

    def samples(status: Status) -> Iterator[Sample]:
        for table in status.tables:
            yield _labels(status, table), read(table, status.at)

    return samples


def _labels(status: Status, table: TableStatus, *more: str) -> tuple[str, ...]:
    return (status.pipeline, table.layer, table.table, *more)


def _states(status: Status) -> Iterator[Sample]:
    for table in status.tables:
        for state in get_args(State):
            yield _labels(status, table, state), int(table.query.state == state)


def _restart_causes(status: Status) -> Iterator[Sample]:
    for table in status.tables:
        if table.failures is not None:
            causes = table.failures.causes_within(_HOUR_SECONDS, status.at)
            for cause, restarts in sorted(causes.items()):
                yield _labels(status, table, cause or "not known"), restarts


def _failing(status: Status) -> Iterator[Sample]:
    for table in status.tables:
        if table.failures is not None:
            yield _labels(status, table, table.failures.kind), int(table.failures.state != "works")


def _phases(status: Status) -> Iterator[Sample]:
    for table in status.tables:
        if (last := table.query.last_batch) is not None:
            for phase, milliseconds in sorted(last.phases_ms.items()):
                yield _labels(status, table, phase), milliseconds / 1000


def _reasons(status: Status) -> Iterator[Sample]:
    for table in status.tables:
        if table.quarantine is not None:
            for reason, rows in table.quarantine.reasons[:_MOST_REASONS]:
                yield _labels(status, table, reason), rows


def _recent(table: TableStatus) -> RecentRows | None:
    return None if table.quarantine is None else table.quarantine.recent


def _raised(status: Status) -> Iterator[Sample]:
    if status.alerts is not None:
        for rule, severity in sorted(status.alerts.rules.items()):
            count = sum(alert.rule == rule for alert in status.alerts.raised)
            yield (status.pipeline, rule, severity), count


def _channels(status: Status) -> Iterator[Sample]:
    if status.alerts is not None:
        for channel, fault in sorted(status.alerts.channels.items()):
            yield (status.pipeline, channel), int(not fault)


def _part(
    part: Callable[[TableStatus], _Part | None], read: Callable[[_Part, datetime], Value]
) -> Callable[[TableStatus, datetime], Value]:
    """A value of a part of the model that not every table has."""

    def value(table: TableStatus, at: datetime) -> Value:
        found = part(table)
        return None if found is None else read(found, at)

    return value


def _standbys(status: Status) -> Iterator[Sample]:
    for state, is_ready in (("starting", False), ("ready", True)):
        yield (status.pipeline, state), sum(one.is_ready == is_ready for one in status.standbys)


def _watched(status: Status) -> Iterator[Sample]:
    if status.alerts is not None:
        yield (status.pipeline,), int(status.alerts.is_watched(status.at))


_PER_TABLE: Mapping[str, Callable[[TableStatus, datetime], Value]] = {
    "query_up": lambda table, at: int(table.query.state in {"working", "waiting", "starting"}),
    "query_restarts": lambda table, at: table.query.restarts,
    "query_rows_per_second": lambda table, at: table.rows_per_second,
    "query_lag_rows": lambda table, at: table.lag.count,
    "query_lag_seconds": lambda table, at: table.lag.seconds,
    "query_outstanding_bytes": lambda table, at: table.lag.bytes,
    "query_outstanding_files": lambda table, at: table.lag.files,
    "query_new_listed_files": lambda table, at: table.lag.listed,
    "query_backlog_end_version": lambda table, at: table.lag.end,
    "query_time_to_loss_seconds": lambda table, at: table.loss.seconds,
    "query_last_batch_id": lambda table, at: table.last_batch_id,
    "query_batch_duration_seconds": _part(
        lambda table: table.query.last_batch, lambda batch, at: batch.duration_ms / 1000
    ),
    "query_state_rows": _part(lambda table: table.query.last_batch, lambda batch, at: batch.state_rows),
    "query_state_bytes": _part(lambda table: table.query.last_batch, lambda batch, at: batch.state_bytes),
    "query_watermark_timestamp_seconds": _part(
        lambda table: table.watermark, lambda mark, at: mark.timestamp()
    ),
    "table_rows": _part(lambda table: table.now, lambda now, at: now.rows),
    "table_files": _part(lambda table: table.now, lambda now, at: now.files),
    "table_bytes": _part(lambda table: table.now, lambda now, at: now.bytes),
    "table_version": _part(lambda table: table.now, lambda now, at: now.version),
    "table_commit_timestamp_seconds": _part(
        lambda table: table.now, lambda now, at: now.timestamp.timestamp()
    ),
    "table_newest_record_age_seconds": _part(
        lambda table: table.freshness, lambda fresh, at: fresh.newest_seconds(at)
    ),
    "table_waiting_seconds": _part(
        lambda table: table.freshness, lambda fresh, at: fresh.waiting_seconds(at)
    ),
    "table_unknown_seconds": _part(
        lambda table: table.freshness, lambda fresh, at: fresh.unknown_seconds(at)
    ),
    "quarantine_rows": _part(lambda table: table.quarantine, lambda quarantine, at: quarantine.rows),
    "quarantine_recent_ratio": _part(_recent, lambda recent, at: recent.share),
    "late_rows": _part(lambda table: table.late, lambda late, at: late.count),
    "late_left_out_rows": _part(lambda table: table.late, lambda late, at: late.left_out),
    "topic_uncommitted_records": _part(lambda table: table.uncommitted, lambda found, at: found.records),
    "topic_uncommitted_seconds": _part(lambda table: table.uncommitted, lambda found, at: found.seconds),
}
_SAMPLES: Mapping[str, Callable[[Status], Iterable[Sample]]] = {
    "broker_up": lambda status: [((status.pipeline,), int(not status.broker_note))],
    "waiting_seconds": lambda status: [((status.pipeline,), status.waiting_seconds)],
    "standbys": _standbys,
    "query_state": _states,
    "query_recent_restarts": _restart_causes,
    "query_failure_state": _failing,
    "query_phase_seconds": _phases,
    "quarantine_reason_rows": _reasons,
    "alerts_raised": _raised,
    "alerts_watch_up": _watched,
    "alert_channel_up": _channels,
    **{name: _each(read) for name, read in _PER_TABLE.items()},
}
"""What each metric of ``metrics.tsv`` counts."""


def _listed() -> Iterator[Metric]:
    for name, kind, labels, meaning in rows(__file__, "metrics.tsv"):
        is_counter = kind == "counter"
        read = _SAMPLES[name]
        yield Metric(
            f"medallion_{name}", "counter" if is_counter else "gauge", meaning, tuple(labels.split()), read
        )


METRICS: tuple[Metric, ...] = tuple(_listed())


def values(metric: Metric, status: Status) -> Iterator[tuple[tuple[str, ...], float]]:
    """The samples of a metric whose values are known."""
    for labels, value in metric.samples(status):
        if value is not None and not math.isnan(value):
            yield labels, float(value)
