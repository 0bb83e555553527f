"""Names and texts in SQL, quoted so that every letter of them counts.

Spark takes names in backquotes and reads escapes in texts; DuckDB and delta-rs keep to standard SQL.
"""

from __future__ import annotations


def backquoted(name: str) -> str:
    """A name for Spark."""
    return "`{}`".format(name.replace("`", "``"))


def double_quoted(name: str) -> str:
    """A name for DuckDB and delta-rs."""
    return '"{}"'.format(name.replace('"', '""'))


def spark_text(value: str) -> str:
    """A text literal for Spark."""
    return "'{}'".format(value.replace("\\", "\\\\").replace("'", "\\'"))


def standard_text(value: str) -> str:
    """A text literal for DuckDB and delta-rs."""
    return "'{}'".format(value.replace("'", "''"))
