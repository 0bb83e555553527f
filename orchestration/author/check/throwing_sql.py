"""SQL that stops a query: expressions that throw on bad data under ANSI rules, and what to write instead.

Harmless cases (a cast to a text or to a wider number, a constant) are no fault. Arithmetic overflow is not
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from sqlglot import exp

from common.declare import Session, Window
from common.declare.intervals import length_of
from common.errors import Fault, SqlError
from common.schema.ddl import Field
from common.sql.reading import expression
from common.sql.syntax import arguments, called
from common.typed.expression import Judge
from orchestration.author.check.expression import judge_of
from orchestration.author.check.visible_columns import Scope

_TRY = {
    "aes_decrypt": "try_aes_decrypt(…)",
    "element_at": "try_element_at(…)",
    "make_date": "try_to_date(…)",
    "make_interval": "try_make_interval(…)",
    "make_timestamp": "try_make_timestamp(…)",
    "make_timestamp_ltz": "try_make_timestamp_ltz(…)",
    "make_timestamp_ntz": "try_make_timestamp_ntz(…)",
    "parse_json": "try_parse_json(…)",
    "parse_url": "try_parse_url(…)",
    "to_binary": "try_to_binary(…)",
    "to_date": "try_to_date(…)",
    "to_number": "try_to_number(…)",
    "to_time": "try_to_time(…)",
    "to_timestamp": "try_to_timestamp(…)",
    "to_timestamp_ltz": "try_to_timestamp(…)",
    "to_timestamp_ntz": "try_cast(… as timestamp_ntz)",
    "url_decode": "try_url_decode(…)",
    "validate_utf8": "try_validate_utf8(…)",
    "variant_get": "try_variant_get(…)",
}
_CLOCKS = {"unix_timestamp", "to_unix_timestamp"}
_CASTS = {
    *("bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint", "timestamp"),
    "tinyint",
}
_DIVISIONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Div: ("/", "try_divide"),
    exp.IntDiv: ("div", "try_divide"),
    exp.Mod: ("%", "try_mod"),
}
_WIDENING = ("tinyint", "smallint", "int", "bigint", "float", "double")
_TEXTS = {"char", "varchar", "string", "text", "nchar", "nvarchar"}


def throwing_faults(sql: str, scope: Scope) -> Iterator[str]:
    """The parts of an expression that throw on bad data, each with the form that returns null instead."""
    judge = judge_of(scope)
    return _faults(sql, lambda node: _throwing_fault(node, judge))


def division_faults(sql: str, window: Window | Session | None = None) -> Iterator[str]:
    """Divisions that throw if the divisor is 0; the only check that needs no column types.

    A divisor of ``count(*)`` is no fault, because a group is never empty; nor is the length of the window
    that the groups have.
    """

    def fault_of(node: exp.Expr) -> str | None:
        return None if window is not None and _is_by_length(node, window) else _division(node)

    return _faults(sql, fault_of)


_IN_SECONDS = {"unix_timestamp": 1.0, "unix_seconds": 1.0, "unix_millis": 1e-3, "unix_micros": 1e-6}
"""Functions that give a time as a whole number, and the unit in seconds."""


def _is_by_length(node: exp.Expr, window: Window | Session) -> bool:
    """Whether a node divides by ``unix_seconds(window_end) - unix_seconds(window_start)``, or the like."""
    _, by = _divided(node)
    if not isinstance(by, exp.Sub):
        return False
    names = [called(side) for side in (by.left, by.right)]
    columns = [[each.name for each in arguments(side)] for side in (by.left, by.right)]
    if columns != [["window_end"], ["window_start"]] or names[0] != names[1]:
        return False
    seconds = float(length_of(window.gap if isinstance(window, Session) else window.size).seconds)
    return seconds >= _IN_SECONDS.get(names[0] or "", seconds + 1)


def _faults(sql: str, fault_of: Callable[[exp.Expr], str | None]) -> Iterator[str]:
    """The faults of all parts of an expression, each fault once."""
    with suppress(SqlError):  # ``row_faults`` tells of one that cannot be read
        found = [fault_of(node) for node in expression(sql).walk()]
        yield from (Fault("MED-1208", fault) for fault in dict.fromkeys(found) if fault is not None)


def _throwing_fault(node: exp.Expr, judge: Judge) -> str | None:  # noqa: PLR0911  # a return per kind
    name, given = called(node) or "", arguments(node)
    first = judge.type_of(given[0]) if given else Field("", "")
    if name in {"assert_true", "raise_error"}:
        return f"{name}(…) stops the query on purpose; write a Rule"
    if name in _CLOCKS and first.type == "string":
        return (
            f"{name}(…) stops the query on a text that is not a time; "
            "write unix_timestamp(try_to_timestamp(…))"
        )
    if name in _TRY and not _is_constant(node):
        if name == "element_at" and first.kind == "map":
            return None  # null if the key does not exist
        return f"{name}(…) stops the query on a value that does not fit; write {_TRY[name]}"
    if name in _CASTS and given:
        return _cast(given[0], name, f"{name}(…)", judge)
    if isinstance(node, exp.Cast) and not node.args.get("safe"):
        kind = node.to.sql(dialect="spark").lower()
        return _cast(node.this, kind, f"cast(… as {kind})", judge)
    if isinstance(node, exp.Bracket):
        return _index(node, judge)
    return _division(node)


def _cast(value: exp.Expr, kind: str, shown: str, judge: Judge) -> str | None:
    if kind.partition("(")[0] in _TEXTS or _is_constant(value):
        return None
    known = judge.type_of(value).type
    if known in _WIDENING and kind in _WIDENING and _WIDENING.index(known) <= _WIDENING.index(kind):
        return None
    if known == kind or (known in {"timestamp", "timestamp_ntz", "date"} and kind in {"date", "timestamp"}):
        return None
    return f"{shown} stops the query on a value that cannot be cast; write try_cast(… as {kind})"


def _divided(node: exp.Expr) -> tuple[str, exp.Expr | None]:
    """The sign of a division, and by what is divided."""
    if type(node) in _DIVISIONS:
        return _DIVISIONS[type(node)][0], node.expression.unnest()
    sign, given = {"mod": "%", "div": "div"}.get(called(node) or "", ""), arguments(node)
    return (sign, given[1].unnest()) if sign and len(given) == 2 else ("", None)  # noqa: PLR2004


def _division(node: exp.Expr) -> str | None:
    sign, by = _divided(node)
    while isinstance(by, (exp.Paren, exp.Neg)):
        by = by.this
    if by is None or called(by) == "nullif" or (isinstance(by, exp.Literal) and by.name.strip("0.") != ""):
        return None
    if called(by) == "count" and isinstance(arguments(by)[0], exp.Star):
        return None
    if any(isinstance(each, exp.Case) or called(each) == "if" for each in _around(node)):
        return None  # the condition is assumed to exclude 0
    instead = next(instead for own, instead in _DIVISIONS.values() if own == sign)
    return f"{sign} by 0 stops the query; write {instead}(…), or divide by nullif(…, 0)"


def _around(node: exp.Expr) -> Iterator[exp.Expr]:
    around = node.parent
    while around is not None:
        yield around
        around = around.parent


def _index(node: exp.Bracket, judge: Judge) -> str | None:
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(index, exp.Literal) and index.is_string:
        return None
    if judge.type_of(node.this).kind == "map":
        return None
    return "[…] stops the query where the array is shorter; write get(…, index)"


def _is_constant(node: exp.Expr) -> bool:
    return node.find(exp.Column, exp.Identifier) is None
