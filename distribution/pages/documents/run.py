"""Documents of commands that run and keep tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCUMENTS: Mapping[str, Any] = {
    "medallion maintain": {
        "tables": [
            {
                "table": "text",
                "files_before": "int?  null: the table does not exist",
                "files_after": "int?  null: nothing was done",
                "bytes_before": "int?",
                "bytes_after": "int?",
                "old_files_deleted": "int?",
                "old_files_kept_because": "text?",
                "expired_records": "int?  that were deleted; null: the table keeps all",
                "expired_records_kept_because": "text?",
            }
        ]
    },
    "medallion hand-over": {
        "jobs": [
            {
                "job": "text",
                "from": "int  pid",
                "to": "int  pid of the former standby",
                "seconds": "number  until its queries ran",
                "failed": [{"query": "text", "error": "text"}],
            }
        ]
    },
    "medallion stop": {
        "query": "text",
        "is_stopped": "bool  jobs that start later leave it stopped",
        "by_running_job": "bool",
    },
    "medallion start": {"query": "text", "was_stopped": "bool", "by_running_job": "bool"},
}
