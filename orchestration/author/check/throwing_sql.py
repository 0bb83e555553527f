"""SQL that stops a query: expressions that throw on bad data under ANSI rules, and what to write instead.

Harmless cases (a cast to a text or to a wider number, a constant) are no fault. Arithmetic overflow is not
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from common.declare import Session, Window
from common.declare.intervals import length_of
from common.errors import Fault, SqlError
from common.schema.ddl import Field
from common.sql.expression import function_name, parse, path_of
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
_CONDITIONAL = (exp.Case, exp.If)


def throwing_faults(sql: str, scope: Scope) -> Iterator[str]:
    """The parts of an expression that throw on bad data, each with the form that returns null instead."""
    return _faults(sql, lambda node: _throwing_fault(node, scope))


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
    if type(node) not in _DIVISIONS:
        return False
    by = node.expression.unnest() if isinstance(node.expression, exp.Paren) else node.expression
    if not isinstance(by, exp.Sub):
        return False
    names = [function_name(side) for side in (by.left, by.right)]
    paths = [[path_of(column) for column in side.find_all(exp.Column)] for side in (by.left, by.right)]
    if paths != [[("window_end",)], [("window_start",)]] or names[0] != names[1]:
        return False
    seconds = float(length_of(window.gap if isinstance(window, Session) else window.size).seconds)
    return seconds >= _IN_SECONDS.get(names[0] or "", seconds + 1)


def _faults(sql: str, fault_of: Callable[[exp.Expr], str | None]) -> Iterator[str]:
    """The faults of all parts of an expression, each fault once."""
    try:
        root = parse(sql)
    except SqlError:
        return  # ``row_faults`` reports it
    found = map(fault_of, root.walk())
    yield from (Fault("MED-1208", fault) for fault in dict.fromkeys(found) if fault is not None)


def _throwing_fault(node: exp.Expr, scope: Scope) -> str | None:  # noqa: PLR0911  # a return per kind
    name = str(node.meta.get("name") or (node.name if isinstance(node, exp.Anonymous) else "")).lower()
    if name in {"assert_true", "raise_error"}:
        return f"{name}(…) stops the query on purpose; write a Rule"
    if name in _CLOCKS and node.this and _type_of(node.this, scope).type == "string":
        return (
            f"{name}(…) stops the query on a text that is not a time; "
            "write unix_timestamp(try_to_timestamp(…))"
        )
    if name in _TRY and not _is_constant(node):
        if name == "element_at" and _type_of(node.this, scope).kind == "map":
            return None  # null if the key does not exist
        return f"{name}(…) stops the query on a value that does not fit; write {_TRY[name]}"
    if name in _CASTS:
        value = node.expressions[0] if isinstance(node, exp.Anonymous) and node.expressions else node.this
        return _cast(value, name, f"{name}(…)", scope)
    if isinstance(node, exp.Cast) and not name and "requires_string" not in node.args:
        return _text_as_time(node, scope)
    if isinstance(node, exp.Cast) and not name and not node.args.get("safe"):
        kind = node.to.sql(dialect="spark").lower()
        return _cast(node.this, kind, f"cast(… as {kind})", scope)
    if isinstance(node, exp.Bracket) and not name:
        return _index(node, scope)
    return _division(node)


def _cast(value: exp.Expr, kind: str, shown: str, scope: Scope) -> str | None:
    if kind.partition("(")[0] in _TEXTS or _is_constant(value):
        return None
    known = _type_of(value, scope).type
    if known in _WIDENING and kind in _WIDENING and _WIDENING.index(known) <= _WIDENING.index(kind):
        return None
    if known == kind or (known in {"timestamp", "timestamp_ntz", "date"} and kind in {"date", "timestamp"}):
        return None
    return f"{shown} stops the query on a value that cannot be cast; write try_cast(… as {kind})"


def _text_as_time(node: exp.Cast, scope: Scope) -> str | None:
    """The fault of a cast that the parser adds, such as ``to_utc_timestamp``'s: Spark casts a text so too."""
    if _type_of(node.this, scope).type != "string":
        return None
    name = str(node.parent.meta.get("name") or "") if node.parent is not None else ""
    called = name.lower() or "this function"
    return f"{called}(…) stops the query on a text that is not a time; write {called}(try_to_timestamp(…), …)"


def _division(node: exp.Expr) -> str | None:
    if type(node) not in _DIVISIONS:
        return None
    by = node.expression
    while isinstance(by, (exp.Paren, exp.Neg)):
        by = by.this
    if isinstance(by, exp.Nullif) or (isinstance(by, exp.Literal) and by.name.strip("0.") != ""):
        return None
    if isinstance(by, exp.Count) and isinstance(by.this, exp.Star):
        return None
    if node.find_ancestor(*_CONDITIONAL) is not None:
        return None  # the condition is assumed to exclude 0
    sign, instead = _DIVISIONS[type(node)]
    return f"{sign} by 0 stops the query; write {instead}(…), or divide by nullif(…, 0)"


def _index(node: exp.Bracket, scope: Scope) -> str | None:
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(index, exp.Literal) and index.is_string:
        return None
    if _type_of(node.this, scope).kind == "map":
        return None
    return "[…] stops the query where the array is shorter; write get(…, index)"


def _type_of(node: exp.Expr, scope: Scope) -> Field:
    """The type of a plain field; empty for any other expression."""
    path = path_of(node)
    return scope.type_of(path) if path is not None and scope.fields is not None else Field("", "")


def _is_constant(node: exp.Expr) -> bool:
    return node.find(exp.Column) is None
