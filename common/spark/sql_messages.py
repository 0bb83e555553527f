"""What Spark says of an SQL text that it refuses, as people read it. Pure."""

from __future__ import annotations

import re

from common.errors import Fault

_BEGIN = re.compile(r"\s*(?:\[[A-Z_][\w.]*\]\s*)?")
_STATE = re.compile(r"\s*(?:SQLSTATE: \w{5}|; line \d+ pos \d+).*", re.DOTALL)
_OWN_TABLE = re.compile(r"`?\b_(?:pyspark_[0-9a-f]{32}|_view_input_\d+|_in\d+__)\b`?")
_UNKNOWN_COLUMN = (
    r"A column, variable, or function parameter with name (`.+?`) cannot be resolved\."
    r"(?: Did you mean one of the following\? \[(.*)\]\.?)?"
)
_WITHOUT_GROUPS = (
    "an aggregate, or HAVING, stands beside columns that are in none, and there is no GROUP BY: add one, or "
    "take the aggregate out"
)
_PLAIN = (
    (r"The query does not include a GROUP BY clause\..*", _WITHOUT_GROUPS),
    (_UNKNOWN_COLUMN, r"there is no column \1; known: \2"),
    (r"Cannot resolve routine (`.+?`) on search path.*", r"Spark has no function \1"),
    (
        r"The `(\w+)` requires (.*?) parameters but the actual number is (\d+)\..*",
        r"\1() takes \2 arguments, not \3",
    ),
    (r"Syntax error at or near (.*?)(?:\.|: .*)?", r"it cannot be read at or near \1"),
    (r'Cannot resolve ".*" due to data type mismatch: (.*)', r"\1"),
)
"""Sentences of Spark, and how they are said."""


def in_plain_words(error: object) -> str:
    """The first sentence of an error in plain words, without a full stop at its end."""
    said = _BEGIN.sub("", str(error).strip(), count=1).split("\n")[0]
    said = _OWN_TABLE.sub("a table", _STATE.sub("", said)).strip()
    for pattern, words in _PLAIN:
        if (found := re.fullmatch(pattern, said)) is not None:
            said = found.expand(words).removesuffix("; known: ")
            break
    return said.rstrip(".; ")


def refusal(error: object) -> Fault:
    """An error by which Spark refuses a text, as a mistake of its author."""
    return Fault("MED-4014", in_plain_words(error))
