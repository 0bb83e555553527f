"""Evaluates simple conditions ``where`` on parsed JSON, without Spark. Pure.

A simple condition compares fields of the value with constants by ``=``, ``<>`` or ``in``, and joins such
comparisons by ``and``, ``or`` and ``not``. As in SQL, a comparison with an absent field is not true, and its
negation is not true either.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from common.errors import SqlError
from common.sql.expression import parse, path_of

OwnRecord = Callable[[Mapping[str, Any]], bool]
"""Whether a table's condition is true for a record's JSON object."""

_Truth = Callable[[Mapping[str, Any]], bool | None]
"""A condition's value; None where SQL's is null."""

_COMPARISONS: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
}


def own_record(where: str | None) -> OwnRecord | None:
    """The condition as a function; None if it is not simple. Without a condition every record is own."""
    if where is None:
        return lambda record: True
    try:
        truth = _truth(parse(where))
    except SqlError:
        return None
    return None if truth is None else lambda record: truth(record) is True


def _truth(node: exp.Expr) -> _Truth | None:
    node = node.unnest()
    if isinstance(node, exp.Not):
        inner = _truth(node.this)
        return None if inner is None else lambda record: _negated(inner(record))
    if isinstance(node, exp.And | exp.Or):
        left, right = _truth(node.this), _truth(node.expression)
        decisive = isinstance(node, exp.Or)
        if left is None or right is None:
            return None
        return lambda record: _joined(left(record), right(record), decisive=decisive)
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        found = [_comparison(node.this, each, operator.eq) for each in node.expressions]
        parts = [each for each in found if each is not None]
        return None if len(parts) < len(found) else lambda record: _any(part(record) for part in parts)
    if (compare := _COMPARISONS.get(type(node))) is not None:
        return _comparison(node.this, node.expression, compare)
    return None


def _comparison(field: exp.Expr, constant: exp.Expr, compare: Callable[[Any, Any], bool]) -> _Truth | None:
    if isinstance(field, exp.Literal):
        field, constant = constant, field
    path = path_of(field)
    if path is None or path[0].lower() == "_kafka" or not isinstance(constant, exp.Literal):
        return None
    wanted = constant.this

    def value(record: Mapping[str, Any]) -> bool | None:
        found: Any = record
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return None if found is None else compare(_text(found), wanted)

    return value


def _text(found: object) -> str:
    """A value as the text that a constant of SQL has."""
    return str(found).lower() if isinstance(found, bool) else str(found)


def _negated(value: bool | None) -> bool | None:  # noqa: FBT001  # a value of SQL
    return None if value is None else not value


def _joined(left: bool | None, right: bool | None, *, decisive: bool) -> bool | None:  # noqa: FBT001  # as above
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def _any(values: Any) -> bool | None:
    found = list(values)
    return True if True in found else None if None in found else False
