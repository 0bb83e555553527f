"""Relations that are composed of simpler ones: set operations, sets of groups, queries as values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import combinations, product

from sqlglot import exp

from common.sql.functions import AGGREGATES
from common.sql.quoting import backquoted
from common.sql.relations import Inexact, Joined, Keyed, Kind, Relation, RowWise, UnionAll
from common.sql.syntax import called, inner_call, words_of

_NULL_OF_NONE = frozenset({"sum", "avg", "mean", "min", "max"})
_ZERO_OF_NONE = frozenset({"count", "count_if"})
"""Aggregates that give null, or 0, where there is no row."""

_KEEPS_NULL = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren, exp.Cast)
"""What is null where one of its operands is."""

_OF_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


class WholeError(Exception):
    """A part of a statement has no delta rule, so all of it is computed whole. The message says why."""


def same(one: str, other: str) -> bool:
    """Whether two expressions are made of the same tokens, but for the letters of names."""
    if one == other:
        return True
    plain, beside = ("".join(each.split()).lower() for each in (one, other))
    return plain == beside and _in_any_letters(one) == _in_any_letters(other)


def _in_any_letters(text: str) -> Sequence[str]:
    words = words_of(text)
    # What stands behind a dot or a colon may be the key of a map or of a variant.
    return [
        word if word[-1:] in {"'", '"'} or before in {".", ":"} else word.lower()
        for before, word in zip(("", *words), words, strict=False)
    ]


def renamed(relation: Relation, names: tuple[tuple[str, str], ...]) -> Relation:
    """A relation with other names of its columns: each as it was, and as it is to be."""
    if all(before == now for before, now in names) and tuple(now for _, now in names) == relation.columns:
        return relation
    listed = ", ".join(f"{backquoted(before)} AS {backquoted(now)}" for before, now in names)
    kept = tuple((now, before) for before, now in names)
    return RowWise(relation, listed, "", tuple(now for _, now in names), kept)


def distinct(relation: Relation) -> Relation:
    """The rows of a relation, equal ones once."""
    columns = relation.columns
    keys = tuple(f"`{name}`" for name in columns)
    shown = tuple((name, place) for place, name in enumerate(columns))
    return Keyed(relation, "distinct", keys, "SELECT DISTINCT * FROM __in0__", columns, shown)


def in_both(left: Relation, right: Relation, kind: Kind) -> Relation:
    """INTERSECT (``semi``) and EXCEPT (``anti``): rows of the left, once, that the right has, or has not."""
    pairs = tuple(
        (backquoted(one), backquoted(other)) for one, other in zip(left.columns, right.columns, strict=True)
    )
    return Joined(distinct(left), right, kind, tuple(f"{one} <=> {other}" for one, other in pairs), pairs)


def repeated_in_both(left: Relation, right: Relation, side: str, times: str, *, is_common: bool) -> Relation:
    """INTERSECT ALL and EXCEPT ALL: each row as often as both have it, or as the left has it oftener.

    The copies of one row are made at once, by a generator: hundreds of millions of one are too many.

    Args:
        left: The relation whose names the columns have.
        right: The other one.
        side: The name of a column that no relation has.
        times: That of another one.
        is_common: Whether rows of both are meant.
    """
    sides = []
    for relation, is_left in ((left, "true"), (right, "false")):
        kept = tuple((name, name) for name in relation.columns)
        listed = ", ".join(backquoted(name) for name in relation.columns)
        sides.append(
            RowWise(relation, f"{listed}, {is_left} AS `{side}`", "", (*relation.columns, side), kept)
        )
    keys = tuple(backquoted(name) for name in left.columns)
    shown, mine, theirs = ", ".join(keys), f"count_if(`{side}`)", f"count_if(NOT `{side}`)"
    number = f"least({mine}, {theirs})" if is_common else f"{mine} - {theirs}"
    text = (
        f"SELECT {shown} FROM (SELECT {shown}, {number} AS `{times}` FROM __in0__ GROUP BY {shown}) "  # noqa: S608
        f"LATERAL VIEW explode(if(`{times}` > 0, sequence(1L, `{times}`), array())) AS `{side}`"
    )
    columns = tuple((name, place) for place, name in enumerate(left.columns))
    made_of = "" if is_common else side
    return Keyed(UnionAll(tuple(sides)), "group", keys, text, left.columns, columns, made_of=made_of)


# Sets of groups


def grouping_sets(group: exp.Expr, place: Callable[[exp.Expr], int]) -> list[list[int]] | None:
    """The sets of a GROUP BY, each by the places of its keys; None where it has no sets.

    Args:
        place: Gives the place of a key among all keys; called in the order of the text.
    """
    behind = [each for key in ("rollup", "cube", "grouping_sets") for each in group.args.get(key) or ()]
    if not behind and not any(isinstance(each, _OF_SETS) for each in group.expressions):
        return None
    if not behind:
        parts = [_sets(each, place) for each in group.expressions]
        return [list(dict.fromkeys(key for each in some for key in each)) for some in product(*parts)]
    if len(behind) > 1 or any(isinstance(each, _OF_SETS) for each in group.expressions):
        raise WholeError("GROUP BY with several kinds of sets")
    keys = [_keys(each, place) for each in group.expressions]
    return _sets(behind[0], place) if behind[0].expressions else _of_units(behind[0], keys)


def _sets(node: exp.Expr, place: Callable[[exp.Expr], int]) -> list[list[int]]:
    if isinstance(node, exp.GroupingSets):
        return [each for one in node.expressions for each in _sets(one, place)]
    if isinstance(node, exp.Rollup | exp.Cube):
        return _of_units(node, [_keys(each, place) for each in node.expressions])
    return [_keys(node, place)]


def _of_units(node: exp.Expr, units: Sequence[Sequence[int]]) -> list[list[int]]:
    """The sets of a ROLLUP or a CUBE; several keys in brackets are one unit."""
    sizes = range(len(units), -1, -1)
    chosen: Iterator[Sequence[Sequence[int]]] = (
        (units[:size] for size in sizes)
        if isinstance(node, exp.Rollup)
        else (some for size in sizes for some in combinations(units, size))
    )
    return [[key for unit in some for key in unit] for some in chosen]


def _keys(node: exp.Expr, place: Callable[[exp.Expr], int]) -> list[int]:
    return [place(each) for each in node.expressions] if isinstance(node, exp.Tuple) else [place(node)]


def with_sets(  # noqa: PLR0913, PLR0917  # what a keyed relation is made of
    relation: Relation,
    keys: Sequence[str],
    sets: Sequence[Sequence[int]],
    text: str,
    rest: str,
    columns: tuple[str, ...],
    shown: Sequence[tuple[str, int]],
    inexact: tuple[Inexact, ...],
) -> Relation:
    """The groups of each set, one below the other, with null for the keys that a set has not.

    Args:
        sets: The places of the keys of each set.
        text: The text before GROUP BY.
        rest: The text behind it.
        columns: The columns of the groups.
        shown: The keys among them.
        inexact: The calls that may differ.
    """
    found = []
    for own in sets:
        of_set = tuple(keys[place] for place in own)
        grouped = f"{text} GROUP BY {', '.join(keys)} GROUPING SETS (({', '.join(of_set)})){rest}"
        known = tuple((name, own.index(place)) for name, place in shown if place in own)
        # Where rows are sought is noted by table, so no two relations may share one.
        found.append(Keyed(deepcopy(relation), "group", of_set, grouped, columns, known, inexact))
    return found[0] if len(found) == 1 else UnionAll(tuple(found))


# Queries as values


def of_one_row(relation: Relation, name: str, *, is_one: bool) -> Relation:
    """The one value of a query, as a relation of one row; null where the query has none.

    Args:
        relation: That of the query; it has one column.
        is_one: Whether it surely has one row. Of several the query ends, as Spark's does.
    """
    column = backquoted(relation.columns[0])
    if is_one:  # as a value also a count may be null, to Spark
        return RowWise(relation, f"if(true, {column}, null) AS `{name}`", "", (name,))
    several = "raise_error('a subquery that stands for a value has more than one row')"
    text = f"SELECT if(count(1) > 1, {several}, any_value({column})) AS `{name}` FROM __in0__"  # noqa: S608
    return Keyed(relation, "group", (), text, (name,), ())


def matched(relation: Relation, keys: Sequence[str], names: Sequence[str], found: str) -> Keyed:
    """The keys of a relation's rows, each once, beside a column that is true."""
    listed = ", ".join(f"{key} AS `{name}`" for key, name in zip(keys, names, strict=True))
    text = f"SELECT DISTINCT {listed}, true AS `{found}` FROM __in0__"  # noqa: S608  # as above
    shown = tuple((name, place) for place, name in enumerate(names))
    return Keyed(relation, "distinct", tuple(keys), text, (*names, found), shown)


def none_or_null(relation: Relation, empty: str, has_null: str) -> Relation:
    """Whether a relation of one column has no row, and whether it has a null: what NOT IN depends on."""
    column = backquoted(relation.columns[0])
    listed = f"count(1) = 0 AS `{empty}`, count_if({column} IS NULL) > 0 AS `{has_null}`"
    text = f"SELECT {listed} FROM __in0__"  # noqa: S608  # the statement of a declaration
    return Keyed(relation, "group", (), text, (empty, has_null), ())


def of_no_rows(node: exp.Expr, column: str) -> str:
    """The value of an aggregate's expression where the groups lack a row; empty where it is not known.

    Args:
        column: The column that has its value, null where there is no group.
    """
    if called(inner_call(node)) in _ZERO_OF_NONE:
        return f"if(true, coalesce({column}, 0L), null)"
    return column if _is_null_of_none(node) else ""


def _is_null_of_none(node: exp.Expr) -> bool:
    """Whether it is made of nothing but numbers, operators that keep null, and aggregates that are null."""
    if called(call := inner_call(node)) in AGGREGATES:
        return called(call) in _NULL_OF_NONE
    if isinstance(node, exp.Literal | exp.DataType):
        return True
    return isinstance(node, _KEEPS_NULL) and all(map(_is_null_of_none, node.iter_expressions()))
