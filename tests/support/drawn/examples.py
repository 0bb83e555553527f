"""Documented expressions of Spark's that a drawn statement may have anywhere, by the type of their value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException

from common.sql.functions import AGGREGATES, GENERATORS, NON_DETERMINISTIC, WINDOWS
from tests.support.drawn.expressions import KINDS, letter_of
from tests.support.drawn.spark_examples import spark_examples

_PLAIN = re.compile(r"select\s+((?:(?!\bfrom\b|\bas\b).)+)", re.IGNORECASE | re.DOTALL)
_OTHERWISE = AGGREGATES | GENERATORS | NON_DETERMINISTIC | WINDOWS
_OF_A_SESSION = (
    "current_",
    "session_user",
    "user()",
    "version()",
    "raise_error",
    "unix_timestamp()",
    "assert_true",
)


def constants(spark: Any) -> Mapping[str, Sequence[str]]:
    """The documented expressions without a column and with one value, by the letter of their type."""
    texts = []
    for example in spark_examples(spark):
        found = _PLAIN.fullmatch(example.sql)
        if (
            found is None
            or example.has_raw_literals
            or any(word in example.sql.lower() for word in _OF_A_SESSION)
        ):
            continue
        if not {name.lower() for name in re.findall(r"(\w+)\s*\(", example.sql)} & _OTHERWISE:
            texts.append(found[1].strip())
    by_type: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        try:
            (field,) = spark.sql(f"select ({text}\n) as x").schema
        except (PySparkException, ValueError):
            continue
        kind = field.dataType.simpleString()
        if kind.split("(")[0] in KINDS.values():
            by_type.setdefault(letter_of(kind), []).append(text)
    return by_type
