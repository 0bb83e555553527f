"""Calls of functions with more or fewer arguments than Spark takes, by the words of a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sqlglot import Token, TokenType
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError

from common.errors import SqlError

_OPENED = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSED = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_BEHIND_A_TABLE = {TokenType.DOT, TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN}
"""Behind these a name with parentheses is a table's with its columns, or none of Spark's functions."""
_NO_VALUES = {TokenType.STAR, TokenType.SELECT, TokenType.FROM, TokenType.DISTINCT, TokenType.DCOLON}

ARGUMENTS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(
        ("sum", "avg", "mean", "max", "min", "stddev", "variance", "abs", "sqrt", "upper", "lower", "length"),
        (1, 1),
    ),
    **dict.fromkeys(("year", "month", "day", "quarter", "last_day"), (1, 1)),
    **dict.fromkeys(("bool_and", "bool_or", "count_if", "every", "some"), (1, 1)),
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "size", "map_keys", "map_values"), (1, 1)),
    **dict.fromkeys(("collect_list", "collect_set", "isnull", "isnotnull", "reverse", "initcap"), (1, 1)),
    **dict.fromkeys(("nullif", "nvl", "ifnull", "pmod", "mod"), (2, 2)),
    **dict.fromkeys(("date_sub", "date_trunc", "add_months", "next_day", "trunc"), (2, 2)),
    "date_add": (2, 3),  # date_add(day, 1, at) too
    **dict.fromkeys(("array_contains", "date_format", "from_utc_timestamp", "to_utc_timestamp"), (2, 2)),
    **dict.fromkeys(("startswith", "endswith", "contains"), (2, 2)),
    **dict.fromkeys(("max_by", "min_by"), (2, 3)),  # max_by(x, y, 2): the two greatest
    "nvl2": (3, 3),
    "replace": (2, 3),
    "row_number": (0, 0),
    **dict.fromkeys(("round", "sort_array"), (1, 2)),
    **dict.fromkeys(("substring", "substr", "split", "regexp_extract", "lpad", "rpad"), (2, 3)),
    **dict.fromkeys(("lag", "lead"), (0, 3)),
    "if": (3, 3),
    "months_between": (2, 3),
    "percentile": (2, 3),
    "split_part": (3, 3),
}
"""The least and the most arguments of functions."""


def count_mistakes(sql: str) -> Iterator[SqlError]:
    """The calls of a text, which the parser need not understand, with a wrong number of arguments."""
    try:
        tokens = Dialect.get_or_raise("spark").tokenize(sql)
    except TokenError:
        return
    for place, (token, following) in enumerate(pairwise(tokens)):
        name = token.text.lower()
        is_call = following.token_type == TokenType.L_PAREN and token.text == sql[token.start : token.end + 1]
        is_behind = place > 0 and tokens[place - 1].token_type in _BEHIND_A_TABLE
        if name not in ARGUMENTS or not is_call or is_behind:
            continue
        given = _given(tokens, place + 2)
        least, most = ARGUMENTS[name]
        if given is not None and not least <= given <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            text = f"calls {name}() with {given} argument{'' if given == 1 else 's'}; it takes {wanted}"
            yield SqlError(text, name, at=int(token.start), code="MED-1207")


def _given(tokens: Sequence[Token], first: int) -> int | None:
    """How many arguments follow; None where they are no list of values."""
    depth, commas, is_empty = 0, 0, True
    for place, token in enumerate(tokens[first:], first):
        if depth == 0 and token.token_type == TokenType.R_PAREN:
            after = [each.token_type for each in tokens[place + 1 : place + 3]]
            is_query = after == [TokenType.ALIAS, TokenType.L_PAREN]  # WITH max (a, b) AS (SELECT …)
            return None if is_query else 0 if is_empty else commas + 1
        if depth == 0 and token.token_type in _NO_VALUES:
            return None
        is_empty = False
        commas += depth == 0 and token.token_type == TokenType.COMMA
        depth += token.token_type in _OPENED
        depth -= token.token_type in _CLOSED
    return None
