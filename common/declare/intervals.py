"""Intervals of time as text: ``10 minutes``, ``1.5 seconds``, ``-5 minutes``, ``500ms``.

The one parser of such texts. Declarations take whole words after a blank, because Spark reads the same text;
settings also take ``ms`` and ``s``. Only seconds may have a fraction: Spark accepts no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from common.errors import closest
from common.spark_words import trigger_hint

_SHORT_UNITS = {"ms": "millisecond", "s": "second"}
_MILLISECONDS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_TEXT = re.compile(r"\s*(?P<sign>-?)\s*(?P<number>\d+(?:\.\d+)?)(?P<blank>\s*)(?P<unit>[a-z]+)\s*")

_MISSPELT = re.compile(r"\s*(?P<number>-?\s*\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]{2,})\s*")


@dataclass(frozen=True, slots=True)
class Length:
    """The length of an interval.

    Attributes:
        number: Digits as written, with a minus sign where it is negative.
        unit: The unit's name in the singular, such as ``minute``.
    """

    number: str
    unit: str

    @property
    def milliseconds(self) -> int:
        """Whole milliseconds; what is shorter is cut off."""
        return int(Decimal(self.number) * _MILLISECONDS[self.unit])

    @property
    def microseconds(self) -> int:
        """Whole microseconds, of which Spark's times are; what is shorter is cut off."""
        return int(Decimal(self.number) * _MILLISECONDS[self.unit] * 1_000)

    @property
    def seconds(self) -> float:
        """Seconds."""
        return float(Decimal(self.number) * _MILLISECONDS[self.unit] / 1_000)

    def __str__(self) -> str:
        """The text that Spark reads."""
        return f"{self.number} {self.unit}{'' if self.number == '1' else 's'}"


def parse_interval(text: str, *, may_be_negative: bool = False) -> Length | None:
    """An interval of a declaration; None for a text that is none."""
    match = _TEXT.fullmatch(text)
    if match is None or not match["blank"] or (match["sign"] and not may_be_negative):
        return None
    unit = match["unit"].removesuffix("s")
    return _length(match, unit) if unit != "millisecond" else None


def parse_duration(text: str) -> Length | None:
    """An interval of a setting, which may have short units; None for a text that is none."""
    match = _TEXT.fullmatch(text)
    if match is None or match["sign"]:
        return None
    return _length(match, _SHORT_UNITS.get(match["unit"], match["unit"].removesuffix("s")))


def duration_text(text: object) -> str:
    """A duration in Spark's notation, which has no short units such as ``s``.

    Raises:
        ValueError: The text is no duration.
    """
    length = parse_duration(text) if isinstance(text, str) else None
    if length is None:
        hint = meant(text, _MILLISECONDS)
        raise ValueError(f"{text!r} is not a duration; write it like '500 milliseconds' or '2 seconds'{hint}")
    return str(length)


def meant(text: object, units: Iterable[str] = tuple(_MILLISECONDS)[1:]) -> str:
    """The text that an interval with a misspelt unit was probably meant to be; empty for any other."""
    parts = _MISSPELT.fullmatch(text) if isinstance(text, str) else None
    if parts is None or not (unit := closest(parts["unit"].removesuffix("s"), units)):
        return ""
    return f"; did you mean '{Length(parts['number'], unit)}'?"


def _length(match: re.Match[str], unit: str) -> Length | None:
    if unit not in _MILLISECONDS or ("." in match["number"] and unit != "second"):
        return None
    return Length(match["sign"] + match["number"], unit)


def length_of(interval: str) -> Length:
    """The length of an interval that a declaration has accepted."""
    found = parse_interval(interval, may_be_negative=True)
    if found is None:
        raise AssertionError(f"{interval!r} is no interval, and was accepted as one")
    return found


FOLLOW = "follow"
"""The trigger of a query that starts a micro-batch when its source tables get a commit."""


def own_trigger(text: object) -> str:
    """The trigger of a query whose source is no table; an empty text is ``asap``.

    Raises:
        ValueError: The text is no interval, and is not ``asap``.
    """
    if _word(text) == FOLLOW:
        raise ValueError(
            "a bronze table reads no table of the pipeline and has no table to follow; write an interval "
            "like '1 second', or 'asap'"
        )
    return following_trigger(text)


def following_trigger(text: object) -> str:
    """The trigger of a query that reads a table; an empty text is ``asap``.

    Raises:
        ValueError: The text is no interval, and is neither ``follow`` nor ``asap``.
    """
    word = _word(text)
    if word in {"", "asap"}:
        return ""
    if other := trigger_hint(text):
        raise ValueError(other)
    if word is not None and word != FOLLOW and (near := closest(word, (FOLLOW, "asap"), cutoff=0.7)):
        raise ValueError(f"{text!r} is not a duration; did you mean {near!r}?")
    return FOLLOW if word == FOLLOW else duration_text(text)


def _word(text: object) -> str | None:
    return text.strip().lower() if isinstance(text, str) else None
