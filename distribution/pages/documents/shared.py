"""Parts that documents of several commands have."""

from __future__ import annotations

PLACE = {"topic": "text", "partition": "int", "offset": "int"}
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
EFFORT = {
    "rows": "int?  null: a source does not say",
    "bytes": "int  of the files that hold them",
    "seconds": "number?  estimated",
    "is_measured": "bool  by the speed of earlier micro-batches",
}
