"""How a view is kept: by row, by key or whole, and why; chosen from its statement. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from common.sql.relations import Joined, Keyed, Relation, RowWise, below
from common.sql.statement import Statement

Kept = Literal["by row", "by key", "whole"]

_COLUMN = re.compile(r"`([^`]+?)__([^`]+)`")
"""A column of a relation: the alias of its table, and its name."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a view is kept.

    Attributes:
        kept: ``by row``: rows that the changes take away and add are taken away and added. ``by key``: all
            rows of the keys that the changes touch are computed again. ``whole``: all rows are.
        top: By key: the relation whose keys are touched.
        keys: By key: output column -> the place of its expression among the keys of ``top``.
        why: In words, for people.
    """

    kept: Kept
    top: Keyed | None
    keys: Mapping[str, int]
    why: str


def way_of(  # noqa: PLR0911  # one return per reason
    statement: Statement, without_feed: Sequence[str] = ()
) -> Way:
    """The way in which a view of a statement is kept.

    Args:
        statement: The statement.
        without_feed: Those of its tables that keep no change data feed.
    """
    if without_feed:
        return _whole(f"{' and '.join(without_feed)} keeps no change data feed")
    if statement.relation is None:
        return _whole(statement.why_whole)
    if (fault := _without_rule(statement.relation)) is not None:
        return _whole(fault)
    names = {name: name for name in statement.relation.columns}
    top: Relation = statement.relation
    while isinstance(top, RowWise):
        kept = dict(top.kept)
        names = {out: kept[name] for out, name in names.items() if name in kept}
        top = top.input
    if isinstance(top, Keyed):
        shown = dict(top.shown)
        keys = {out: shown[name] for out, name in names.items() if name in shown}
        if not top.keys:
            return _whole("an aggregate without GROUP BY, or a window without PARTITION BY, is over all rows")
        if not keys:
            text = _COLUMN.sub(r"\1.\2", ", ".join(top.keys))
            return _whole(f"no key is among the output columns; add {text} to the SELECT list")
        if (fault := _inexact(top.input)) is not None:
            return _whole(fault)
        return Way("by key", top, keys, f"each row follows from the rows of one {', '.join(keys)}")
    if (fault := _inexact(top)) is not None:
        return _whole(fault)
    return Way("by row", None, {}, "each row follows from the rows that it is made of")


def _whole(why: str) -> Way:
    return Way("whole", None, {}, why)


def _without_rule(relation: Relation) -> str | None:
    """Why the change of a relation does not follow from changes of its inputs; None if it does."""
    for each in below(relation):
        if isinstance(each, Joined) and not each.is_linear and not each.equal:
            return f"the {each.kind} join has no equality between columns of both sides"
        if isinstance(each, Keyed) and not each.keys and each is not relation:
            return "an aggregate without GROUP BY, or a window without PARTITION BY, is over all rows"
    return None


def _inexact(relation: Relation) -> str | None:
    """Why the rows of a relation cannot be computed twice alike; None if they can."""
    for each in below(relation):
        if isinstance(each, Keyed) and each.inexact:
            shown = ", ".join(each.inexact)
            return f"{shown} below the last step may differ in its last digit or in ties when computed again"
    return None
