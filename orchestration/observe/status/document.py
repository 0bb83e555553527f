"""The model as a JSON document, for ``status --json``, ``/api/status`` and the page."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from orchestration.access.history.alert_state import AlertsFile
from orchestration.access.progress.query_states import QueryState
from orchestration.observe.status.lease_holder import Standby
from orchestration.observe.status.model import Freshness, Lag, QueryNow, Status, TableStatus, TimeToLoss
from orchestration.observe.status.problems import problems
from orchestration.observe.status.words.state import Said, layer_words, said

_HOUR = 3_600


def document(status: Status) -> dict[str, Any]:
    """A status as JSON. Keys are stable; times are ISO 8601 in UTC; null is what is not known.

    ``pipeline``, ``at``, ``broker`` (``address``, ``note``), ``waiting_seconds`` (age of the oldest record
    that a gold table lacks), ``problems`` (``severity``: critical or warning, ``table``, ``text``),
    ``alerts`` (``watched_at``, ``is_watched``: whether a process has looked lately, ``rules``: severity by
    name, ``channels``: by name, why the last message was not delivered, ``raised``: each with ``rule``,
    ``table``, ``severity``, ``text``, ``since``, ``raised_at``, ``untold``: channels that were not sent it;
    null if no process has watched), ``standbys`` (processes of this host that wait to go on with a job:
    ``place``, ``job``, ``pid``, ``host``, ``started_at``, ``is_ready``), ``layers`` (what the tables of each
    do) and ``tables``, each with:
    ``table``, ``layer``, ``kind`` (topic, files, silver, aggregate, upsert), ``reads`` (topics or a table),
    ``path``, ``exists``, ``rows``, ``files``, ``bytes``, ``version``, ``committed_at``,
    ``lag`` (``unit``: records or rows; ``count``, ``versions``, ``files``, ``bytes``, ``note``, ``seconds``:
    age of the oldest unread one; ``numFilesOutstanding`` and ``numBytesOutstanding``: files and bytes under
    the names that other platforms have for them; ``numNewListedFiles``: files of the source that this look
    listed, not those that an earlier look of the same process did; ``backlogEndOffset``: the source's
    version up to which is counted),
    ``rows_per_second`` (last 60 s), ``last_batch_id``, ``watermark_at``,
    ``words`` (``unread``, ``loss``, ``fields``: how far it is, what becomes of unread data, what the sample
    has or lacks; ``is_rate_known``: false while a micro-batch runs whose rows are not counted yet),
    ``quarantine`` (``table``, ``rows``, ``reasons``: rows by reason, ``recent``: ``read`` and ``quarantined``
    rows of the last ``seconds``, ``share`` of them; null except for silver),
    ``late`` (``unit``: rows, or groups of an aggregate; ``count``, ``left_out``, ``of``, ``is_many``,
    ``since``: null if all commits are counted; ``before_1970``: those that a gold table leaves out because
    Spark's watermark begins in 1970; null for tables without a watermark),
    ``other`` (``count``, ``of``, ``since``: records for which the condition ``where`` is not true; null for
    tables without one),
    ``fields`` (``records``: bronze's newest records in the sample; ``unknown``: records by field that is not
    in the schema; ``absent``: fields of the schema that no record has; null where they are not compared),
    ``job`` (``name``, ``pid``, ``host``, ``started_at``, null for a job of another host; null when stopped),
    ``query`` (``state``: working, waiting, starting, restarting, stalled, stopped, failed, dead;
    ``is_faulty``, ``phase`` in words, ``since``, ``error``, ``restarts``, ``last_batch``: ``batch_id``,
    ``ended_at``, ``duration_ms``, ``phases_ms``, ``state_rows``, ``state_bytes``; null if none is recorded),
    ``freshness`` (``newest_at``, ``newest_seconds``, ``waiting_since``, ``waiting_seconds``: 0 if no record
    waits, null if it is not known; ``unknown_seconds``: for how long it has not been; null for publications),
    ``time_to_loss`` (``seconds``: null if not known or never; ``is_never``, ``cause``),
    ``uncommitted`` (``records`` of open transactions, ``seconds`` since when the stable offset stands still;
    null except for bronze),
    ``fault`` (why the table cannot be read; empty if it can),
    ``failures`` of the query since its job started (``state``: works, waits, restarted, failed; ``kind``:
    transient, data, operator, unknown; ``subject``, ``error``, ``since``, ``next_restart_at``, ``restarts``,
    ``restarts_last_hour``, ``last_restarts``: ``at`` and ``subject`` of each; null if it has not failed),
    ``catalog`` (``name`` with the database, ``registered_at``, ``error``; null if none is in use),
    ``retention`` (``keep``: null for ever; ``expired``: offsets of deleted records; null except for bronze),
    ``source_files`` (``count``, ``changed``: paths, ``faults``, ``skipped``, ``left_out``: why, or null),
    ``receipts`` (of the newest audit: ``at``, ``text``, ``without``, ``since``, ``faults``; null: none).
    """
    words = said(status)
    return {
        "pipeline": status.pipeline,
        "at": iso(status.at),
        "broker": {"address": status.broker, "note": status.broker_note},
        "waiting_seconds": _rounded(status.waiting_seconds),
        "problems": [asdict(problem) for problem in problems(status)],
        "alerts": status.alerts and _alerts_document(status.alerts, status.at),
        "standbys": [_standby_document(one) for one in status.standbys],
        "layers": _layers_document(status),
        "tables": [_table_document(table, words[table.table], status.at) for table in status.tables],
    }


def _layers_document(status: Status) -> dict[str, str]:
    layers = dict.fromkeys(table.layer for table in status.tables)
    return {one: layer_words(table for table in status.tables if table.layer == one) for one in layers}


def _standby_document(one: Standby) -> dict[str, Any]:
    facts = {**asdict(one), "started_at": None if one.started_at is None else iso(one.started_at)}
    del facts["reads"]  # of use to a hand-over only
    return facts


def _table_document(table: TableStatus, words: Said, at: datetime) -> dict[str, Any]:
    now, lag, rejected, job = table.now, table.lag, table.quarantine, table.holder
    late, used = table.late, table.fields
    return {
        "table": table.table,
        "layer": table.layer,
        "kind": table.kind,
        "reads": list(table.reads),
        "path": table.path,
        "exists": now is not None,
        **{name: now and getattr(now, name) for name in ("rows", "files", "bytes", "version")},
        "committed_at": iso(now.timestamp) if now else None,
        "lag": _lag_document(lag),
        "rows_per_second": None if table.rows_per_second is None else round(table.rows_per_second, 1),
        "words": _words_document(table, words),
        "last_batch_id": table.last_batch_id,
        "watermark_at": iso(table.watermark),
        "quarantine": rejected
        and {
            "table": rejected.table,
            "rows": rejected.rows,
            "reasons": dict(rejected.reasons),
            "recent": rejected.recent
            and {**asdict(rejected.recent), "share": round(rejected.recent.share, 4)},
        },
        "late": late and {**asdict(late), "is_many": late.is_many, "since": iso(late.since)},
        "other": table.other
        and {"count": table.other.count, "of": table.other.of, "since": iso(table.other.since)},
        "fields": used
        and {"records": used.records, "unknown": dict(used.unknown), "absent": list(used.absent)},
        "job": job and {"name": job.job, "pid": job.pid, "host": job.host, "started_at": iso(job.started_at)},
        "query": _query_document(table.query),
        "freshness": table.freshness and _freshness_document(table.freshness, at),
        "time_to_loss": _loss_document(table.loss),
        "uncommitted": table.uncommitted
        and {"records": table.uncommitted.records, "seconds": round(table.uncommitted.seconds, 1)},
        "fault": table.fault,
        "catalog": table.catalog
        and {
            "name": table.catalog.name,
            "registered_at": iso(table.catalog.registered_at),
            "error": table.catalog.error,
        },
        "failures": table.failures and _failures_document(table.failures, at),
        "retention": table.kept and {"keep": table.kept.keep, "expired": table.kept.expired},
        "source_files": table.source_files
        and {
            "count": table.source_files.count,
            "changed": list(table.source_files.changed),
            **{name: dict(getattr(table.source_files, name)) for name in ("faults", "skipped", "left_out")},
        },
        "receipts": table.receipts
        and {
            **{name: iso(getattr(table.receipts, name)) for name in ("at", "since")},
            **{name: getattr(table.receipts, name) for name in ("text", "without", "faults")},
        },
    }


def _words_document(table: TableStatus, words: Said) -> dict[str, Any]:
    return {
        "unread": words.unread,
        "loss": words.loss,
        "fields": "" if table.fields is None or table.fields.is_rename else table.fields.seen(),
        "is_rate_known": words.rows_per_second is not None,
    }


def _failures_document(failures: QueryState, at: datetime) -> dict[str, Any]:
    names = ("state", "kind", "subject", "error", "since", "next_restart_at", "restarts")
    return {
        **{name: getattr(failures, name) for name in names},
        "restarts_last_hour": failures.restarts_within(_HOUR, at),
        "last_restarts": [asdict(one) for one in failures.last_restarts],
    }


def _alerts_document(alerts: AlertsFile, at: datetime) -> dict[str, Any]:
    return {
        "watched_at": iso(alerts.watched_at),
        "is_watched": alerts.is_watched(at),
        "rules": dict(alerts.rules),
        "channels": dict(alerts.channels),
        "raised": raised_documents(alerts),
    }


def raised_documents(alerts: AlertsFile) -> list[dict[str, Any]]:
    """The raised alerts, as ``status`` and ``alerts list`` print them."""
    return [
        {
            **{name: getattr(alert, name) for name in ("rule", "table", "severity", "text")},
            "since": iso(alert.since),
            "raised_at": iso(alert.raised_at),
            "untold": list(alerts.untold(alert)),
        }
        for alert in alerts.raised
    ]


def _lag_document(lag: Lag) -> dict[str, Any]:
    names = ("unit", "count", "versions", "files", "bytes", "note")
    return {
        **{name: getattr(lag, name) for name in names},
        "seconds": _rounded(lag.seconds),
        "numFilesOutstanding": lag.files,
        "numBytesOutstanding": lag.bytes,
        "numNewListedFiles": lag.listed,
        "backlogEndOffset": lag.end,
    }


def _query_document(query: QueryNow) -> dict[str, Any]:
    last = query.last_batch
    return {
        "state": query.state,
        "is_faulty": query.is_faulty,
        "phase": query.phase,
        "since": iso(query.since),
        "error": query.error,
        "restarts": query.restarts,
        "last_batch": last
        and {
            "batch_id": last.batch_id,
            "ended_at": iso(last.ended_at),
            "duration_ms": last.duration_ms,
            "phases_ms": dict(last.phases_ms),
            "state_rows": last.state_rows,
            "state_bytes": last.state_bytes,
        },
    }


def _freshness_document(found: Freshness, at: datetime) -> dict[str, Any]:
    return {
        "newest_at": iso(found.newest_at),
        "newest_seconds": _rounded(found.newest_seconds(at)),
        "waiting_since": iso(found.waiting_since),
        "waiting_seconds": _rounded(found.waiting_seconds(at)),
        "unknown_seconds": round(found.unknown_seconds(at), 1),
    }


def _loss_document(loss: TimeToLoss) -> dict[str, Any]:
    return {
        "seconds": None if loss.is_never else _rounded(loss.seconds),
        "is_never": loss.is_never,
        "cause": loss.cause,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def iso(moment: datetime | None) -> str | None:
    """A time in UTC with milliseconds, such as ``2026-01-05T10:00:00.000Z``."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
