"""Trees of SQL texts whose calls are as their authors wrote them: a name, and its arguments in their order.

sqlglot makes classes of functions, and puts their arguments into the order of other dialects. What judges a
text needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from common.errors import SqlError
from common.sql.syntax import Parser, parse_text, shifted, span_of, text_of

_WRITTEN = "written"
_WITH_A_GRAMMAR = {"CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM"}
"""Functions whose arguments may be parted by words."""
_COUNTING = frozenset({"date_add", "dateadd", "date_diff", "datediff", "timestampadd", "timestampdiff"})
"""Functions that take a unit as their first of three arguments, as a word without quotes."""


class _AsWritten(Parser):
    """Makes every call a name with its arguments."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in SparkParser.FUNCTION_PARSERS.items() if name in _WITH_A_GRAMMAR
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    SUBQUERY_PREDICATES: ClassVar[dict[TokenType, Any]] = {TokenType.EXISTS: exp.Exists}


def expression(sql: str) -> exp.Expr | None:
    """The tree of one expression; None where it cannot be read."""
    root = _read(f"({sql}\n)")
    if not isinstance(root, exp.Paren | exp.Subquery):
        return None
    inner = root.this if isinstance(root, exp.Paren) else root
    return shifted(inner, -1)


def statement(sql: str) -> exp.Query | None:
    """The tree of a statement; None where it cannot be read."""
    root = _read(sql)
    return root if isinstance(root, exp.Query) else None


def _read(sql: str) -> exp.Expr | None:
    try:
        found = parse_text(sql, _AsWritten)
    except (ParseError, TokenError, SqlError):
        return None
    for root in found:
        for type_ in root.find_all(exp.DataType):
            text = text_of(sql, type_)
            type_.meta[_WRITTEN] = "" if text[:1].isdigit() else text
        for interval in root.find_all(exp.Interval):
            begin, _ = span_of(interval) or (len(sql), 0)
            is_first = sql[begin : begin + len("interval")].lower() == "interval"  # 1 day 2 hours are two
            interval.meta[_WRITTEN] = sql[begin:] if is_first else ""
    return found[0] if len(found) == 1 else None


def from_interval(node: exp.Expr) -> str:
    """The text that begins with an interval; empty for a further unit of one that has begun before."""
    return str(node.meta.get(_WRITTEN, ""))


def written_type(node: exp.Expr) -> str:
    """The type of a cast, as its author wrote it; empty for one of a letter, as in ``1.5BD``."""
    return str(node.args["to"].meta.get(_WRITTEN, ""))


_PARTED: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Trim: ("trim", ("this",)),
    exp.StrPosition: ("position", ("substr", "this", "position")),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
}
"""Functions that have a class, as their arguments may be parted by words: name and arguments."""


def called(node: exp.Expr) -> str | None:
    """The name of the function that a node calls, lower-case; None where it calls none."""
    if isinstance(node, exp.Anonymous):
        return None if _is_quantifier(node) else str(node.name).lower()
    return _PARTED[type(node)][0] if type(node) in _PARTED else None


def _is_quantifier(node: exp.Expr) -> bool:
    """Whether a node is no call: ``like any ('a', 'b')``, ``= any (select …)``."""
    is_compared = isinstance(node.parent, exp.Like | exp.ILike | exp.RegexpLike) or has_query(node)
    return is_compared and str(node.name).lower() in {"any", "some", "all"}


def has_query(node: exp.Expr) -> bool:
    """Whether a query stands in the brackets of a node."""
    return any(isinstance(each, exp.Query) for each in node.expressions)


def arguments(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call, as they are written."""
    if type(node) in _PARTED:
        named = (node.args.get(name) for name in _PARTED[type(node)][1])
        return [each for each in named if isinstance(each, exp.Expr)]
    given: list[exp.Expr] = list(node.expressions) if isinstance(node, exp.Anonymous) else []
    if len(given) == 1 and isinstance(given[0], exp.Distinct):
        return list(given[0].expressions)
    return given


def counted_unit(node: exp.Expr) -> exp.Expr | None:
    """The unit of a call such as ``date_add(day, 1, at)``, which the parser takes for a column."""
    given = arguments(node) if called(node) in _COUNTING else []
    is_unit = len(given) == 3 and isinstance(given[0], exp.Column) and len(given[0].parts) == 1  # noqa: PLR2004
    return given[0] if is_unit else None
