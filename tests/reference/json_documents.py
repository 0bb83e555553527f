"""The JSON documents of commands, in the notation of ``json_notation``: what programs may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestration.records.audit.result import FATES
from tests.reference.json_notation import Again, Maybe

VERSION = {"document_version": "int  version of the form of all documents"}
PLACE = {"topic": "text", "partition": "int", "offset": "int"}
COUNTS = dict.fromkeys(FATES, "int  offsets in this place")
PROBLEMS = [
    {
        "code": "text  see `medallion explain`",
        "place": "text  the declaration, such as `silver.orders, key`",
        "message": "text",
        "source": "text?  file, with its line",
        "line": "int?",
        "column": "int?",
    }
]
JOB = Maybe({"name": "text", "pid": "int", "host": "text", "started_at": "time"})
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
    "source_files": Maybe(
        {
            "count": "int",
            "changed": ["text  path"],
            "faults": {"*": "text  why, by path"},
            "skipped": {"*": "text  why, by path"},
        }
    ),
}
COMMIT = {"version": "int?", "batch_id": "int?", "committed_at": "time?"}
GOLD = {
    "table": "text",
    "kind": "text",
    "rows": [
        {
            "key": {"*": "any"},
            "change": "text  inserted, changed, deleted or unchanged",
            "columns": ["text  that changed"],
            "before?": "any  with `--values`",
            "after?": "any  with `--values`",
        }
    ],
    "why": "text  why rows are not shown; empty: they are",
    "version?": "int?",
    "batch_id?": "int?",
    "committed_at?": "time?",
    "gold": [Again("traced_gold_table")],
}

PARTS: Mapping[str, Any] = {"traced_gold_table": GOLD}
"""Parts that contain parts of their own kind."""

DOCUMENTS: Mapping[str, Any] = {
    "an error, of any command": {
        "ok": "bool  false",
        "error": {"code": "text?", "message": "text", "exit_code": "int", "problems": PROBLEMS},
    },
    "medallion check": {
        "pipeline": "text?",
        "file": "text?",
        "ok": "bool",
        "problems": PROBLEMS,
        "topics": {"*": ["text  topics, by bronze table"]},
        "reads": {"*": ["text  tables, by the table that reads them"]},
        "checked_at_start": ["text  what only a start can check"],
        "notes": ["text"],
        "settings": {"*": "any  settings that differ from the defaults"},
    },
    "medallion plan": {
        "pipeline": "text",
        "queries": [
            {
                "query": "text  the table that it writes",
                "effect": "text  unchanged, or what the next start does",
                "changes": [
                    {"name": "text", "old": "text", "new": "text", "effect": "text", "why": "text"},
                ],
                "reads": Maybe({"rows": "int?", "bytes": "int", "seconds": "number?", "is_measured": "bool"}),
            }
        ],
    },
    "medallion status": {
        "pipeline": "text",
        "at": "time",
        "broker": {"address": "text?", "note": "text"},
        "waiting_seconds": "number?  age of the oldest record that a gold table lacks",
        "problems": [{"severity": "text", "table": "text", "text": "text"}],
        "alerts": Maybe(ALERTS),
        "tables": [TABLE],
    },
    "medallion alerts list": {
        **ALERTS,
        "rules": {"*": "any  the rule as it is set, with its channels"},
        "unknown": ["text  what is not known, so that a rule cannot be judged"],
    },
    "medallion audit": {
        "balanced": "bool",
        "offsets": "int",
        "tables": [
            {
                "table": "text",
                "reads": "text",
                "balanced": "bool",
                "since": "text?",
                "batch_id": "int?",
                "versions": {"*": "int  audited version, by table"},
                "offsets": "int",
                "looked_at": "int  of them by this audit",
                "totals": COUNTS,
                "partitions": [
                    {
                        "topic": "text",
                        "partition": "int",
                        "first": "int",
                        "end": "int",
                        "offsets": "int",
                        **COUNTS,
                    }
                ],
                "faults": [
                    {
                        "fault": "text",
                        "text": "text",
                        "count": "int",
                        "examples": [PLACE],
                        "keys": ["text"],
                    }
                ],
                "gold": [
                    {
                        "table": "text",
                        "version": "int?  that was compared",
                        "range_of": "text  column of a range of keys; empty: all rows",
                        "without": "text  columns that were not compared",
                        "why": "text  why it was not compared; empty: it was",
                    }
                ],
                "without_digest": "int  micro-batches that were checked by offsets only",
                "notes": ["text"],
                "compared_with_kafka": "bool",
                "not_compared_because": "text?",
                "seconds": "number",
            }
        ],
    },
    "medallion trace": {
        "records": [
            {
                **PLACE,
                "bronze": {
                    "table": "text",
                    "place": "text  held, or why bronze does not have it",
                    "kafka_timestamp": "time?",
                    "ingested_at": "time?",
                    "file": "text?",
                    **COMMIT,
                },
                "silver": [
                    {
                        "table": "text",
                        "place": "text  silver, duplicate, late, quarantine, dropped …",
                        "rows?": "int",
                        "how?": "text",
                        "file?": "text?",
                        "watermark?": "time?",
                        "reasons?": ["text"],
                        "witness?": Maybe(PLACE),
                        "why?": "text",
                        "elements?": [
                            {
                                "element": "int?  position; null: the record was set aside whole",
                                "place": "text  silver, late, quarantine or dropped",
                                "reasons?": ["text"],
                            }
                        ],
                        **COMMIT,
                        "gold": [Again("traced_gold_table")],
                        "changes": [
                            {
                                "change": "text  inserted, changed or deleted",
                                "how": "text  by a replay, a restatement …; empty: its micro-batch",
                                "columns": ["text  that changed"],
                                **COMMIT,
                                "gold": [Again("traced_gold_table")],
                            }
                        ],
                    }
                ],
            }
        ]
    },
    "medallion quarantine list": {
        "groups": [
            {
                "table": "text",
                "reason": "text",
                "rows": "int",
                "dropped": "int  of them without their bytes",
                "older_rules": "int  of them judged by an older declaration",
                "first_seen": "time",
                "last_seen": "time",
                "example": PLACE,
            }
        ]
    },
    "medallion quarantine show": {
        "rows": [
            {
                "table": "text",
                **PLACE,
                "element?": "int  position of an element in its record",
                "verdict": "text  quarantine or drop",
                "reasons": ["text"],
                "field": "text?",
                "rule_version": "text",
                "is_current_rule_version": "bool",
                "ingested_at": "time",
                "kafka_timestamp": "time?",
                "kafka_timestamp_type": "int?",
                "key": "text?",
                "key_bytes": "any",
                "headers": ["any"],
                "value": "text?",
                "value_bytes": "any",
            }
        ]
    },
    "medallion query (without SQL)": {
        "tables": [
            {
                "table": "text",
                "path": "text",
                "rows": "int?",
                "files": "int?",
                "bytes": "int?",
                "version": "int?",
                "committed_at": "time?",
            }
        ]
    },
    "medallion doctor": {
        "ok": "bool",
        "findings": [
            {"area": "text", "name": "text", "state": "text", "value": "text", "advice": "text"},
        ],
    },
    "medallion jars list": {
        "cache": "text",
        "jars": [
            {
                "set": "text",
                "coordinate": "text",
                "size_bytes": "int",
                "sha256": "text",
                "path": "text",
                "state": "text  ok, missing or altered",
            }
        ],
    },
    "medallion explain CODE": {"code": "text", "title": "text", "advice": "text", "error": "text"},
    "medallion new": {"name": "text", "example": "text", "files": ["text"]},
}
"""Documents by command. Those of commands that need Spark or a broker are not here."""
