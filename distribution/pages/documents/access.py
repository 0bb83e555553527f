"""Documents of commands that read and send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOPIC = {
    "topic": "text",
    "bootstrap_servers": "text",
    "read_by": ["text  bronze tables"],
    "partitions": [
        {
            "partition": "int",
            "leader": "int?",
            "replicas": ["int"],
            "in_sync": ["int"],
            "first_offset": "int?",
            "end_offset": "int?",
        }
    ],
    "configs": [{"name": "text", "value": "text?  null: secret", "set_on": "text  topic or broker"}],
}

LINES: Mapping[str, Any] = {
    "medallion topic tail (a line per record)": {
        "topic": "text",
        "partition": "int",
        "offset": "int",
        "timestamp": "text?  ISO 8601 in UTC",
        "key": "text?",
        "value": "text?",
        "headers": [["text?  name and value"]],
        "silver?": [
            {
                "table": "text",
                "verdict": "text",
                "row?": {"*": "any"},
                "reasons?": ["text"],
                "field?": "text",
            }
        ],
    }
}
"""Lines of commands that print a stream: each is an object without a version."""

DOCUMENTS: Mapping[str, Any] = {
    "medallion produce": {
        "topic": "text",
        "bootstrap_servers": "text",
        "skipped": "int  messages at the start that were not sent",
        "messages": "int",
        "bytes": "int",
        "seconds": "number",
        "rate_per_second": "number",
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
    "medallion topic create": TOPIC,
    "medallion topic describe": TOPIC,
}
