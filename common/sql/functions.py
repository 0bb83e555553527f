"""Spark SQL's functions: their kinds, and what they take and give, so that SQL text is judged without Spark.

``functions.tsv`` has a line per function; ``tests/spark`` holds each of them against the installed Spark. Of
each argument it has the letters of the kinds of types that are taken, or ``*``: ``n`` a number, ``t`` a text,
``b`` a boolean, ``d`` a date, ``s`` a timestamp, ``y`` bytes, ``a`` an array, ``m`` a map, ``r`` a struct. A
capital one is the kind as which a text is read: ``Nt`` takes numbers, and casts texts to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.data_table import rows

MANY = 99
"""The most arguments of a function that takes any number."""

_LETTERS = {
    "n": "number",
    "t": "text",
    "b": "boolean",
    "d": "date",
    "s": "timestamp",
    "y": "binary",
    "a": "array",
    "m": "map",
    "r": "struct",
}
"""The kinds of types, by their letters."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function."""

    name: str  # its name, lower-case
    # ``aggregate``: one value for many rows; ``window``: needs ``over (…)``; ``generator``: any number of
    # rows; else empty.
    kind: str
    least: int  # the least number of arguments
    most: int
    # The kinds of each argument; None where that depends on the other arguments, or any is taken.
    takes: tuple[frozenset[str] | None, ...]
    casts: tuple[str, ...]  # the kind as which each argument reads a text; empty where a text is meant
    # The type of its value, with ``{0}`` for that of its first argument; ``number`` for one of the types of
    # numbers; empty where it depends on more.
    result: str

    def argument(self, place: int) -> tuple[frozenset[str] | None, str]:
        """The kinds that an argument takes, and the kind as which it reads a text; empty for a text."""
        return (self.takes[place], self.casts[place]) if place < len(self.takes) else (None, "")


def _read() -> Mapping[str, Function]:
    found = {}
    for name, kind, least, most, letters, result in rows(__file__, "functions.tsv"):
        takes = tuple(map(_kinds, letters.split()))
        casts = tuple(map(_read_as, letters.split()))
        found[name] = Function(name, kind, int(least), int(most), takes, casts, result)
    return found


def _kinds(letters: str) -> frozenset[str] | None:
    return None if letters == "*" else frozenset(_LETTERS[letter.lower()] for letter in letters)


def _read_as(letters: str) -> str:
    """The kind as which a text is read: its letter is a capital one."""
    return next((_LETTERS[letter.lower()] for letter in letters if letter.isupper()), "")


FUNCTIONS: Mapping[str, Function] = _read()
"""Every function that is called with parentheses, by its name."""


def _of_kind(kind: str) -> frozenset[str]:
    return frozenset(name for name, each in FUNCTIONS.items() if each.kind == kind)


AGGREGATES, WINDOWS, GENERATORS = _of_kind("aggregate"), _of_kind("window"), _of_kind("generator")

OF_TIME = frozenset({"window", "session_window"})
"""Functions that give a row its window of time; of a group it has the same name: ``select window.start``."""

BY_ORDER = frozenset(
    {"any_value", "array_agg", "collect_list", "collect_set", "first", "first_value", "last", "last_value"}
    | {"listagg", "max_by", "min_by", "mode", "nth_value", "string_agg", "row_number", "ntile", "lag", "lead"}
)
"""Functions whose value may depend on the order in which Spark reads the rows."""

APPROXIMATE = frozenset(
    {"approx_percentile", "histogram_numeric", "percentile_approx"}
    | {name for name in AGGREGATES if name.startswith(("approx_top_k", "hll_", "kll_"))}
)
"""Functions that two computations over the same rows may give differently in any case."""

BY_CHANCE = frozenset({"aes_encrypt", "rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"})
"""Functions whose value is drawn; that of ``aes_encrypt`` only without an initialisation vector."""

NON_DETERMINISTIC = BY_CHANCE | frozenset(
    {"curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now"}
    | {"current_catalog", "current_database", "current_schema", "current_timezone", "current_user"}
    | {"session_user", "user", "version", "java_method", "reflect", "try_reflect"}
    | {"input_file_block_length", "input_file_block_start", "input_file_name"}
    | {"monotonically_increasing_id", "python_worker_logs", "spark_partition_id"}
)
"""Functions whose value differs by time, task, user or installation for the same row; kept by hand."""

WITHOUT_BRACKETS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtimestamp"}
    | {"current_user", "session_user", "user"}
)
"""Of these, the names that stand without brackets too, where no column has them."""
