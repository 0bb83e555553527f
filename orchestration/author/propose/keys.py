"""Finds columns that identify an event. Pure.

A key that two different messages share loses one of them as a duplicate, so one known collision rules a key
out. Evidence is the sample, in which neighbours are together, and all other messages where they are at hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

Path = tuple[str, ...]
Document = Mapping[str, Any]


@dataclass(frozen=True)
class KeyFound:
    """What was found out about keys.

    Attributes:
        key: Columns of a key without a collision; empty if there is none.
        checked: Number of different messages that the key distinguishes.
        thing: The best identifier, if different messages repeat it: it identifies a thing, not an event.
        repeats: Share of the different messages that repeat it, in percent.
    """

    key: tuple[str, ...] = ()
    checked: int = 0
    thing: str = ""
    repeats: int = 0


def find_key(
    identifiers: Sequence[str],
    times: Sequence[str],
    paths: Mapping[str, Path],
    documents: Sequence[Document],
    others: Callable[[], Iterable[Document]],
) -> KeyFound:
    """The first key without a collision: an identifier, or the best identifier with columns of time.

    Args:
        identifiers: Columns whose names identify something.
        times: Columns of times, the event time first.
        paths: Paths of the columns in a document.
        documents: The sampled documents.
        others: All documents at hand, read again by each call.
    """
    distinct = {digest(document): document for document in documents}
    if not identifiers or not distinct:
        _without_collision((), paths, others())
        return KeyFound(checked=len(distinct))
    numbers = {name: _values([paths[name]], distinct.values()) for name in identifiers}
    ordered = sorted(identifiers, key=lambda name: (-numbers[name], not _is_id(name), len(paths[name])))
    best = ordered[0]
    tries: list[tuple[str, ...]] = [(name,) for name in ordered]
    tries += [(best, *times[:count]) for count in range(1, len(times) + 1)]
    possible = [
        key for key in tries if _values([paths[name] for name in key], distinct.values()) == len(distinct)
    ]
    possible, checked = _without_collision(possible, paths, others())
    repeats = len(distinct) - numbers[best]
    is_thing = (best,) not in possible
    return KeyFound(
        key=possible[0] if possible else (),
        checked=max(checked, len(distinct)),
        thing=best if is_thing else "",
        repeats=round(100 * repeats / len(distinct)),
    )


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
