"""Text in columns of ``partition_by``: Delta stores an empty text there as null. Pure."""

from __future__ import annotations

import re

_STORED = "nullif(({}), '')"

_PATTERN = re.compile(re.escape(_STORED).replace(r"\{\}", "(.*)"), re.DOTALL)


def stored(sql: str) -> str:
    """SQL text of the value that the table stores for a text."""
    return _STORED.format(sql)


def source_of_stored(sql: str) -> str | None:
    """The text that ``stored`` was given; ``None`` for any other SQL text."""
    match = _PATTERN.fullmatch(sql)
    return None if match is None else match[1]
