"""Finds columns that identify an event. Pure.

A key that two different messages share loses one of them as a duplicate, so one known collision rules a key
out. Evidence is the sample, in which neighbours are together, and all other messages where they are at hand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations
from math import prod
from typing import Any

from orchestration.author.propose.value_shapes import Number, kind_of_text

_EVIDENCE = 100
"""Documents below which a set of columns is not looked for: any would do."""
_MOST_PARTS, _MOST_SIZE = 14, 4
_COLLISIONS = 3
"""Pairs of documents that would share the values of a set of columns by chance."""

Path = tuple[str, ...]
Document = Mapping[str, Any]


@dataclass(frozen=True)
class KeyFound:
    """What was found out about keys."""

    key: tuple[str, ...] = ()  # columns of a key without a collision; empty if there is none
    checked: int = 0  # number of different messages that the key distinguishes
    # The best identifier, if different messages repeat it: it identifies a thing, not an event.
    thing: str = ""
    repeats: int = 0  # share of the different messages that repeat it, in percent


def find_key(  # noqa: PLR0913, PLR0917  # what is known of the columns, and the documents
    identifiers: Sequence[str],
    times: Sequence[str],
    parts: Sequence[str],
    paths: Mapping[str, Path],
    documents: Sequence[Document],
    others: Callable[[], Iterable[Document]],
) -> KeyFound:
    """The first key without a collision: an identifier, the best identifier with times, or other columns.

    Args:
        identifiers: Columns whose names identify something.
        times: Columns of times, the event time first.
        parts: Columns that may be parts of a key whatever their names say; a text may be one alone.
        paths: Paths of the columns in a document.
        others: All documents at hand, read again by each call.
    """
    distinct = {digest(document): document for document in documents}
    if not distinct:
        _without_collision((), paths, others())
        return KeyFound()
    numbers = {name: _values([paths[name]], distinct.values()) for name in identifiers}
    ordered = sorted(identifiers, key=lambda name: (-numbers[name], not _is_id(name), len(paths[name])))
    best = ordered[0] if ordered else ""
    tries: list[tuple[str, ...]] = [(name,) for name in ordered]
    if best:
        tries += [(best, *times[:count]) for count in range(1, len(times) + 1)]
    possible = [
        key for key in tries if _values([paths[name] for name in key], distinct.values()) == len(distinct)
    ]
    possible += _composites(parts, paths, list(distinct.values()))
    possible, checked = _without_collision(possible, paths, others())
    repeats = len(distinct) - numbers[best] if best else 0
    is_thing = bool(best) and (best,) not in possible
    return KeyFound(
        key=possible[0] if possible else (),
        checked=max(checked, len(distinct)),
        thing=best if is_thing else "",
        repeats=round(100 * repeats / len(distinct)),
    )


def _composites(
    parts: Sequence[str], paths: Mapping[str, Path], documents: Sequence[Document]
) -> list[tuple[str, ...]]:
    """The smallest sets of columns that distinguish all documents, the likeliest first.

    Many columns together are unique by chance. So a set counts only where some documents would share its
    values if the columns had nothing to do with each other: an airport and an hour, for a report of the
    weather.
    """
    number = len(documents)
    if number < _EVIDENCE:
        return []
    values = {name: [str(value_at(each, paths[name])) for each in documents] for name in parts}
    several = {name: len(set(found)) for name, found in values.items() if len(set(found)) > 1}
    shared = {name: _shared_pairs(found) for name, found in values.items()}
    names = sorted(several, key=lambda name: -several[name])[:_MOST_PARTS]
    for size in range(1, _MOST_SIZE + 1):
        found = []
        for key in combinations(sorted(names, key=list(parts).index), size):
            room = prod(several[name] for name in key)
            is_plain = size == 1 and _is_text(value_at(documents[0], paths[key[0]]))
            collisions = number * number / 2 * prod(shared[name] for name in key)
            if room < number or (collisions < _COLLISIONS and not is_plain):
                continue
            if len(set(zip(*(values[name] for name in key), strict=True))) == number:
                found.append((room, key))
        if found:
            return [key for _, key in sorted(found)]
    return []


def _shared_pairs(values: Sequence[str]) -> float:
    """The share of all pairs of documents that have the same value."""
    return sum(n * (n - 1) for n in Counter(values).values()) / (len(values) * (len(values) - 1))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number) and kind_of_text(value) == "other"


def _without_collision(
    keys: Sequence[tuple[str, ...]], paths: Mapping[str, Path], documents: Iterable[Document]
) -> tuple[list[tuple[str, ...]], int]:
    """Keys that each document has and no two different ones share, and the number of different documents."""
    owners: dict[tuple[str, ...], dict[bytes, bytes]] = {key: {} for key in keys}
    seen: set[bytes] = set()
    for document in documents:
        own = digest(document)
        if own in seen:
            continue
        seen.add(own)
        for key in list(owners):
            values = [value_at(document, paths[name]) for name in key]
            if None in values or owners[key].setdefault(digest(values), own) != own:
                del owners[key]
    return list(owners), len(seen)


def digest(value: Any) -> bytes:
    """Sixteen bytes that are equal for equal values alone."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return blake2b(text.encode(), digest_size=16).digest()


def value_at(document: Document, path: Sequence[str]) -> Any:
    """The value at a path of a document; None if there is none."""
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _values(paths: Sequence[Path], documents: Iterable[Document]) -> int:
    return len({tuple(str(value_at(each, path)) for path in paths) for each in documents})


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")
