"""Faults of a function for silver's columns that its text shows: calls that give more or fewer rows.

What another function does that it calls is not read: a start compares the plan of its result.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from common.errors import Fault, SqlError
from common.sql.expression import analyze
from common.sql.functions import GENERATORS

_TAKES_SQL = frozenset({"expr", "selectExpr"})

_OF_FRAMES = frozenset(
    {"crossJoin", "distinct", "dropDuplicates", "drop_duplicates", "groupBy", "limit", "unionByName"}
)
"""Methods of a frame, and of nothing else in such a function, that change its rows."""


def function_faults(function: Callable[..., Any]) -> Iterator[str]:
    """Faults of a function that makes a silver table's columns."""
    for name in sorted(set(_calls(function))):
        yield Fault(
            "MED-1204",
            f"the columns function must give one row per row, but it calls {name}(); only add, change or "
            "drop columns in it, keep arrays whole, and reject rows with a Rule",
        )


def _calls(function: Callable[..., Any]) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return  # no text, or a lambda in the middle of a statement
    own = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    if not own:
        return
    known = dict(getattr(function, "__globals__", {}))
    spark = {name for name, value in known.items() if _is_of_spark(value)} | set(_imported(own[0]))
    for call in ast.walk(own[0]):
        if not isinstance(call, ast.Call):
            continue
        called = call.func
        if isinstance(called, ast.Attribute):
            name, of = called.attr, called.value.id if isinstance(called.value, ast.Name) else ""
        else:
            of = called.id if isinstance(called, ast.Name) else ""
            name = getattr(known.get(of), "__name__", of)
        is_method = isinstance(called, ast.Attribute) and of not in spark
        if (name in GENERATORS and of in spark) or (name in _OF_FRAMES and is_method):
            yield name
        for text in call.args if name in _TAKES_SQL else ():
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                with suppress(SqlError):
                    yield from analyze(text.value).generators


def _is_of_spark(value: object) -> bool:
    """Whether a name stands for Spark's functions, or for one of them."""
    module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return str(module).startswith("pyspark.sql")


def _imported(function: ast.AST) -> Iterator[str]:
    """The names that a function imports from Spark itself."""
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark.sql"):
            yield from (each.asname or each.name for each in node.names)
