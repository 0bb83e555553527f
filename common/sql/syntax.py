"""The syntax tree of a text in Spark's SQL, with the characters that each part of it is made of. Pure.

sqlglot reads the text and says where things are. It never writes what an engine gets: its trees do not keep
all that was written, so an expression is always a piece of its author's text. A call is a name and its
arguments in their order: the library's classes of functions are those of other dialects.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from threading import RLock
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser as AnyParser
from sqlglot.parsers.spark import SparkParser

from common.errors import SqlError

Span = tuple[int, int]
"""Where a part begins in its text, and where it ends, in characters from 0."""

_SPAN, _WRITTEN = "span", "written"
_LIBRARY = logging.getLogger("sqlglot")
_WITHOUT_SPANS = (
    *("_parse_wrapped", "_parse_csv", "_parse_assignment", "_parse_disjunction", "_parse_conjunction"),
    *("_parse_equality", "_parse_comparison", "_parse_bitwise", "_parse_term", "_parse_factor"),
)
"""Methods that read the brackets or commas around a part too, or whose parts are at both ends of theirs."""
_INTERVAL = re.compile(r"\binterval\s+(?:'[^']*'\s*|[+-]?[\w.]+\s+)?$", re.IGNORECASE)
"""The word ``interval``, and perhaps a number, before a unit."""
_GOES_ON = re.compile(r"--[^\r\n]*\\\n")
_ALSO_FUNCTIONS = {TokenType.WINDOW, TokenType.STRUCT}
"""Words that begin a clause or a type, and before a bracket are a call: ``group by window(at, '1 hour')``."""
_BEFORE_OPERANDS = {
    *(TokenType.SELECT, TokenType.WHERE, TokenType.HAVING, TokenType.ON, TokenType.AND, TokenType.OR),
    *(TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.COMMA, TokenType.L_PAREN),
}
"""Behind these the word between is no operator."""
_BEFORE_FIELDS = {TokenType.DOT, TokenType.COLON}
_NOT_FIELDS = frozenset({"case", "not"})
_TYPES = AnyParser.TYPE_TOKENS - {TokenType.VAR, TokenType.IDENTIFIER}
_BEHIND_TYPES = {TokenType.R_PAREN, TokenType.COMMA, TokenType.GT}
_DEEPEST_TEXT, _DEEPEST_TREE = 6_000, 60_000
"""Calls inside of one another while a text is read: some hundred pairs of brackets; and while its tree
is: some ten thousand operators in a row."""
_ONE_READER = RLock()
"""The limit is of all threads, so one of them reads at a time."""
_TOO_DEEP = "is nested too deeply to be read; divide it"

_WITH_A_GRAMMAR = {"CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM"}
"""Functions whose arguments may be parted by words."""
_COUNTING = frozenset({"date_add", "dateadd", "date_diff", "datediff", "timestampadd", "timestampdiff"})
"""Functions that take a unit as their first of three arguments, as a word without quotes."""
_OWN_WORDS = """
    all and anti as asc between by case cast cross current desc distinct else end except exists false
    following from full group having ilike in inner intersect is join lateral left like limit not null nulls
    on or order outer over partition preceding range right rlike rows select semi then true unbounded union
    using view when where with
"""


_CONSTANTS = {TokenType.NULL, TokenType.TRUE, TokenType.FALSE}
_BEHIND_OPERANDS = frozenset({"asc", "desc", "end", "following", "preceding"})
"""Words that end a part behind an operand; any other that does is its alias."""
_OPERANDS = {
    *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.END),
    *(TokenType.R_PAREN, TokenType.R_BRACKET),
}


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


class _Parser(SparkParser):
    """The library's parser, which also notes the tokens that each node was made of."""

    COLON_IS_VARIANT_EXTRACT = True  # parse_json(text):a.b
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in SparkParser.FUNCTION_PARSERS.items() if name in _WITH_A_GRAMMAR
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    SUBQUERY_PREDICATES: ClassVar[dict[TokenType, Any]] = {TokenType.EXISTS: exp.Exists}


for _name in dir(SparkParser):
    if _name.startswith("_parse_") and not _name.startswith(_WITHOUT_SPANS):
        setattr(_Parser, _name, _with_span(getattr(SparkParser, _name)))
# Spark's own one makes texts of char(3), and for that reads each type once for each that it is inside of.
setattr(_Parser, "_parse_types", _with_span(AnyParser._parse_types))  # noqa: B010, SLF001


def tokens_of(sql: str) -> list[Token]:
    """The tokens of a text, without its comments.

    Raises:
        TokenError: A quote is opened and never closed.
    """
    return _as_spark_reads(Dialect.get_or_raise("spark").tokenize(sql))


def fields_in(tokens: Sequence[Token]) -> set[int]:
    """Where the words begin that stand behind a dot or a colon, and so are no columns."""
    return {after.start for each, after in pairwise(tokens) if each.token_type in _BEFORE_FIELDS}


def parse_text(sql: str, tokens: list[Token] | None = None) -> list[exp.Expr]:
    """The trees of the statements of a text, of its tokens where some are added; each node has its span.

    Raises:
        TokenError: A quote is opened and never closed.
        ParseError: A statement cannot be read; says where.
        SqlError: It cannot be read, and the library does not say where.
    """
    try:
        with _as_library():
            read = tokens_of(sql) if tokens is None else tokens
            _refuse_long_comments(sql, read)
            roots = _Parser(dialect="spark").parse(read, sql)
    except (ParseError, TokenError, SqlError):
        raise
    except Exception as error:  # of a text that is no SQL the library ends in errors of any type
        raise SqlError("cannot be read; it is no SQL of Spark's") from error
    found = [each for each in roots if each is not None and not isinstance(each, exp.Semicolon)]
    for root in found:
        for node in reversed(list(root.walk())):  # the inner ones first
            _note(node, sql)
    return found


def _refuse_long_comments(sql: str, tokens: list[Token]) -> None:
    done = 0
    for token in tokens:
        if (found := _GOES_ON.search(sql, done, token.start)) is not None:
            text = "has a comment (--) that ends with \\, so that Spark takes the next line for one too"
            raise SqlError(f"{text}; leave \\ out", at=found.start())
        done = token.end + 1


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
        begin = span[0] if word is None else word.start()
        node.meta[_SPAN] = begin, span[1]
        is_first = sql[begin : begin + len("interval")].lower() == "interval"  # 1 day 2 hours are two
        node.meta[_WRITTEN] = sql[begin:] if is_first else ""
    if isinstance(node, exp.DataType):
        text = text_of(sql, node)
        node.meta[_WRITTEN] = "" if text[:1].isdigit() else text


@contextmanager
def _as_library() -> Iterator[None]:
    """The library warns of what it would write otherwise elsewhere; nothing that it writes is used."""
    before = _LIBRARY.disabled
    _LIBRARY.disabled = True
    try:
        with in_depth(_DEEPEST_TEXT):
            yield
    finally:
        _LIBRARY.disabled = before


@contextmanager
def in_depth(deepest: int = _DEEPEST_TREE) -> Iterator[None]:
    """Trees are read as deep as they are made.

    Raises:
        SqlError: What is read inside is nested more deeply.
    """
    with _ONE_READER:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, deepest))
        try:
            yield
        except RecursionError as error:
            raise SqlError(_TOO_DEEP) from error
        finally:
            sys.setrecursionlimit(before)


def _as_spark_reads(tokens: list[Token]) -> list[Token]:
    """The tokens, where the library cuts or names some otherwise than Spark does."""
    found: list[Token] = []
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if _is(following, TokenType.L_PAREN) and (
            token.token_type in _ALSO_FUNCTIONS or (_is(token, TokenType.BETWEEN) and _begins_operand(found))
        ):
            token.token_type = TokenType.VAR
        before = found[-1] if found else token
        if _is(token, TokenType.STRING) and (before.token_type, before.text.lower()) == (TokenType.VAR, "x"):
            # X '1F', which the library reads without a blank alone
            before.token_type, before.text, before.end = TokenType.HEX_STRING, token.text, token.end
            continue
        is_shift = [each.text for each in found[-2:]] == [">", ">"] and token.text == ">"
        if is_shift and token.start - found[-2].start == len(">>"):
            ends_a_type = following is None or following.token_type in _BEHIND_TYPES
            if not ends_a_type:
                found[-1].end = token.end  # a >>> b, which the library reads as a >> b
                continue
        found.append(token)
    return found


def _begins_operand(before: list[Token]) -> bool:
    """Whether an operand begins behind some tokens: ``where not between(a, 1, 2)``."""
    last = next((each for each in reversed(before) if each.token_type != TokenType.NOT), None)
    return last is None or last.token_type in _BEFORE_OPERANDS


def _is(token: Token | None, kind: TokenType) -> bool:
    return token is not None and token.token_type == kind


# Places


def span_of(node: exp.Expr) -> Span | None:
    """The characters of a node in its text; None for one that the library has added."""
    found = node.meta.get(_SPAN)
    return None if found is None else (int(found[0]), int(found[1]))


def offset_of(node: exp.Expr) -> int | None:
    """Where a node begins in its text; None if it is not known."""
    span = span_of(node)
    return None if span is None else span[0]


def text_of(sql: str, node: exp.Expr) -> str:
    """The author's text of a node; empty for one that the library has added."""
    start, end = span_of(node) or (0, 0)
    return sql[start:end]


def replaced(sql: str, pieces: Mapping[int, tuple[int, str]], span: Span | None = None) -> str:
    """A text, or a span of it, with other words for some pieces; a piece inside of another one is left out.

    ``pieces`` has, by where a piece begins, where it ends and what stands instead.
    """
    texts: list[str] = []
    done, end = span or (0, len(sql))
    for at in sorted(pieces):
        if done <= at < end:
            texts += [sql[done:at], pieces[at][1]]
            done = pieces[at][0]
    return "".join([*texts, sql[done:end]])


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
    for token, before, after in zip(tokens, [None, *tokens], [*tokens[1:], None], strict=False):
        word = sql[token.start : token.end + 1]  # ``group  by`` and ``grouping  sets`` are one token
        is_behind = before is not None and before.end + 1 == token.start
        if is_behind and word[0] in "'\"" and words[-1][-1] == word[0]:
            words[-1] += word  # 'O''Brien', which the library cuts as it does 'O' 'Brien'
        elif len(parts := word.lower().split()) > 1 and all(map(str.isalpha, parts)):
            words.append(" ".join(parts))
        elif word.lower() in own and not _is_name(before, token, after):
            words.append(word.lower())
        else:
            words.append(word)
    return tuple(words)


def _is_name(before: Token | None, token: Token, after: Token | None) -> bool:
    """Whether a word of SQL's own is a name, whose letters may get into a value: ``struct(a as On)``."""
    word, kind = token.text.lower(), None if after is None else after.token_type
    around = [each.text.lower() if each is not None else "" for each in (before, after)]
    is_alone = around[0] in {"(", ","} and around[1] in {")", ","}
    is_alias = before is not None and before.token_type in _OPERANDS and around[1] in {")", ",", "from", ""}
    is_field = around[0] in {"<", ","} and kind in _TYPES and word not in _NOT_FIELDS
    return (
        around[0] in {".", ":", "as"}
        or around[1] == ":"
        or is_field
        or (is_alone and token.token_type not in _CONSTANTS)
        or (is_alias and word not in _BEHIND_OPERANDS)
    )


# Calls


_PARTED: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Trim: ("trim", ("this",)),
    exp.StrPosition: ("position", ("substr", "this", "position")),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
}
"""Functions that have a class, as their arguments may be parted by words: name and arguments."""
WRAPPED = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


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


def calls_of(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The calls of functions in an expression: the name of each, lower-case, and its node."""
    return ((name, each) for each in node.walk() if (name := called(each)) is not None)


def inner_call(node: exp.Expr) -> exp.Expr:
    """The call inside of ``over``, ``filter`` and ``within group``."""
    while isinstance(node, (exp.Window, *WRAPPED)):
        node = node.this
    return node


def is_over(call: exp.Expr) -> bool:
    """Whether a call has ``over (…)``."""
    around = call.parent
    while isinstance(around, WRAPPED):
        around = around.parent
    return isinstance(around, exp.Window) and inner_call(around) is call


def counted_unit(node: exp.Expr) -> exp.Expr | None:
    """The unit of a call such as ``date_add(day, 1, at)``, which the parser takes for a column."""
    given = arguments(node) if called(node) in _COUNTING else []
    is_unit = len(given) == 3 and isinstance(given[0], exp.Column) and len(given[0].parts) == 1  # noqa: PLR2004
    return given[0] if is_unit else None


def from_interval(node: exp.Expr) -> str:
    """The text that begins with an interval; empty for a further unit of one that has begun before."""
    return str(node.meta.get(_WRITTEN, ""))


def written_type(node: exp.Expr) -> str:
    """The type of a cast, as its author wrote it; empty for one of a letter, as in ``1.5BD``."""
    return str(node.args["to"].meta.get(_WRITTEN, ""))
