"""Documents of commands that write and check declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distribution.pages.documents.shared import PROBLEMS
from distribution.pages.json_notation import Maybe

DOCUMENTS: Mapping[str, Any] = {
    "medallion new": {"name": "text", "example": "text", "files": ["text"]},
    "medallion init": {
        "output": "text  the file",
        "files": ["text  all that were written"],
        "topics": [
            {
                "topic": "text",
                "table": "text",
                "tables": ["text  with a row per element of an array"],
                "messages": "int  that were read",
                "format": "text",
                "kinds": {"*": "int  messages, by format or fault"},
                "columns": ["text"],
                "key": ["text"],
                "event_time": "text  column",
                "watermark": "text",
            }
        ],
    },
    "medallion check": {
        "pipeline": "text?",
        "file": "text?",
        "ok": "bool",
        "problems": PROBLEMS,
        "warnings": PROBLEMS,
        "topics": {"*": ["text  topics, by bronze table"]},
        "reads": {"*": ["text  tables, by the table that reads them"]},
        "checked_at_start": ["text  what only a start can check"],
        "notes": ["text"],
        "settings": {"*": "any  settings that differ from the defaults"},
    },
    "medallion explain CODE": {"code": "text", "title": "text", "advice": "text", "error": "text"},
    "medallion explain TABLE": {
        "table": "text",
        "statement": "text?  whose rows it has; null where code of the pipeline makes them",
        "unsaid": ["text  what its rows have beside the statement"],
        "columns": ["text"],
        "kept": "text  of a view: by row, by key or whole; empty for other kinds",
        "why": "text",
        "keys": ["text  columns by which rows are computed again"],
        "reads": {"*": "text  what a micro-batch reads, by the source that changes"},
        "estimates": {
            "*": {
                "rows": "int?  of the source; null where it is not there, or has no statistics",
                "changed": "int?  rows that a usual commit of it changes: the middle one of its last ten",
                "read": "int?  rows that a micro-batch then reads of all sources; null if not known",
                "kept": "text  the way that it then takes: by row, by key or whole; empty if not known",
            }
        },
        "last": "text  the way that its last micro-batch took, and why; empty where it had no choice",
    },
    "medallion test": {
        "cases": [
            {
                "case": "text",
                "file": "text",
                "line": "int",
                "passed": "bool",
                "seconds": "number",
                "error": "text?  why the case could not be run",
                "differences": [
                    {
                        "table": "text",
                        "line": "int  of the expected rows",
                        "message": "text",
                        "columns": ["text  that are compared"],
                        "expected": [
                            {
                                "line": "int",
                                "row": ["text  cells"],
                                "found": Maybe(["text  cells of the row that is most like it"]),
                            }
                        ],
                        "unexpected": [["text  cells"]],
                    }
                ],
            }
        ]
    },
}
