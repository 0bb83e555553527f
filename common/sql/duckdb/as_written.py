"""Spark SQL as a syntax tree in which functions keep their names, and literals their values. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from common.errors import SqlError

_OF_THEIR_OWN = ("CAST", "TRY_CAST", "EXTRACT")
"""Functions whose arguments have a grammar of their own; all others are a name and a list."""


class _AsWritten(Spark):
    """Spark's SQL as it is written: the library gives no function another name, form or order."""

    class Parser(SparkParser):
        """Reads every function by its name."""

        STRICT_CAST = True
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkParser.FUNCTION_PARSERS[name] for name in _OF_THEIR_OWN
        }


_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[rR](?:'[^']*'|"[^"]*")""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_TEXTS = {TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING}


def parsed(sql: str) -> tuple[exp.Expr, Mapping[str, str]]:
    """The syntax tree, in which each text literal is a name, and the value of each name.

    Raises:
        SqlError: The text cannot be read, or a literal has no value that is certain.
    """
    dialect, texts = _AsWritten(), dict[str, str]()
    pieces: list[str] = []
    done, last = 0, None
    try:
        for token in dialect.tokenize(sql):
            if token.token_type not in _TEXTS:
                last = None
                continue
            written = sql[token.start : token.end + 1]
            if last is None:
                pieces += [sql[done : token.start], f"'t{len(texts)}'"]
                texts[f"t{len(texts)}"] = text_of(written)
            else:  # literals side by side are one, and two quotes without anything between them are a quote
                is_quote = token.start == last.end + 1 and sql[last.start] == sql[last.end] == written[0]
                texts[f"t{len(texts) - 1}"] += (written[0] if is_quote else "") + text_of(written)
            done, last = token.end + 1, token
        found = [each for each in dialect.parse("".join([*pieces, sql[done:]])) if each is not None]
    except (ParseError, TokenError, RecursionError) as error:
        raise SqlError("cannot be read for DuckDB") from error
    if len(found) != 1:
        raise SqlError("is more than one statement")
    return found[0], texts


def text_of(written: str) -> str:
    """The value of a text literal as Spark reads it.

    Raises:
        SqlError: It has no value that is certain.
    """
    if _LITERAL.fullmatch(written) is None:
        raise SqlError(f"has {written[:60]}, a literal that is not translated")
    if written[0] in "rR":
        return written[2:-1]
    found = _ESCAPE.sub(_unescaped, written[1:-1])
    try:  # two escapes may be one letter beyond 0xFFFF
        return found.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise SqlError(f"has {written[:60]}, in which half of a letter stands") from None


def _unescaped(found: re.Match[str]) -> str:
    four, eight, octal, letter = found.groups()
    if letter is not None:
        return _ESCAPED.get(letter, letter)
    code = int(octal, 8) if octal else int(four or eight, 16)
    if code > sys.maxunicode:
        raise SqlError(f"has {found.group()}, which is no letter")
    return chr(code)
