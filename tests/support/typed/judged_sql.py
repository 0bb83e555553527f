"""Statements of tests/spec/views with what ``check`` says of them; Spark is asked of the same ones.

A ``|`` stands before the word that is told. The tables have one row each, of the values of ``ROW``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.documents import chapters

TABLES: Mapping[str, str] = {
    "silver.orders": (
        "id string, n int, big bigint, price decimal(10,2), x double, ok boolean, d date, at timestamp, "
        "tags array<string>, nums array<int>, m map<string,int>, s struct<a:int,t:string>, b binary, "
        "odd variant, lines array<struct<sku:string,n:int>>"
    ),
    "silver.days": "day date, score int, id string",
}
ROW: Mapping[str, str] = {
    "string": "'x1'",
    "int": "7",
    "bigint": "7",
    "decimal(10,2)": "7.5",
    "double": "7.5",
    "boolean": "true",
    "date": "date'2026-01-01'",
    "timestamp": "timestamp'2026-01-01 12:00:00'",
    "array<string>": "array('a')",
    "array<int>": "array(1)",
    "map<string,int>": "map('a', 1)",
    "struct<a:int,t:string>": "named_struct('a', 1, 't', 'b')",
    "binary": "x'1F'",
    "variant": "parse_json('{}')",
    "array<struct<sku:string,n:int>>": "array(named_struct('sku', 'a', 'n', 1))",
}
"""A value of each type."""

ROWS = tuple(chapters.rows(Path(__file__).parents[2] / "spec" / "views" / "types.md"))


def statements(head: str) -> Sequence[str]:
    """The statements of a table of the chapter."""
    return [chapters.text(row.cells[0]) for row in ROWS if row.head[0] == head]


REFUSED = statements("refused by Spark")
STOPPED = statements("ends at the first row")
AT_SOME_VALUES = statements("ends at some values")
NEVER_TRUE = statements("never true")
OF_THE_MOMENT = statements("differs each time")
ACCEPTED = statements("accepted")
