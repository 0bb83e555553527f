"""Calls of functions with more or fewer arguments than Spark takes."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from common.errors import SqlError
from common.sql.as_written import arguments, called, expression, statement
from common.sql.functions import FUNCTIONS, MANY
from common.sql.places import offset_of

_PAIRED = frozenset({"map", "named_struct"})
"""Functions whose arguments come in pairs."""


def count_mistakes(sql: str) -> Iterator[SqlError]:
    """The calls of a statement, or of an expression, with a wrong number of arguments."""
    root = statement(sql) or expression(sql)
    for node in root.walk() if root is not None else ():
        if (fault := count_fault(node)) is not None:
            yield fault


def count_fault(node: exp.Expr) -> SqlError | None:
    """What is wrong with the number of arguments of a call; None where nothing is known to be."""
    name, given = called(node) or "", arguments(node)
    function = FUNCTIONS.get(name)
    if function is None or any(isinstance(each, exp.Star | exp.Kwarg | exp.Query) for each in given):
        return None
    least, most, number = function.least, function.most, len(given)
    is_paired = name in _PAIRED
    if least <= number <= most and not (is_paired and number % 2):
        return None
    wanted = str(least) if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"
    wanted = "pairs of a name or key and a value" if is_paired else wanted
    text = f"calls {name}() with {number} argument{'' if number == 1 else 's'}; it takes {wanted}"
    hint = "; count(*) counts rows" if name == "count" else ""
    return SqlError(text + hint, name, at=offset_of(node), code="MED-1207")
