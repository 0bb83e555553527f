"""Notices a topic of many types: one field names a message's type, and the types differ in fields. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestration.author.propose.keys import value_at
from orchestration.author.propose.value_shapes import Leaf, Shape, leaves, shape_of

_NAME = re.compile(
    r"(?i)^[_@]?((event|record|log|message|msg|entity|object|doc)?[_-]?(type|kind|class|category|path|name))$"
    r"|^(event|action|schema|table|topic|channel|stream|source)$"
)
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:/ -]{0,39}|[A-Za-z0-9_.:/-]{0,119})", re.ASCII)
"""A name of a type; a longer one has no blanks, such as that of a class."""
_MOST_TYPES = 20
_EVIDENCE = 10
"""Documents per type, on average, without which a table per type is not proposed."""
_MOST_SHARE = 0.7
"""A type has at most this share of all fields; if it has more, the types are of one shape."""


def discriminator(columns: Mapping[str, Leaf], documents: Sequence[Mapping[str, Any]]) -> str:
    """The column that names each message's type; empty if all messages have about the same fields."""
    possible = [
        name
        for name, leaf in columns.items()
        if leaf.is_always and set(leaf.shape.kinds) == {"other"} and _NAME.search(leaf.path[-1])
    ]
    best, least = "", _MOST_SHARE
    for name in possible:
        found = by_value(documents, columns[name].path)
        is_few = 1 < len(found) <= _MOST_TYPES and len(documents) >= _EVIDENCE * len(found)
        if not is_few or not all(_VALUE.fullmatch(value) for value in found):
            continue
        paths = [{leaf.path for leaf in leaves(shape_of(each))} for each in found.values()]
        everything = set().union(*paths)
        share = sum(len(each) for each in paths) / len(paths) / len(everything)
        if share <= least:
            best, least = name, share - 1e-9
    return best


def by_value(
    documents: Sequence[Mapping[str, Any]], path: Sequence[str]
) -> dict[str, list[Mapping[str, Any]]]:
    """Documents by their text at a path, the most frequent text first."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for document in documents:
        found[str(value_at(document, path))].append(document)
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def pruned(whole: Shape, part: Shape) -> Shape:
    """The fields of a part with the types of the whole: a type's fields, which hold any message's values."""
    members = {
        name: pruned(shape, part.members[name])
        for name, shape in whole.members.items()
        if name in part.members
    }
    return replace(whole, members=members)
