"""How a view is kept: by row, by key or whole, and why; chosen from its statement. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from common.sql.expression import has_sliding_window
from common.sql.relations import Inexact, Joined, Keyed, Relation, RowWise, as_named, below
from common.sql.statement import Statement
from common.sql.syntax import words_of

Kept = Literal["by row", "by key", "whole"]

_NOTE = "whole"
"""In the counts of a view's commit: why it is kept whole although the text of its statement has rules."""

_MEANT = re.compile(r"(tiny|small)int\b|decimal\b")
_NUMBERS = re.compile(r"(tiny|small|big)?int\b|decimal\b")
_EXACT = {"sum": _NUMBERS, "avg": _MEANT, "mean": _MEANT}
"""The types of which a function gives one value, in whatever order it adds them; a mean adds whole numbers as
floating-point ones."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a view is kept."""

    # ``by row``: rows that the changes take away and add are taken away and added. ``by key``: all rows of
    # the keys that the changes touch are computed again. ``whole``: all rows are.
    kept: Kept
    # By key: the relation whose keys are touched; one without keys has one group of all rows.
    top: Keyed | None
    keys: Mapping[str, int]  # by key: output column -> the place of its expression among the keys of ``top``
    why: str  # in words, for people
    # Calls that must be exact, which their types will tell: else the view is kept whole.
    unsure: tuple[Inexact, ...] = ()


def way_of(statement: Statement, without_feed: Sequence[str] = (), *, declared: Kept | None = None) -> Way:
    """The way in which a view of a statement is kept.

    Of what adds numbers below the last step it stays unsure; see ``decided``.

    Args:
        without_feed: Those of its tables that keep no change data feed.
        declared: The way that its author wants: any statement may be kept whole.
    """
    if without_feed:
        return whole(f"{' and '.join(without_feed)} keeps no change data feed")
    if declared == "whole":
        return whole("it is declared so")
    fault = statement.why_whole if statement.relation is None else _without_rule(statement.relation)
    if fault is not None or statement.relation is None:
        return whole(fault or "")
    names = {name: name for name in statement.relation.columns}
    top: Relation = statement.relation
    while isinstance(top, RowWise):
        kept = dict(top.kept)
        names = {out: kept[name] for out, name in names.items() if name in kept}
        top = top.input
    if isinstance(top, Keyed):
        shown = dict(top.shown)
        keys = {out: shown[name] for out, name in names.items() if name in shown}
        if keys or not top.keys:
            of = ", ".join(keys)
            why = f"each row follows from the rows of one {of}" if keys else "all rows are of one group"
            found = _repeated(top.input, "by key", why)
            return found if found.kept == "whole" else replace(found, top=top, keys=keys)
    found = _repeated(top, "by row", "each row follows from the rows that it is made of")
    if found.kept == "whole" and isinstance(top, Keyed):
        missing = as_named(", ".join(top.keys))
        return whole(f"no key is among the output columns; add {missing} to the SELECT list")
    return found


def whole(why: str) -> Way:
    """A view that is kept whole, for a reason in words."""
    return Way("whole", None, {}, why)


def decided(way: Way, types: Mapping[int, str]) -> Way:
    """The way, as far as the types are known of what it adds: by where the author's text has that."""
    unsure = []
    for call in way.unsure:
        kind = types.get(call.at, "")
        if not kind:
            unsure.append(call)
        elif _EXACT[call.name].match(kind) is None:
            return whole(f"{_may_differ([call])}: it adds numbers of the type {kind}")
    return replace(way, unsure=tuple(unsure))


def in_words(way: Way) -> str:
    """Why a view is kept in a way, and on what that depends."""
    if not way.unsure:
        return way.why
    shown = " and ".join(dict.fromkeys(f"{call.shown} {_WANTED[call.name]}" for call in way.unsure))
    return f"{way.why}; if {shown}, which a start finds out: else it is kept whole"


_WANTED = {"sum": "adds whole numbers or decimals", "avg": "is of decimals", "mean": "is of decimals"}


def note(statement: Statement, way: Way) -> dict[str, dict[str, str]]:
    """Why a job keeps a view whole, for the counts of its commits."""
    return {_NOTE: {"why": way.why, "sql": _mark(statement)}}


def noted(statement: Statement, counts: Mapping[str, Any]) -> str:
    """Why a job has kept a view of this very statement whole, by the counts of a commit; else empty."""
    found = counts.get(_NOTE, {})
    return str(found["why"]) if found.get("sql") == _mark(statement) else ""


def _mark(statement: Statement) -> str:
    return hashlib.sha256(statement.text.encode()).hexdigest()[:8]


def _repeated(relation: Relation, kept: Kept, why: str) -> Way:
    """A way that computes the rows of a relation again, which must give the same rows."""
    calls = list(
        dict.fromkeys(call for each in below(relation) if isinstance(each, Keyed) for call in each.inexact)
    )
    if never := [call for call in calls if not call.given]:
        return whole(_may_differ(never))
    return Way(kept, None, {}, why, tuple(calls))


def _may_differ(calls: Sequence[Inexact]) -> str:
    shown = ", ".join(dict.fromkeys(call.shown for call in calls))
    return f"{shown} below the last step may differ in its last digit or in ties when computed again"


def _without_rule(relation: Relation) -> str | None:
    """Why the change of a relation does not follow from changes of its inputs; None if it does."""
    for each in below(relation):
        if isinstance(each, Joined) and not each.is_linear and not each.equal:
            return f"the {each.kind} join has no equality between columns of both sides"
        if isinstance(each, Keyed) and each.kind == "window" and not each.keys:
            return "a window without PARTITION BY is over all rows"
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
