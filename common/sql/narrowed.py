"""Relations with the conditions of a statement where the rows come from, as Spark's optimizer has them. Pure.

Spark runs a statement as one plan, in which a condition is checked below the joins that stand above its
table. A change is computed in steps, and none of them may compute an expression for a row that the statement
leaves out: ``cast(s as int)`` would end the query at a text that a later ``s rlike '^[0-9]+$'`` leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import TokenType

from common.sql.expression import with_names
from common.sql.quoting import backquoted
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll, filtered
from common.sql.syntax import fields_in, tokens_of

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
        case RowWise() if relation.where:
            return narrowed(relation.input, [*relation.where, *conditions])
        case RowWise():
            names = dict(relation.kept)
            below, here = _split(conditions, names, names.values())
            inputs = {name.lower(): backquoted(other) for name, other in names.items()}
            inner = narrowed(relation.input, [with_names(each, inputs, is_quoted=True) for each in below])
            return filtered(replace(relation, input=inner), here)
        case Joined():
            own, theirs, kind = relation.left.columns, relation.right.columns, relation.kind
            left, others = _split(conditions, own if kind in _ABOVE_LEFT else ())
            right, here = _split(others, theirs if kind in _ABOVE_RIGHT else ())
            left += _split(relation.conditions, own if kind in _ON_LEFT else ())[0]
            right += _split(relation.conditions, theirs if kind in _ON_RIGHT else ())[0]
            sides = narrowed(relation.left, left), narrowed(relation.right, right)
            return filtered(replace(relation, left=sides[0], right=sides[1]), here)
        case Keyed():
            return filtered(replace(relation, input=narrowed(relation.input)), conditions)
        case UnionAll():
            return filtered(UnionAll(tuple(map(narrowed, relation.inputs))), conditions)
        case Scan():
            return filtered(relation, conditions)


def _split(
    conditions: Sequence[str], columns: Iterable[str], inputs: Iterable[str] = ()
) -> tuple[list[str], list[str]]:
    """The conditions on nothing but some columns, and the others; over inputs no lambda takes one's name."""
    below, others, known = list[str](), list[str](), {column.lower() for column in columns}
    taken = {each.lower() for each in inputs}
    for condition in conditions:
        # Relations have columns in backquotes.
        tokens, fields = tokens_of(condition), fields_in(tokens_of(condition))
        quoted = (each for each in tokens if each.token_type is TokenType.IDENTIFIER)
        named = {each.text.lower() for each in quoted if each.start not in fields}
        words = {each.text.lower() for each in tokens} - named if "->" in condition else set()
        (below if named and named <= known and not words & taken else others).append(condition)
    return below, others
