"""Evaluates simple conditions ``where`` on parsed JSON, without Spark. Pure.

A simple condition compares fields of the value with constants by ``=``, ``<>`` or ``in``, and joins such
comparisons by ``and``, ``or`` and ``not``. As in SQL, a comparison with an absent field is not true, and its
negation is not true either.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from common.errors import SqlError
from common.sql.expression import path_of
from common.sql.literals import value_of
from common.sql.reading import expression
from common.sql.syntax import text_of

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
        truth = _truth(expression(where), where)
    except SqlError:
        return None
    return None if truth is None else lambda record: truth(record) is True


def _truth(node: exp.Expr, sql: str) -> _Truth | None:
    node = node.unnest()
    if isinstance(node, exp.Not):
        inner = _truth(node.this, sql)
        return (
            None if inner is None else lambda record: None if (truth := inner(record)) is None else not truth
        )
    if isinstance(node, exp.And | exp.Or):
        return _joined([_truth(each, sql) for each in node.flatten(unnest=False)], isinstance(node, exp.Or))
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        return _joined([_comparison(node.this, each, operator.eq, sql) for each in node.expressions], True)
    if (compare := _COMPARISONS.get(type(node))) is not None:
        return _comparison(node.this, node.expression, compare, sql)
    return None


def _comparison(
    field: exp.Expr, constant: exp.Expr, compare: Callable[[Any, Any], bool], sql: str
) -> _Truth | None:
    if isinstance(field, exp.Literal):
        field, constant = constant, field
    path = path_of(field)
    if path is None or path[0].lower() == "_kafka" or not isinstance(constant, exp.Literal):
        return None
    wanted = value_of(text_of(sql, constant)) if constant.is_string else _number(constant.this)
    if wanted is None:
        return None  # 1.5BD

    def value(record: Mapping[str, Any]) -> bool | None:
        found: Any = record
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return None if found is None else compare(*_alike(found, wanted))

    return value


def _alike(found: object, wanted: str | Decimal) -> tuple[object, object]:
    """A value and a constant as SQL compares them: as numbers if one of them is a number, else as texts."""
    is_number = isinstance(wanted, Decimal) or (
        isinstance(found, int | float) and not isinstance(found, bool)
    )
    if is_number and None not in (both := (_number(found), _number(wanted))):
        return both
    return str(found).lower() if isinstance(found, bool) else str(found), str(wanted)


def _number(value: object) -> Decimal | None:
    """A value that is a number, or the text of one."""
    try:
        return Decimal(str(value).strip())
    except InvalidOperation:
        return None


def _joined(parts: Sequence[_Truth | None], decisive: bool) -> _Truth | None:  # noqa: FBT001  # a value of SQL
    """Conditions joined by OR, where true decides, or by AND, where false does; None if one is not simple."""
    known = [part for part in parts if part is not None]

    def joined(record: Mapping[str, Any]) -> bool | None:
        found = [part(record) for part in known]
        return decisive if decisive in found else None if None in found else not decisive

    return joined if len(known) == len(parts) else None
