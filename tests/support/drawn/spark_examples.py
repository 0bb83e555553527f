"""The examples that Spark documents for its own functions and operators, read from the installed Spark.

They are the examples of ``describe function extended``: about 1,100, each with the result that Spark prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_EXAMPLE = re.compile(r"(?P<sql>.+);\n(?P<result>(?s:.+))")
_ESCAPED = "set spark.sql.parser.escapedstringliterals="


@dataclass(frozen=True, slots=True)
class Example:
    """One documented example.

    Attributes:
        function: The name under which it is documented; an example may be documented under several names.
        sql: The statement, as an author would write it.
        result: The documented rows, one text per row; columns are divided by tabs.
        has_raw_literals: Whether it holds with ``spark.sql.parser.escapedStringLiterals=true`` alone.
    """

    function: str
    sql: str
    result: tuple[str, ...]
    has_raw_literals: bool = False


def spark_examples(spark: Any) -> Iterator[Example]:
    """The documented examples of all functions and operators, in the order of their names.

    Runs no query. Statements that set a configuration are left out; see ``has_raw_literals``.
    """
    infos = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    documented = {str(info.getName()): str(info.getExamples()) for info in infos}
    for name, text in sorted(documented.items()):
        yield from _examples(name, text)


def _examples(name: str, text: str) -> Iterator[Example]:
    has_raw_literals = False
    for part in text.split("  > ")[1:]:
        found = _EXAMPLE.match(part)
        assert found is not None, (name, part)
        sql = found["sql"].strip()
        if sql.lower().startswith(_ESCAPED):
            has_raw_literals = sql.lower().endswith("=true")
        elif not sql.lower().startswith("set "):
            yield Example(name, sql, _lines(found["result"]), has_raw_literals)


def _lines(text: str) -> tuple[str, ...]:
    """The lines of a printed result without the blanks that set them in."""
    return tuple(line.strip() for line in text.strip().splitlines())
