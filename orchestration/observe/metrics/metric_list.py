"""Every metric: its name, meaning, labels and values. Names and labels are stable; the unit ends the name.

Labels are bounded: tables and queries of the pipeline, declared rules, states. No label and no value comes
from a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from orchestration.observe.status.model import State, Status, TableStatus
from orchestration.observe.status.recent_rows import RecentRows

Value = float | int | None
Sample = tuple[tuple[str, ...], Value]
_Part = TypeVar("_Part")

_MOST_REASONS = 50
_HOUR_SECONDS = 3_600.0
_TABLE = ("pipeline", "layer", "table")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: Without the suffix ``_total`` of counters.
        kind: A gauge, or a counter that only grows while a job runs.
        help: What it says, with the unit; None values are not exported.
        labels: Names of the labels.
        samples: Label values and value, from the model.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Status], Iterable[Sample]]

    @property
    def series(self) -> str:
        """The name of the metric's time series."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _each(read: Callable[[TableStatus, Status], Value]) -> Callable[[Status], Iterator[Sample]]:
    """A value per table, labelled by pipeline, layer and table."""

    def samples(status: Status) -> Iterator[Sample]:
        for table in status.tables:
            yield _labels(status, table), read(table, status)

    return samples


def _per_table(name: str, text: str, read: Callable[[TableStatus, Status], Value]) -> Metric:
    return Metric(f"medallion_{name}", "gauge", text, _TABLE, _each(read))


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
    part: Callable[[TableStatus], _Part | None], read: Callable[[_Part, Status], Value]
) -> Callable[[TableStatus, Status], Value]:
    """A value of a part of the model that not every table has."""

    def value(table: TableStatus, status: Status) -> Value:
        found = part(table)
        return None if found is None else read(found, status)

    return value


def _standbys(status: Status) -> Iterator[Sample]:
    for state, is_ready in (("starting", False), ("ready", True)):
        yield (status.pipeline, state), sum(one.is_ready == is_ready for one in status.standbys)


def _alerts_watched() -> Metric:
    def samples(status: Status) -> Iterator[Sample]:
        if status.alerts is not None:
            yield (status.pipeline,), int(status.alerts.is_watched(status.at))

    text = "1 if a process watches the alerts of the pipeline, 0 if the one that did is gone."
    return Metric("medallion_alerts_watch_up", "gauge", text, ("pipeline",), samples)


METRICS: tuple[Metric, ...] = (
    Metric(
        "medallion_broker_up",
        "gauge",
        "1 if the broker answers, 0 if not.",
        ("pipeline",),
        lambda status: [((status.pipeline,), int(not status.broker_note))],
    ),
    Metric(
        "medallion_waiting_seconds",
        "gauge",
        "End to end: age in seconds of the oldest Kafka record that a gold table lacks; 0 if none waits.",
        ("pipeline",),
        lambda status: [((status.pipeline,), status.waiting_seconds)],
    ),
    Metric(
        "medallion_standbys",
        "gauge",
        "Processes of this host that wait to go on with a job of the pipeline, by state: starting or ready.",
        ("pipeline", "state"),
        _standbys,
    ),
    _per_table(
        "query_up",
        "1 if a job runs the query, 0 if the query is stopped, failed, dead or being restarted.",
        lambda table, status: int(table.query.state in {"working", "waiting", "starting"}),
    ),
    Metric(
        "medallion_query_state",
        "gauge",
        "1 for the state that the query is in, 0 for the others.",
        (*_TABLE, "state"),
        _states,
    ),
    Metric(
        "medallion_query_restarts",
        "counter",
        "Restarts of the query since its job started.",
        _TABLE,
        _each(lambda table, status: table.query.restarts),
    ),
    Metric(
        "medallion_query_recent_restarts",
        "gauge",
        "Restarts of the query in the last hour by cause, such as the Kafka broker; at most the newest 20.",
        (*_TABLE, "cause"),
        _restart_causes,
    ),
    Metric(
        "medallion_query_failure_state",
        "gauge",
        "1 while the query does not work, by kind of the failure: transient, data, operator or unknown.",
        (*_TABLE, "kind"),
        _failing,
    ),
    _per_table(
        "query_rows_per_second",
        "Rows (bronze: records) that the query read per second, over the last 60 seconds.",
        lambda table, status: table.rows_per_second,
    ),
    _per_table(
        "query_lag_rows",
        "Rows (bronze: Kafka records) that the query has yet to read.",
        lambda table, status: table.lag.count,
    ),
    _per_table(
        "query_lag_seconds",
        "Age in seconds of the oldest record or commit that the query has yet to read; 0 if none.",
        lambda table, status: table.lag.seconds,
    ),
    _per_table(
        "query_outstanding_bytes",
        "Size in bytes of the files that the query has yet to read (numBytesOutstanding); not for bronze.",
        lambda table, status: table.lag.bytes,
    ),
    _per_table(
        "query_outstanding_files",
        "Files that the query has yet to read (numFilesOutstanding); not for bronze.",
        lambda table, status: table.lag.files,
    ),
    _per_table(
        "query_new_listed_files",
        "Files of the source that the last look listed (numNewListedFiles); not for bronze.",
        lambda table, status: table.lag.listed,
    ),
    _per_table(
        "query_backlog_end_version",
        "The source's version up to which unread rows are counted (backlogEndOffset); not for bronze.",
        lambda table, status: table.lag.end,
    ),
    _per_table(
        "query_time_to_loss_seconds",
        "Seconds until unread data is deleted at the present rates; +Inf for never, 0 if data is lost.",
        lambda table, status: table.loss.seconds,
    ),
    _per_table(
        "query_last_batch_id",
        "Number of the newest finished micro-batch.",
        lambda table, status: table.last_batch_id,
    ),
    _per_table(
        "query_batch_duration_seconds",
        "Duration in seconds of the newest recorded micro-batch, from its trigger to its end.",
        _part(lambda table: table.query.last_batch, lambda part, status: part.duration_ms / 1000),
    ),
    Metric(
        "medallion_query_phase_seconds",
        "gauge",
        "Duration in seconds of a part of the newest recorded micro-batch, by Spark's names of the parts.",
        (*_TABLE, "phase"),
        _phases,
    ),
    _per_table(
        "query_state_rows",
        "Rows in the query's state; not for queries without state.",
        _part(lambda table: table.query.last_batch, lambda part, status: part.state_rows),
    ),
    _per_table(
        "query_state_bytes",
        "Memory in bytes of the query's state; not for queries without state.",
        _part(lambda table: table.query.last_batch, lambda part, status: part.state_bytes),
    ),
    _per_table(
        "query_watermark_timestamp_seconds",
        "Event-time watermark, in seconds since 1970.",
        _part(lambda table: table.watermark, lambda part, status: part.timestamp()),
    ),
    _per_table(
        "table_rows", "Rows of the table.", _part(lambda table: table.now, lambda part, status: part.rows)
    ),
    _per_table(
        "table_files",
        "Live files of the table.",
        _part(lambda table: table.now, lambda part, status: part.files),
    ),
    _per_table(
        "table_bytes",
        "Size in bytes of the table's live files.",
        _part(lambda table: table.now, lambda part, status: part.bytes),
    ),
    _per_table(
        "table_version",
        "Newest version of the table.",
        _part(lambda table: table.now, lambda part, status: part.version),
    ),
    _per_table(
        "table_commit_timestamp_seconds",
        "Time of the table's newest commit, in seconds since 1970.",
        _part(lambda table: table.now, lambda part, status: part.timestamp.timestamp()),
    ),
    _per_table(
        "table_newest_record_age_seconds",
        "Age in seconds of the newest Kafka record that is in the table; grows while producers send nothing.",
        _part(lambda table: table.freshness, lambda part, status: part.newest_seconds(status.at)),
    ),
    _per_table(
        "table_waiting_seconds",
        "Age in seconds of the oldest Kafka record that is not in the table; 0 if none waits.",
        _part(lambda table: table.freshness, lambda part, status: part.waiting_seconds(status.at)),
    ),
    _per_table(
        "table_unknown_seconds",
        "Seconds for which it has not been known whether a record waits; 0 while it is known.",
        _part(lambda table: table.freshness, lambda part, status: part.unknown_seconds(status.at)),
    ),
    _per_table(
        "quarantine_rows",
        "Rows in the quarantine of a silver table.",
        _part(lambda table: table.quarantine, lambda part, status: part.rows),
    ),
    _per_table(
        "quarantine_recent_ratio",
        "Share, from 0 to 1, of the rows that silver read in the last 15 minutes that went to quarantine.",
        _part(_recent, lambda part, status: part.share),
    ),
    Metric(
        "medallion_quarantine_reason_rows",
        "gauge",
        "Rows in the quarantine of a silver table by reason; a row with two reasons counts for both.",
        (*_TABLE, "reason"),
        _reasons,
    ),
    _per_table(
        "late_rows",
        "Rows (aggregates: groups) that came after the watermark, in the newest 2,000 commits.",
        _part(lambda table: table.late, lambda part, status: part.count),
    ),
    _per_table(
        "late_left_out_rows",
        "Of the late rows, those that the table does not have.",
        _part(lambda table: table.late, lambda part, status: part.left_out),
    ),
    _per_table(
        "topic_uncommitted_records",
        "Records of open transactions and behind them, which cannot be read yet; bronze only.",
        _part(lambda table: table.uncommitted, lambda part, status: part.records),
    ),
    _per_table(
        "topic_uncommitted_seconds",
        "Seconds for which the last stable offset has stood still behind the end of the topic; bronze only.",
        _part(lambda table: table.uncommitted, lambda part, status: part.seconds),
    ),
    Metric(
        "medallion_alerts_raised",
        "gauge",
        "Alerts of a rule that are raised, by the setting alerts.rules; 0 if none.",
        ("pipeline", "rule", "severity"),
        _raised,
    ),
    _alerts_watched(),
    Metric(
        "medallion_alert_channel_up",
        "gauge",
        "1 if a channel of alerts took its last message, 0 if not.",
        ("pipeline", "channel"),
        _channels,
    ),
)


def values(metric: Metric, status: Status) -> Iterator[tuple[tuple[str, ...], float]]:
    """The samples of a metric whose values are known."""
    for labels, value in metric.samples(status):
        if value is not None and not math.isnan(value):
            yield labels, float(value)
