"""The model as a JSON document, for ``status --json``, ``/api/status`` and the page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from orchestration.access.history.alert_state import AlertsFile
from orchestration.access.query.shown_values import iso, part
from orchestration.observe.status.model import Freshness, Lag, Status, TableStatus
from orchestration.observe.status.problems import problems
from orchestration.observe.status.words.state import Said, layer_words, said

_HOUR = 3_600

_OF_A_STANDBY = ("place", "job", "pid", "host", "started_at", "is_ready", "release")
_OF_A_FAILURE = ("state", "kind", "subject", "error", "since", "next_restart_at", "restarts", "last_restarts")


def document(status: Status) -> dict[str, Any]:
    """A status as JSON. Keys are stable, and the page of JSON documents has them."""
    words = said(status)
    return {
        "pipeline": status.pipeline,
        "at": iso(status.at),
        "broker": {"address": status.broker, "note": status.broker_note},
        "waiting_seconds": _rounded(status.waiting_seconds),
        "problems": [part(problem) for problem in problems(status)],
        "alerts": status.alerts and _alerts_document(status.alerts, status.at),
        "standbys": [part(one, *_OF_A_STANDBY) for one in status.standbys],
        "layers": _layers_document(status),
        "tables": [_table_document(table, words[table.table], status.at) for table in status.tables],
    }


def _layers_document(status: Status) -> dict[str, str]:
    layers = dict.fromkeys(table.layer for table in status.tables)
    return {one: layer_words(table for table in status.tables if table.layer == one) for one in layers}


def _table_document(table: TableStatus, words: Said, at: datetime) -> dict[str, Any]:
    now, rejected, job, late, used = table.now, table.quarantine, table.holder, table.late, table.fields
    return {
        **part(table, "table", "layer", "kind", "reads", "path"),
        "exists": now is not None,
        **{name: now and getattr(now, name) for name in ("rows", "files", "bytes", "version")},
        "committed_at": iso(now.timestamp if now else None),
        "lag": _lag_document(table.lag),
        "rows_per_second": _rounded(table.rows_per_second),
        "words": _words_document(table, words),
        "last_batch_id": table.last_batch_id,
        "watermark_at": iso(table.watermark),
        "quarantine": rejected
        and {
            **part(rejected, "table", "rows"),
            "reasons": dict(rejected.reasons),
            "recent": rejected.recent and {**part(rejected.recent), "share": round(rejected.recent.share, 4)},
        },
        "late": late and {**part(late), "is_many": late.is_many},
        "other": part(table.other),
        "fields": used and {**part(used, "records", "absent"), "unknown": dict(used.unknown)},
        "job": job and {"name": job.job, **part(job, "pid", "host", "started_at")},
        "query": part(table.query, "state", "is_faulty", "phase", "since", "error", "restarts", "last_batch"),
        "freshness": table.freshness and _freshness_document(table.freshness, at),
        "time_to_loss": {
            "seconds": None if table.loss.is_never else _rounded(table.loss.seconds),
            **part(table.loss, "is_never", "cause"),
        },
        "uncommitted": table.uncommitted
        and {"records": table.uncommitted.records, "seconds": round(table.uncommitted.seconds, 1)},
        "fault": table.fault,
        "catalog": part(table.catalog),
        "failures": table.failures
        and {
            **part(table.failures, *_OF_A_FAILURE),
            "restarts_last_hour": table.failures.restarts_within(_HOUR, at),
        },
        "retention": part(table.kept, "keep", "expired"),
        "source_files": part(table.source_files),
        "receipts": part(table.receipts, "at", "since", "text", "without", "faults"),
    }


def _words_document(table: TableStatus, words: Said) -> dict[str, Any]:
    return {
        "unread": words.unread,
        "loss": words.loss,
        "fields": "" if table.fields is None or table.fields.is_rename else table.fields.seen(),
        "is_rate_known": words.rows_per_second is not None,
    }


def _alerts_document(alerts: AlertsFile, at: datetime) -> dict[str, Any]:
    return {
        **part(alerts, "watched_at", "rules", "channels"),
        "is_watched": alerts.is_watched(at),
        "raised": raised_documents(alerts),
    }


def raised_documents(alerts: AlertsFile) -> list[dict[str, Any]]:
    """The raised alerts, as ``status`` and ``alerts list`` print them."""
    names = ("rule", "table", "severity", "text", "since", "raised_at")
    return [{**part(alert, *names), "untold": list(alerts.untold(alert))} for alert in alerts.raised]


def _lag_document(lag: Lag) -> dict[str, Any]:
    return {
        **part(lag, "unit", "count", "versions", "files", "bytes", "note"),
        "seconds": _rounded(lag.seconds),
        "numFilesOutstanding": lag.files,
        "numBytesOutstanding": lag.bytes,
        "numNewListedFiles": lag.listed,
        "backlogEndOffset": lag.end,
    }


def _freshness_document(found: Freshness, at: datetime) -> dict[str, Any]:
    return {
        **part(found, "newest_at", "waiting_since"),
        "newest_seconds": _rounded(found.newest_seconds(at)),
        "waiting_seconds": _rounded(found.waiting_seconds(at)),
        "unknown_seconds": round(found.unknown_seconds(at), 1),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
