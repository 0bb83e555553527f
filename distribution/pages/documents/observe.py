"""Documents of commands that show what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distribution.pages.json_notation import Maybe

JOB = Maybe({"name": "text", "pid": "int", "host": "text", "started_at": "time?"})
ALERTS = {
    "watched_at": "time?  when a process has looked last",
    "is_watched": "bool  whether one has looked lately",
    "rules": {"*": "text  severity, by rule"},
    "channels": {"*": "text?  why the last message was not delivered, by channel; null: it was"},
    "raised": [
        {
            "rule": "text",
            "table": "text",
            "severity": "text  critical or warning",
            "text": "text",
            "since": "time?",
            "raised_at": "time?",
            "untold": ["text  channels that were not sent it"],
        }
    ],
}
LAG = {
    "unit": "text  records or rows",
    "count": "int?  not read yet; null: unknown",
    "versions": "int?",
    "files": "int?",
    "bytes": "int?",
    "note": "text  why a part is not known",
    "seconds": "number?  age of the oldest unread one",
    "numFilesOutstanding": "int?  as `files`",
    "numBytesOutstanding": "int?  as `bytes`",
    "numNewListedFiles": "int?",
    "backlogEndOffset": "int?  the source's version up to which is counted",
}
QUERY = {
    "state": "text  working, waiting, starting, restarting, stalled, stopped, failed or dead",
    "is_faulty": "bool",
    "phase": "text  in words",
    "since": "time?",
    "error": "text",
    "restarts": "int",
    "last_batch": Maybe(
        {
            "batch_id": "int",
            "ended_at": "time",
            "duration_ms": "int",
            "phases_ms": {"*": "int"},
            "state_rows": "int?",
            "state_bytes": "int?",
        }
    ),
}
FAILURES = {
    "state": "text  works, waits, restarted or failed",
    "kind": "text  transient, data, operator or unknown",
    "subject": "text",
    "error": "text",
    "since": "time?",
    "next_restart_at": "time?",
    "restarts": "int",
    "restarts_last_hour": "int",
    "last_restarts": [{"at": "time", "subject": "text"}],
}
TABLE = {
    "table": "text",
    "layer": "text",
    "kind": "text  topic, files, silver, aggregate, upsert …",
    "reads": ["text  topics, or tables"],
    "path": "text",
    "exists": "bool",
    "rows": "int?",
    "files": "int?",
    "bytes": "int?",
    "version": "int?",
    "committed_at": "time?",
    "lag": LAG,
    "rows_per_second": "number?  of the last minute",
    "words": {
        "unread": "text  how far the table is",
        "loss": "text  what becomes of unread data",
        "fields": "text  which the sample has or lacks",
        "is_rate_known": "bool  false: a micro-batch runs whose rows are not counted yet",
    },
    "last_batch_id": "int?",
    "watermark_at": "time?",
    "quarantine": Maybe(
        {
            "table": "text",
            "rows": "int",
            "reasons": {"*": "int  rows, by reason"},
            "recent": Maybe(
                {
                    "read": "int",
                    "quarantined": "int",
                    "seconds": "number",
                    "share": "number  quarantined of read",
                }
            ),
        }
    ),
    "late": Maybe(
        {
            "unit": "text  rows, or groups of an aggregate",
            "count": "int",
            "left_out": "int  not in the table",
            "of": "int?",
            "is_many": "bool  1 % or more",
            "since": "time?  null: all commits are counted",
            "before_1970": "int",
        }
    ),
    "other": Maybe({"count": "int  records of other tables", "of": "int", "since": "time?"}),
    "fields": Maybe(
        {
            "records": "int  in the sample",
            "unknown": {"*": "int  records, by field that is not declared"},
            "absent": ["text  declared, in no record"],
        }
    ),
    "job": JOB,
    "query": QUERY,
    "freshness": Maybe(
        {
            "newest_at": "time?",
            "newest_seconds": "number?",
            "waiting_since": "time?",
            "waiting_seconds": "number?  0: none waits; null: unknown",
            "unknown_seconds": "number",
        }
    ),
    "time_to_loss": {"seconds": "number?", "is_never": "bool", "cause": "text"},
    "uncommitted": Maybe({"records": "int  of open transactions", "seconds": "number"}),
    "fault": "text  why the table cannot be read; empty: it can",
    "catalog": Maybe({"name": "text", "registered_at": "time?", "error": "text"}),
    "failures": Maybe(FAILURES),
    "retention": Maybe({"keep": "text?", "expired": "int  offsets"}),
    "receipts": Maybe(
        {
            "at": "time  of the newest audit",
            "text": "text",
            "without": "int  records without a receipt",
            "since": "time?  Kafka's, of the oldest of them",
            "faults": "int",
        }
    ),
    "source_files": Maybe(
        {
            "count": "int",
            "changed": ["text  path"],
            "faults": {"*": "text  why, by path"},
            "skipped": {"*": "text  why, by path"},
            "left_out": {"*": "text  why, by path"},
        }
    ),
}

DOCUMENTS: Mapping[str, Any] = {
    "medallion status": {
        "pipeline": "text",
        "at": "time",
        "broker": {"address": "text?", "note": "text"},
        "waiting_seconds": "number?  age of the oldest record that a gold table lacks",
        "problems": [{"severity": "text", "table": "text", "text": "text"}],
        "alerts": Maybe(ALERTS),
        "standbys": [
            {
                "place": "text",
                "job": "text",
                "pid": "int",
                "host": "text",
                "started_at": "time?",
                "is_ready": "bool  it would take over now",
                "release": "text  of the product; empty where not known",
            }
        ],
        "layers": {"*": "text  what its tables do together, by layer"},
        "tables": [TABLE],
    },
    "medallion alerts list": {
        **ALERTS,
        "rules": {"*": "any  the rule as it is set, with its channels"},
        "unknown": ["text  what is not known, so that a rule cannot be judged"],
    },
}
