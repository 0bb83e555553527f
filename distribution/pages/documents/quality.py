"""Documents of commands that judge tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FAILING = [
    {
        "expectation": "text",
        "column": "text",
        "rows": [{"*": "any  values of the key and of the column, by name"}],
    }
]

DOCUMENTS: Mapping[str, Any] = {
    "medallion quality run": {
        "data_docs": "text?  their page; null: not written",
        "suites": [
            {
                "table": "text",
                "version": "int",
                "rows": "int?",
                "is_met": "bool",
                "checked": [
                    {
                        "expectation": "text",
                        "column": "text  several are joined by commas; empty: the table",
                        "is_met": "bool",
                        "observed": "text",
                        "severity": "text  error or warn",
                        "expected": "text",
                        "failing_rows": "int?  null: it is not about single rows",
                        "seconds": "number",
                    }
                ],
                "since": "int?  only files written after this version were read; null: all rows",
                "seconds": "number",
                "engine": "text  duckdb or spark",
                "at": "time?",
                "examples?": FAILING,
            }
        ],
    },
    "medallion quality status": {
        "suites": [
            {
                "table": "text",
                "gate": "text?  stop or publish",
                "state": "text  passed, warned, failed or never run",
                "version": "int?  the newest of the table",
                "published_version": "int?",
                "runs": [
                    {
                        "at": "time",
                        "reason": "text  command, or gate of a job",
                        "version": "int",
                        "since": "int?",
                        "rows": "int?",
                        "passed": "bool",
                        "seconds": "number",
                        "not_met": [
                            {
                                "expectation": "text",
                                "column": "text",
                                "severity": "text",
                                "observed": "text",
                                "failing_rows": "int?",
                            }
                        ],
                    }
                ],
                "failing_rows?": FAILING,
            }
        ]
    },
}
