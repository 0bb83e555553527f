"""Faults of names in a declaration; all checks share them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from common.errors import Fault, Problem, nearest
from common.schema.ddl import is_unicode
from orchestration.author.check.visible_columns import Scope

_AWKWARD = re.compile(r"[\s,;{}()=.`]")


def references(argument: str, names: Iterable[str], scope: Scope) -> Iterator[str]:
    for name in names:
        if not scope.has(name):
            yield Fault(
                "MED-1202", f"{argument} {name!r} is no column of {scope.what}; {nearest(name, scope.names)}"
            )


def name_faults(names: Iterable[str]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for name in names:
        if name.startswith("_"):
            yield Fault(
                "MED-1304",
                f"column {name!r} begins with '_', as only the pipeline's own columns may; rename it",
            )
        elif (odd := _AWKWARD.search(name)) is not None or not name:
            shown = f"contains {odd.group()!r}" if odd is not None else "has no name"
            yield Fault(
                "MED-1304",
                f"column {name!r} {shown}, which Delta tables refuse; use letters, digits and underscores",
            )
        elif not is_unicode(name):
            yield Fault(
                "MED-1304",
                f"column {name!r} has a lone surrogate in its name, which is no character; rename it",
            )
        first = seen.get(name.lower())
        if first is not None:
            why = (
                "is declared twice"
                if first == name
                else f"differs from {first!r} only by case, which Spark ignores"
            )
            yield Fault("MED-1303", f"column {name!r} {why}; rename one")
        seen[name.lower()] = name


def each(place: str, texts: Iterable[str], source: str) -> Iterator[Problem]:
    return (Problem(place, text, source) for text in texts)
