"""Names in SQL text, quoted so that every letter of them counts."""

from __future__ import annotations


def backquoted(name: str) -> str:
    """A name for Spark."""
    return "`{}`".format(name.replace("`", "``"))


def double_quoted(name: str) -> str:
    """A name for DuckDB and delta-rs."""
    return '"{}"'.format(name.replace('"', '""'))
