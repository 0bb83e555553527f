"""Relations with the conditions of a statement where the rows come from, as Spark's optimizer has them. Pure.

Spark runs a statement as one plan, in which a condition is checked below the joins that stand above its
table. A change is computed in steps, and none of them may compute an expression for a row that the statement
leaves out: ``cast(s as int)`` would end the query at a text that a later ``s rlike '^[0-9]+$'`` leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import Token, TokenType

from common.sql.quoting import backquoted
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll, filtered
from common.sql.syntax import tokens_of

_WHERE = "WHERE "
_OPENS = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
_CLOSES = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})
_OR = frozenset({TokenType.OR, TokenType.XOR, TokenType.DAMP})

_ABOVE_LEFT = frozenset({"inner", "cross", "left", "semi", "anti"})
_ABOVE_RIGHT = frozenset({"inner", "cross", "right"})
"""Kinds of joins: a condition above that is on one side leaves out the same rows below."""

_ON_LEFT = frozenset({"inner", "right", "semi"})
_ON_RIGHT = frozenset({"inner", "left", "semi", "anti"})
"""Kinds of joins: a part of ON that is on one side leaves out the same matches below."""


def narrowed(relation: Relation, conditions: Sequence[str] = ()) -> Relation:
    """The relation's rows that meet some conditions over its columns; each, and its own, as low as may be.

    A condition goes below joins, generators and renamed columns. It stays above a union, where a column may
    be of a wider type, and above what follows from all rows of a key.
    """
    match relation:
        case RowWise(select=None) if relation.rest.startswith(_WHERE):
            own = _parts(relation.rest.removeprefix(_WHERE))
            return narrowed(relation.input, [*own, *conditions])
        case RowWise():
            names = dict(relation.kept)
            below, here = _split(conditions, names)
            inner = narrowed(relation.input, [_renamed(each, names) for each in below])
            return filtered(replace(relation, input=inner), here)
        case Joined():
            on = () if relation.on is None else tuple(_parts(relation.on))
            left, others = _split(conditions, relation.left.columns if relation.kind in _ABOVE_LEFT else ())
            right, here = _split(others, relation.right.columns if relation.kind in _ABOVE_RIGHT else ())
            on_left, _ = _split(on, relation.left.columns if relation.kind in _ON_LEFT else ())
            on_right, _ = _split(on, relation.right.columns if relation.kind in _ON_RIGHT else ())
            sides = narrowed(relation.left, [*left, *on_left]), narrowed(relation.right, [*right, *on_right])
            return filtered(replace(relation, left=sides[0], right=sides[1]), here)
        case Keyed():
            return filtered(replace(relation, input=narrowed(relation.input)), conditions)
        case UnionAll():
            return filtered(UnionAll(tuple(map(narrowed, relation.inputs))), conditions)
        case Scan():
            return filtered(relation, conditions)


def _split(conditions: Sequence[str], columns: Collection[str]) -> tuple[list[str], list[str]]:
    """The conditions on nothing but some columns, and the others."""
    below, others = list[str](), list[str]()
    for condition in conditions:
        named = {token.text for token in _columns(condition)}
        (below if named and named <= set(columns) else others).append(condition)
    return below, others


def _renamed(condition: str, names: Mapping[str, str]) -> str:
    """A condition over other names of its columns."""
    text, begin = "", 0
    for token in _columns(condition):
        text += condition[begin : token.start] + backquoted(names[token.text])
        begin = token.end + 1
    return text + condition[begin:]


def _columns(condition: str) -> Iterator[Token]:
    """The words of a condition that are columns: relations have them in backquotes, fields behind a dot."""
    before = None
    for token in tokens_of(condition):
        if token.token_type is TokenType.IDENTIFIER and before is not TokenType.DOT:
            yield token
        before = token.token_type


def _parts(condition: str) -> Iterator[str]:
    """The conditions that one joins by AND, in its order; itself where it joins by OR."""
    tokens = tokens_of(condition)
    depths = _depths(tokens)
    if tokens[0].token_type is TokenType.L_PAREN and 0 not in depths[1:-1]:
        yield from _parts(condition[tokens[1].start : tokens[-2].end + 1])
        return
    first, ranges, cuts = 0, 0, list[tuple[int, int]]()
    for place, token in enumerate(tokens):
        if depths[place]:
            continue
        if token.token_type in _OR:
            cuts, first = [], 0
            break
        ranges += token.token_type is TokenType.BETWEEN
        if token.token_type is TokenType.AND and not ranges:
            cuts.append((first, place))
            first = place + 1
        ranges -= token.token_type is TokenType.AND and ranges > 0
    for begin, end in [*cuts, (first, len(tokens))]:
        part = condition[tokens[begin].start : tokens[end - 1].end + 1]
        yield from _parts(part) if cuts else (part,)


def _depths(tokens: Sequence[Token]) -> list[int]:
    """How many brackets and CASEs each token is in; the brackets themselves are outside of theirs."""
    depth, found = 0, []
    for token in tokens:
        depth -= token.token_type in _CLOSES
        found.append(depth)
        depth += token.token_type in _OPENS
    return found
