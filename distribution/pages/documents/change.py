"""Documents of commands that change what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distribution.pages.documents.shared import EFFORT
from distribution.pages.json_notation import Maybe

STEP = {
    "query": "text  the table that it writes, or its publication",
    "kind": "text  repair, refill, rebuild or publish again",
    "reasons": ["text"],
    "changes": ["text  file of the checkpoint, and why"],
    "reads": ["text  tables from which the rows come again"],
    "rows": "int?",
    "bytes": "int",
    "seconds": "number?",
    "moves": ["text  folder that is moved aside"],
}
GAP = {
    "bronze": "text",
    "topic": "text",
    "partition": "int",
    "first_offset": "int",
    "last_offset": "int",
    "reason": "text",
    "read_at": "time?  when bronze has read the record before it",
    "next_at": "time?  when the record after it was sent",
    "accepted_at": "time?",
    "offsets": "int",
}
COMPARISON = {
    "live": {"*": "int  former rows, by table"},
    "shadow": {"*": "int  new rows, by table"},
    "checksums": ["text  before and now, of the columns that both have"],
    "added": "int",
    "removed": "int",
    "changed": "int",
    "copies": "int  rows of another copy of the same event",
    "sample": [
        {
            "_kafka_topic": "text",
            "_kafka_partition": "int",
            "_kafka_offset": "int",
            "_element?": "int?",
            "live": "text?  the row as JSON",
            "shadow": "text?  the row as JSON",
        }
    ],
}

DOCUMENTS: Mapping[str, Any] = {
    "medallion plan": {
        "pipeline": "text",
        "queries": [
            {
                "query": "text  the table that it writes",
                "effect": "text  unchanged, or what the next start does",
                "changes": [
                    {"name": "text", "old": "text", "new": "text", "effect": "text", "why": "text"},
                ],
                "reads": Maybe(EFFORT),
            }
        ],
    },
    "medallion backfill": {
        "complete": "bool  false: stopped between two micro-batches",
        "layers": [{"layer": "text", "rows": "int", "seconds": "number"}],
    },
    "medallion backfill --plan": {
        "reads": [{"table": "text", "is_at_most": "bool", **EFFORT}],
        "left_out": {"*": "int  older offsets, by bronze table that begins later"},
    },
    "medallion backfill list": {
        "runs": [
            {
                "started_at": "time",
                "ended_at": "time?",
                "state": "text  running, complete, stopped, failed or killed",
                "options": "text  what it was to read; empty: everything",
                "rows": "int",
                "seconds": "number",
                "error": "text",
            }
        ]
    },
    "medallion rebuild (a gold table)": {
        "table": "text",
        "checkpoint_moved_to": "text?  null: there was none",
    },
    "medallion rebuild (a silver table)": {
        "table": "text",
        "comparison": Maybe(COMPARISON),
        "again": ["text  gold tables that their next start fills again"],
        "by_hand": ["text  gold tables that keep what they have of the former rows"],
    },
    "medallion rebuild --plan": {
        "table": "text",
        **EFFORT,
        "disk": "int  bytes that are needed until the former files are deleted",
        "expired?": {"*": "int  rows of expired records, by table; of a silver table"},
    },
    "medallion recover": {"table": "text?", "plan": "bool", "steps": [STEP], "kept": ["text  folder"]},
    "medallion recover (of a topic)": {
        "table": "text",
        "plan": "bool",
        "changes": ["text"],
        "kept": ["text  folder"],
    },
    "medallion recover --accept-gap": {"plan": "bool", "gaps": [GAP], "kept": ["text  folder"]},
}
