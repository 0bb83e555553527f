"""One statement, or one expression, as a tree; and what is said in words of a text that is none. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from common.errors import SqlError, closest
from common.sql.syntax import arguments, called, calls_of, offset_of, parse_text, text_of, tokens_of

_NEVER_CLOSED = "opened and never closed; the pairs are '…', \"…\", `…` and /* … */"
_ODD = "write a name with odd letters in backquotes"
_BEGINNINGS = ("select", "with")
_MISSING = "an operator, a comma or a bracket is missing there, or a name needs backquotes: `…`"
_HINTS = {"Expected TYPE": "it is no type of Spark's", "Expected END": "a case ends with 'end'"}
"""What is meant by words of the library."""


@lru_cache(maxsize=16)  # a check and a start read a text several times; nobody changes its tree
def statement(sql: str) -> exp.Query:
    """The syntax tree of a statement.

    Raises:
        SqlError: The text is not one SELECT statement; names line, column and word.
    """
    try:
        tokens = tokens_of(sql)
        piped = next((each.start for each in tokens if each.token_type == TokenType.PIPE_GT), None)
        if piped is not None:
            raise SqlError("has |>, which a view does not take; write SELECT with its clauses", at=piped)
        found = parse_text(sql, tokens)
    except TokenError as error:
        opened = re.search(r"from \d+:(\d+)", str(error.__cause__))
        raise SqlError(
            f"has a quote that is {_NEVER_CLOSED}", at=int(opened[1]) if opened else None
        ) from error
    except ParseError as error:
        raise _explained(error, sql) from error
    if len(found) != 1:
        second = offset_of(found[1]) if found else None
        raise SqlError("is not one statement; write one SELECT", at=second)
    (root,) = found
    if not isinstance(root, exp.Query):
        raise SqlError("is no SELECT; a view is what a SELECT returns", at=_first_word(sql))
    for node in root.find_all(exp.Select, exp.Table, exp.Command):
        if isinstance(node, exp.Table):
            _refuse_changing(node, sql)
            continue
        _refuse_strange(node, sql)
        node.set("hint", None)  # a hint names tables too, and changes no row
        if (qualify := node.args.get("qualify")) is not None:
            raise SqlError(
                "has QUALIFY, which Spark does not know; name the window function in a derived table and "
                "write its condition into the WHERE around it",
                at=offset_of(qualify),
            )
    return root


def _refuse_strange(node: exp.Expr, sql: str) -> None:
    if isinstance(node, exp.Command | exp.Parameter | exp.Placeholder):
        raise SqlError(f"cannot be read at {text_of(sql, node)!r}; {_ODD}", at=offset_of(node))


def _refuse_changing(table: exp.Table, sql: str) -> None:
    shown, at = text_of(sql, table), offset_of(table)
    if table.args.get("sample"):
        raise SqlError(f"reads {shown}, which chooses rows by chance; choose them by a condition", at=at)
    if table.args.get("version"):
        raise SqlError(f"reads {shown}; a view follows the newest version, so leave it out", at=at)
    if table.db.lower() == "delta" and "/" not in table.name:
        raise SqlError(
            f"reads delta.`{table.name}`, which is no path; write delta.`/lake/orders`, or a URI such as "
            "delta.`s3a://lake/orders`",
            at=at,
        )


def _explained(error: ParseError, sql: str) -> SqlError:
    begun = _first_word(sql)
    first = re.match(r"\w*", sql[begun:])
    if first and first[0].lower() not in _BEGINNINGS and (meant := closest(first[0], _BEGINNINGS)):
        text = f"cannot be read at {first[0]!r}; did you mean {meant!r}?"
        return SqlError(text, first[0], at=begun)
    word, at, reason, is_last = _place(error, sql)
    is_short = is_last and not reason.startswith("Invalid expression")
    hint = "something is missing behind it" if is_short else _hint(reason)
    return SqlError(f"cannot be read at {word!r}; {hint}", word, at=at)


def _place(error: ParseError, sql: str) -> tuple[str, int, str, bool]:
    """The word at which the library cannot go on, its place, why, and whether nothing follows it."""
    fault = error.errors[0] if error.errors else {}
    word, reason = str(fault.get("highlight", "")), str(fault.get("description", ""))
    line, end = int(fault.get("line", 1) or 1), int(fault.get("col", 1) or 1)
    before = sum(len(each) + 1 for each in sql.split("\n")[: line - 1])
    is_last = not str(fault.get("end_context", "")).strip()
    return word, before + max(0, end - len(word)), reason, is_last


def _hint(reason: str) -> str:
    return next((hint for words, hint in _HINTS.items() if reason.startswith(words)), _MISSING)


def _first_word(sql: str) -> int:
    """Where a text begins behind white space and comments."""
    found = re.match(r"(?:\s+|--[^\n]*(?:\n|$)|/\*[\s\S]*?\*/)*", sql)
    return found.end() if found else 0


def newest_by_one_value(sql: str) -> tuple[str, ...]:
    """The calls of ``max_by`` and ``min_by`` that order by one value, of which rows may be equal; each once.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    calls = (each for name, each in calls_of(statement(sql)) if name in {"max_by", "min_by"})
    by = ((each, next(iter(arguments(each)[1:]), each)) for each in calls)
    return tuple(dict.fromkeys(text_of(sql, each) for each, one in by if called(one) != "struct"))


# Expressions


def expression(sql: str) -> exp.Expr:
    """The syntax tree of one SQL expression.

    Raises:
        SqlError: The text is not one expression; names the word at which parsing fails.
    """
    if not sql.strip():
        raise SqlError("is empty; write a SQL expression")
    if any("\ud800" <= letter <= "\udfff" for letter in sql):
        raise SqlError("has a lone surrogate, which is no character; leave it out")
    try:
        tokens = tokens_of(sql)
        # In brackets the text cannot be a statement.
        roots = parse_text(sql, [*_bracket("(", -1), *tokens, *_bracket(")", len(sql))])
    except TokenError as error:
        raise SqlError(f"a quote is {_NEVER_CLOSED}") from error
    except ParseError as error:
        raise _explained_part(error, sql) from error
    if len(roots) != 1:
        raise SqlError("is more than one expression; write one")
    (root,) = roots
    if isinstance(root, exp.Subquery):
        return root
    if not isinstance(root, exp.Paren):
        raise SqlError("is a list of expressions; write one, or struct(…) of them")
    _refuse_odd_names(root, sql)
    if "--" in sql and len(tokens_of(f"{sql})")) == len(tokens):
        # The engine also puts the text in brackets, on one line.
        raise SqlError("ends in a comment (--), which would hide what follows; leave it out")
    inner: exp.Expr = root.this
    return inner


def _bracket(sign: str, at: int) -> Iterator[Token]:
    kind = TokenType.L_PAREN if sign == "(" else TokenType.R_PAREN
    yield Token(kind, sign, line=1, col=at + 1, start=at, end=at)


def _refuse_odd_names(root: exp.Expr, sql: str) -> None:
    for name in root.find_all(exp.Identifier, exp.Command, exp.Parameter, exp.Placeholder):
        _refuse_strange(name, sql)
        if not name.args.get("quoted") and not name.name.isascii():
            raise SqlError(f"has the name {name.name}; one with other letters than a to z needs backquotes")


def _explained_part(error: ParseError, sql: str) -> SqlError:
    word, at, reason, _ = _place(error, sql)
    if not word:  # at the bracket behind the text
        if reason.startswith("Invalid expression"):
            return SqlError("has a ')' too many")
        missing = "a ')' is missing" if reason.startswith("Expecting )") else "something is missing"
        return SqlError(f"ends too early: {missing} at its end")
    if sql[at + len(word) :].lstrip().startswith(";"):
        return SqlError("has a ';' in it; write one expression and leave it out")
    line, column = sql[:at].count("\n") + 1, at - (sql[:at].rfind("\n") + 1) + 1
    where = f"line {line}, column {column}" if "\n" in sql else f"column {column}"
    return SqlError(f"cannot be read at {word!r} ({where}); {_hint(reason)}", word)
