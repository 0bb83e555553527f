"""How a view is kept: by row, by key or whole, and why; chosen from its statement. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from common.sql.expression import has_sliding_window
from common.sql.relations import Joined, Keyed, Relation, RowWise, as_named, below
from common.sql.statement import Statement
from common.sql.syntax import words_of

Kept = Literal["by row", "by key", "whole"]

_NOTE = "whole"
"""In the counts of a view's commit: why it is kept whole although the text of its statement has rules."""


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
    """The way in which a view of a statement is kept, some of whose tables keep no change data feed."""
    if without_feed:
        return whole(f"{' and '.join(without_feed)} keeps no change data feed")
    if statement.relation is None:
        return whole(statement.why_whole)
    if (fault := _without_rule(statement.relation)) is not None:
        return whole(fault)
    names = {name: name for name in statement.relation.columns}
    top: Relation = statement.relation
    while isinstance(top, RowWise):
        kept = dict(top.kept)
        names = {out: kept[name] for out, name in names.items() if name in kept}
        top = top.input
    if isinstance(top, Keyed):
        shown = dict(top.shown)
        keys = {out: shown[name] for out, name in names.items() if name in shown}
        if not keys:
            missing = as_named(", ".join(top.keys))
            return whole(f"no key is among the output columns; add {missing} to the SELECT list")
        if (fault := _inexact(top.input)) is not None:
            return whole(fault)
        return Way("by key", top, keys, f"each row follows from the rows of one {', '.join(keys)}")
    if (fault := _inexact(top)) is not None:
        return whole(fault)
    return Way("by row", None, {}, "each row follows from the rows that it is made of")


def whole(why: str) -> Way:
    """A view that is kept whole, for a reason in words."""
    return Way("whole", None, {}, why)


def note(statement: Statement, way: Way) -> dict[str, dict[str, str]]:
    """Why a job keeps a view whole, for the counts of its commits."""
    return {_NOTE: {"why": way.why, "sql": _mark(statement)}}


def noted(statement: Statement, counts: Mapping[str, Any]) -> str:
    """Why a job has kept a view of this very statement whole, by the counts of a commit; else empty."""
    found = counts.get(_NOTE, {})
    return str(found["why"]) if found.get("sql") == _mark(statement) else ""


def _mark(statement: Statement) -> str:
    return hashlib.sha256(statement.text.encode()).hexdigest()[:8]


def _without_rule(relation: Relation) -> str | None:
    """Why the change of a relation does not follow from changes of its inputs; None if it does."""
    for each in below(relation):
        if isinstance(each, Joined) and not each.is_linear and not each.equal:
            return f"the {each.kind} join has no equality between columns of both sides"
        if isinstance(each, Keyed) and not each.keys:
            return "an aggregate without GROUP BY, or a window without PARTITION BY, is over all rows"
        if isinstance(each, Keyed) and any(map(_makes_sessions, below(each))):
            return (
                "the bounds of a session depend on other rows; Aggregate(window=Session(…), "
                "mode='recompute') keeps sessions by their groups"
            )
        if isinstance(each, Keyed) and each.kind == "group" and any(map(has_sliding_window, each.keys)):
            return (
                "a row is in several windows that slide; Aggregate(window=Window(…), mode='recompute') keeps "
                "them by their groups, and so does LATERAL VIEW explode(sequence(…)) with a row for each"
            )
    return None


def _makes_sessions(relation: Relation) -> bool:
    """Whether it calls ``session_window``, whose result a grouping above joins with that of other rows."""
    text = relation.text() if isinstance(relation, RowWise) else getattr(relation, "text", "")
    return "session_window" in (word.strip("`").lower() for word in words_of(text))


def _inexact(relation: Relation) -> str | None:
    """Why the rows of a relation cannot be computed twice alike; None if they can."""
    for each in below(relation):
        if isinstance(each, Keyed) and each.inexact:
            shown = ", ".join(each.inexact)
            return f"{shown} below the last step may differ in its last digit or in ties when computed again"
    return None
