"""Words of Spark and Delta that a declaration does not take: why, or under which name.

Who knows Spark's guide writes its words first. Each that a pipeline cannot say is a mistake with the reason
and the way out; each that has another name here is a mistake with that name. ``spark_words.tsv`` has them,
and ``docs/author/streaming-guide.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from common.data_table import rows
from common.errors import closest

_VERY_LIKE = 0.85


def _read() -> Mapping[str, Mapping[str, str]]:
    hints: dict[str, dict[str, str]] = {}
    for owners, words, hint in rows(__file__, "spark_words.tsv"):
        for owner in owners.split():
            hints.setdefault(owner, {}).update(dict.fromkeys(words.split(), hint))
    return hints


HINTS = _read()
"""What to write, by word: of a class for its attributes, of ``Join.how`` for its values, of ``class``."""


def attribute_hint(kind: str, name: str) -> str:
    """What to write for an attribute that a declaration does not have; empty for a word that is not known.

    Args:
        kind: The name of the declaration's class.
        name: The attribute as it was given, in Spark's spelling or in Python's.
    """
    return HINTS.get(kind, {}).get(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(), "")


def value_hint(kind: str, name: str, value: object) -> str:
    """What to write for a value that an attribute does not take; empty for one that is not known."""
    known = HINTS.get(f"{kind}.{name}", {})
    return known.get(value.strip().lower(), "") if isinstance(value, str) else ""


def trigger_hint(given: object) -> str:
    """What to write for a trigger of Spark that is none of a table, however it is spelt; empty for any other.

    So for ``Trigger.Continuous("1 second")``, ``continuous=1 second`` and ``{"continuous": "1 second"}``.
    """
    letters = re.findall("[a-z]+", str(given).lower().removeprefix("trigger"))
    known = {word.replace("_", ""): hint for word, hint in HINTS[".trigger"].items()}
    begins = ("".join(letters[:count]) for count in (1, 2))
    found = (closest(one, known, cutoff=_VERY_LIKE) for one in begins)
    return next((known[word] for word in found if word), "")


def class_hint(name: str) -> str:
    """What to write for a class that there is not; empty for one that is not known."""
    return next((hint for known, hint in HINTS["class"].items() if known.lower() == name.lower()), "")
