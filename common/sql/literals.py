"""The values of text literals, letter by letter. Pure."""

from __future__ import annotations

import re
import sys

from common.errors import SqlError
from common.sql.syntax import tokens_of

_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[rR](?:'[^']*'|"[^"]*")""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def value_of(written: str) -> str:
    """The value of text literals as Spark reads them.

    Several side by side are one text, and two quotes without anything between them are a quote.

    Raises:
        SqlError: One has no value that is certain.
    """
    value, last = "", None
    for token in tokens_of(written):
        literal = written[token.start : token.end + 1]
        if last is not None and last[0] == token.start and last[1] == literal[0]:
            value += literal[0]
        value += _value_of(literal)
        last = token.end + 1, literal[-1] if literal[0] == literal[-1] else ""
    return value


def _value_of(written: str) -> str:
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
