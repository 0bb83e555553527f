"""Documents of commands about single records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distribution.pages.documents.shared import EFFORT, PLACE
from distribution.pages.json_notation import Again, Maybe
from orchestration.records.audit.result import FATES

COUNTS = dict.fromkeys(FATES, "int  offsets in this place")
COMMIT = {"version": "int?", "batch_id": "int?", "committed_at": "time?"}
GOLD = {
    "table": "text",
    "kind": "text",
    "rows": [
        {
            "key": {"*": "any"},
            "change": "text  inserted, changed, deleted or unchanged",
            "columns": ["text  that changed"],
            "role": "text  overtaken, older, instead, ended, continued, truncated; empty: the record's own",
            "record": Maybe(PLACE),
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
                        "open_rows": "int  rows that the statement leaves open, which were not compared",
                        "left_out": "text  newer versions that cannot be compared yet; empty: none",
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
    "medallion reconcile": {
        "table": "text",
        "version": "int",
        "against": "text  the source, without its password",
        "key": ["text"],
        "columns": ["text  that were compared"],
        "left_out": ["text  columns that one side lacks"],
        "read_until": "time?  the newest Kafka time that the table has read; null without `--changed-at`",
        "not_yet_since": "time?  the time of the oldest row that is not read yet",
        "farthest_ahead": "time?  the latest time that has not come",
        "is_equal": "bool",
        "rows": {"here": "int", "there": "int"},
        "keys": {
            "equal": "int",
            "missing": "int  the table lacks them",
            "extra": "int  the source lacks them",
            "differs": "int",
            "repeated": "int",
            "not_yet": "int  newer in the source than what the table has read",
            "ahead": "int  of those that differ, of a time that has not come",
            "settled": "int  differed at first, and no longer",
        },
        "ranges": [{"first": "any", "here": "int", "there": "int", "wrong": "int"}],
        "differences": [
            {
                "kind": "text  missing, extra, differs or repeated",
                "key": {"*": "any"},
                "columns": ["text  that differ"],
                "here?": Maybe({"*": "any  with `--values`"}),
                "there?": Maybe({"*": "any  with `--values`"}),
            }
        ],
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
                "rule_version": "text?",
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
    "medallion quarantine replay": {
        "table": "text",
        "version": "int  of quarantine",
        "selected": "int  rows that `--where` chooses",
        "dropped": "int  of them without their bytes",
        "older": "int  of them judged by an older declaration, and left",
        "judged": "int",
        "passed": "int",
        "inserted": "int",
        "duplicates": "int  passed, and the event is in silver already",
        "failed": "int",
        "passed_by_reason": {"*": "int  rows, by former reason"},
        "failed_by_reason": {"*": "int  rows, by new reason"},
        "is_dry_run": "bool",
        "other": "int  records of other tables, which leave quarantine",
    },
    "medallion restate": {
        "table": "text",
        "range": "text  the records, as options",
        "records": "int  that were judged again",
        "changes": {"*": {"*": "int  rows inserted, updated and deleted, by table"}},
        "again": ["text  gold tables that their next start fills again"],
        "by_hand": ["text  gold tables that keep what they have of the former rows"],
    },
    "medallion restate --plan": {
        "table": "text",
        "records": "text  the records, as options",
        **EFFORT,
        "again": ["text  gold tables that are filled again if rows leave"],
        "by_hand": ["text  gold tables that keep what they have of the former rows"],
    },
    "medallion erase": {
        "table": "text",
        "records": "int",
        "tables": [
            {
                "table": "text",
                "rows": "int  before",
                "erased": "int",
                "again": "int  of them, rows of records that were erased before",
            }
        ],
        "cut_off": "int?  records of an erasure that was cut off; null: none was",
        "followers": [{"table": "text", "follows": "bool", "advice": "text  what to do if it does not"}],
        "unread": "text  why silver has yet to read records of bronze; empty: it has read all",
        "again": "int  records that were erased before, and are in a table again",
        "is_done": "bool  false: a plan, or nothing matches",
    },
    "medallion receipts dismiss": {
        "dismissed": [
            {
                "topic": "text  of the receipts",
                "receipt": "text  the record's name",
                "why": "text",
                "dismissed_at": "time",
            }
        ]
    },
    "medallion files list": {
        "files": [
            {
                "table": "text",
                "path": "text  below the declared folder",
                "offset": "int?  of its first record; null: it has none",
                "records": "int",
                "read": "int  of them in bronze",
                "state": "text  read, waiting, unreadable, changed or skipped",
                "why": "text",
            }
        ]
    },
    "medallion files skip": {
        "plan": "bool",
        "table": "text",
        "path": "text",
        "topic": "text  column `topic` of its records",
        "offset": "int?  the first that is lost; null: none is",
        "records": "int  that are lost",
        "read": "int  that bronze keeps",
        "is_new": "bool  false: it was skipped before",
    },
}
