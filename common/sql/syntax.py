"""The syntax tree of a text in Spark's SQL, with the characters that each part of it is made of. Pure.

sqlglot reads the text and says where things are. It never writes what an engine gets: its trees do not keep
all that was written, so an expression is always a piece of its author's text.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from common.errors import SqlError

Span = tuple[int, int]
"""Where a part begins in its text, and where it ends, in characters from 0."""

_SPAN, _WRITTEN = "span", "written"
_LIBRARY = logging.getLogger("sqlglot")
_WITHOUT_PARTS = ("_parse_wrapped", "_parse_csv")
"""Methods that read the brackets or commas around a part too."""
_INTERVAL = re.compile(r"\binterval\s+(?:'[^']*'\s*|[+-]?[\w.]+\s+)?$", re.IGNORECASE)
"""The word ``interval``, and perhaps a number, before a unit."""
_BEHIND_TYPES = {TokenType.R_PAREN, TokenType.COMMA, TokenType.GT}
_DEEPEST = 6_000
"""Calls of Python inside of one another while a text is read: some two hundred pairs of brackets."""

_OWN_WORDS = """
    all and anti as asc between by case cast cross current desc distinct else end except exists false
    following from full group having ilike in inner intersect is join lateral left like limit not null nulls
    on or order outer over partition preceding range right rlike rows select semi then true unbounded union
    using view when where with
"""


def _with_span(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def parse(self: Any, *args: Any, **options: Any) -> Any:
        first = self._index
        node = method(self, *args, **options)
        if isinstance(node, exp.Expr) and self._index > first:
            found = self._tokens[first].start, self._tokens[self._index - 1].end + 1
            node.meta[_SPAN] = _around(found, node.meta.get(_SPAN))
        return node

    return parse


def _around(one: Span, other: Span | None) -> Span:
    return one if other is None else (min(one[0], other[0]), max(one[1], other[1]))


class Parser(SparkParser):
    """The library's parser, which also notes the tokens that each node was made of."""

    COLON_IS_VARIANT_EXTRACT = True  # parse_json(text):a.b


for _name in dir(SparkParser):
    if _name.startswith("_parse_") and not _name.startswith(_WITHOUT_PARTS):
        setattr(Parser, _name, _with_span(getattr(SparkParser, _name)))


def tokens_of(sql: str) -> list[Token]:
    """The tokens of a text, without its comments.

    Raises:
        TokenError: A quote is opened and never closed.
    """
    return _as_spark_reads(Dialect.get_or_raise("spark").tokenize(sql))


def parse_text(sql: str, parser: type[Parser] = Parser) -> list[exp.Expr]:
    """The trees of the statements of a text; each node has its span.

    Args:
        sql: The text.
        parser: What makes the trees.

    Raises:
        TokenError: A quote is opened and never closed.
        ParseError: A statement cannot be read; says where.
        SqlError: It cannot be read, and the library does not say where.
    """
    dialect = Dialect.get_or_raise("spark")
    # Keeps a function's name as written: ``percentile_approx`` and ``approx_percentile`` are one class.
    dialect.ORIGINAL_NAME_META_KEY = "name"
    try:
        with _as_library():
            roots = parser(dialect=dialect).parse(tokens_of(sql), sql)
    except (ParseError, TokenError):
        raise
    except RecursionError as error:
        raise SqlError("is nested too deeply to be read; divide it") from error
    except Exception as error:  # of a text that is no SQL the library ends in errors of any type
        raise SqlError("cannot be read; it is no SQL of Spark's") from error
    found = [each for each in roots if each is not None]
    for root in found:
        for node in reversed(list(root.walk())):  # the inner ones first
            _note(node, sql)
    return found


def _note(node: exp.Expr, sql: str) -> None:
    """Note what is known of a node once its parts are."""
    if "start" in node.meta:
        own = int(node.meta["start"]), int(node.meta["end"]) + 1
        node.meta[_SPAN] = _around(own, node.meta.get(_SPAN))
    if isinstance(collation := node.args.get("collate"), exp.Column):
        node.set("collate", collation.this)  # string collate UTF8_LCASE names no column
    for child in node.iter_expressions():
        if (inner := span_of(child)) is not None:
            node.meta[_SPAN] = _around(inner, node.meta.get(_SPAN))
    if isinstance(node, exp.Interval) and (span := span_of(node)) is not None:
        word = _INTERVAL.search(sql, 0, span[0])  # of interval 1 day 2 hours the library forgets it
        node.meta[_SPAN] = span if word is None else (word.start(), span[1])
    if isinstance(node, exp.AggFunc):
        node.meta[_WRITTEN] = text_of(sql, node).partition("(")[0].strip().lower()


@contextmanager
def _as_library() -> Iterator[None]:
    """The library warns of what it would write otherwise elsewhere; nothing that it writes is used."""
    before = _LIBRARY.disabled
    _LIBRARY.disabled = True
    try:
        with in_depth():
            yield
    finally:
        _LIBRARY.disabled = before


@contextmanager
def in_depth() -> Iterator[None]:
    """Trees are read as deep as they are made."""
    deepest = sys.getrecursionlimit()
    sys.setrecursionlimit(max(deepest, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(deepest)


def _as_spark_reads(tokens: list[Token]) -> list[Token]:
    """The tokens, where the library cuts or names some otherwise than Spark does."""
    found: list[Token] = []
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.token_type == TokenType.WINDOW and _is(following, TokenType.L_PAREN):
            token.token_type = TokenType.VAR  # GROUP BY window(at, '1 hour')
        is_shift = [each.text for each in found[-2:]] == [">", ">"] and token.text == ">"
        if is_shift and token.start - found[-2].start == len(">>"):
            ends_a_type = following is None or following.token_type in _BEHIND_TYPES
            if not ends_a_type:
                found[-1].end = token.end  # a >>> b, which the library reads as a >> b
                continue
        found.append(token)
    return found


def _is(token: Token | None, kind: TokenType) -> bool:
    return token is not None and token.token_type == kind


def span_of(node: exp.Expr) -> Span | None:
    """The characters of a node in its text; None for one that the library has added."""
    found = node.meta.get(_SPAN)
    return None if found is None else (int(found[0]), int(found[1]))


def shifted(root: exp.Expr, by: int) -> exp.Expr:
    """A tree whose places are in another text, that begins so many characters later."""
    for node in root.walk():
        if (span := span_of(node)) is not None:
            node.meta[_SPAN] = (span[0] + by, span[1] + by)
    return root


def text_of(sql: str, node: exp.Expr) -> str:
    """The author's text of a node; empty for one that the library has added."""
    start, end = span_of(node) or (0, 0)
    return sql[start:end]


def words_of(sql: str) -> tuple[str, ...]:
    """The tokens of a text as they are written, but the words of SQL's own in small letters.

    A text that has no tokens, because a quote is never closed, is one word.
    """
    try:
        tokens = tokens_of(sql)
    except TokenError:
        return (sql,)
    own = frozenset(_OWN_WORDS.split())
    words: list[str] = []
    for token, before in zip(tokens, [None, *tokens], strict=False):
        word = sql[token.start : token.end + 1]  # ``group  by`` is one token
        is_behind = before is not None and before.end + 1 == token.start
        if is_behind and word[0] in "'\"" and words[-1][-1] == word[0]:
            words[-1] += word  # 'O''Brien', which the library cuts as it does 'O' 'Brien'
        else:
            words.append(word)
    return tuple(
        " ".join(word.lower().split()) if own.issuperset(word.lower().split()) else word for word in words
    )


def name_of_aggregate(node: exp.Expr) -> str:
    """The name by which the author calls an aggregate, in small letters."""
    return str(node.meta.get(_WRITTEN) or node.key)
