"""Values that silver reads beside what a reader of others makes of them, and where the two disagree.

docs/author/other-readers.md lists the disagreements; a test's values must show each of them, and no other.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "author" / "other-readers.md"


class Refused:
    """The other reader has no value: an error, or a null in the place of one."""


REFUSED = Refused()


def listed(kind: str, reader: str) -> set[str]:
    """What the page says that silver does with values of a format that the reader takes otherwise."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        silver.replace("`", "").strip() for name, other, silver in rows if (name, other) == (kind, reader)
    }


Read = tuple[str, str | None, Any, Any]
"""A value read twice: its type; silver's reason, or None and the value; and what the other reader has."""


def disagreements(read: Iterable[Read]) -> tuple[Counter[str], list[Read]]:
    """How often silver did what, where the other reader did something else; and the first one of each."""
    found: Counter[str] = Counter()
    examples: list[Read] = []
    for one in read:
        kind, fault, ours, theirs = one
        if theirs is REFUSED and (fault is not None or ours is None):
            continue
        if fault is None and same(ours, theirs):
            continue
        name = fault or f"the {kind.partition('(')[0]}{' alone' if theirs is REFUSED else ''}"
        if not found[name]:
            examples.append(one)
        found[name] += 1
    return found, examples


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values are one; a number is not a boolean, and no zero is the other zero."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float) and ours == theirs == 0:
        return math.copysign(1, ours) == math.copysign(1, theirs)
    if isinstance(ours, (bytes, bytearray)):
        return bytes(ours) == theirs
    return isinstance(ours, bool) == isinstance(theirs, bool) and bool(ours == theirs)
