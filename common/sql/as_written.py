"""SQL texts with the calls as their authors wrote them: each function under its own name, with its arguments.

sqlglot's own Spark parser makes classes of functions, and puts their arguments into the order of other
dialects. What judges a text needs neither. Places are offsets in characters, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

_WITH_A_GRAMMAR = {"CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM"}
"""Functions whose arguments may be parted by words."""
_START = "start"
_COUNTING = frozenset({"date_add", "dateadd", "date_diff", "datediff", "timestampadd", "timestampdiff"})
"""Functions that take a unit as their first of three arguments, as a word without quotes."""


class _Parser(Spark.Parser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in Spark.Parser.FUNCTION_PARSERS.items() if name in _WITH_A_GRAMMAR
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    SUBQUERY_PREDICATES: ClassVar[dict[TokenType, Any]] = {TokenType.EXISTS: exp.Exists}

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        begun = self._curr
        return _placed(super()._parse_function_call(*args, **kwargs), begun)

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        begun = self._curr
        return _placed(super()._parse_interval(*args, **kwargs), begun)


class _AsWritten(Spark):
    Parser = _Parser


_DIALECT = _AsWritten()


def expression(sql: str) -> exp.Expr | None:
    """The syntax tree of one expression; None where it cannot be read."""
    root = _parsed(f"({sql}\n)")
    inner = root.this if isinstance(root, exp.Paren) else root
    for node in root.walk() if root is not None else ():
        if _START in node.meta:
            node.meta[_START] -= 1
    return inner if isinstance(inner, exp.Expr) else None


def statement(sql: str) -> exp.Query | None:
    """The syntax tree of a statement; None where it cannot be read."""
    root = _parsed(sql)
    return root if isinstance(root, exp.Query) else None


def _parsed(sql: str) -> exp.Expr | None:
    try:
        found = [each for each in _DIALECT.parse(sql) if each is not None]
    except (ParseError, TokenError, RecursionError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


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
        given = [node.args.get(name) for name in _PARTED[type(node)][1]]
        return [each for each in given if isinstance(each, exp.Expr)]
    given = list(node.expressions) if isinstance(node, exp.Anonymous) else []
    if len(given) == 1 and isinstance(given[0], exp.Distinct):
        return list(given[0].expressions)
    return given


def counted_unit(node: exp.Expr) -> exp.Expr | None:
    """The unit of a call such as ``date_add(day, 1, at)``, which the parser takes for a column."""
    given = arguments(node) if called(node) in _COUNTING else []
    is_unit = len(given) == 3 and isinstance(given[0], exp.Column) and len(given[0].parts) == 1  # noqa: PLR2004
    return given[0] if is_unit else None


def _placed(node: exp.Expr | None, begun: Token | None) -> exp.Expr | None:
    if node is not None and begun is not None:
        inner = node.this if isinstance(node, exp.Window | exp.Filter | exp.WithinGroup) else node
        for each in (node, inner):
            if isinstance(each, exp.Expr):
                each.meta.setdefault(_START, begun.start)
    return node
