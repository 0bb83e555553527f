"""Percentiles, ratios and goals: the arithmetic of a report, with nothing rounded and nothing left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class Quantile:
    """A percentile of ages of which some never ended.

    Attributes:
        seconds: The age; not a number where there is none at all.
        at_least: Whether it is a lower bound: the row at this place was still missing at the end.
    """

    seconds: float
    at_least: bool = False

    def __str__(self) -> str:
        if math.isnan(self.seconds):
            return "-"
        return f"{'> ' if self.at_least else ''}{self.seconds:.2f} s"


def quantile(seen: ArrayLike, unseen: ArrayLike, share: float) -> Quantile:
    """The smallest age that this share of all rows does not exceed.

    Args:
        seen: Seconds until each row that came was seen.
        unseen: Seconds for which each row that did not come had been waited for. Its age is more than
            that, and is put behind all that were seen: a row that is missing makes no figure better.
        share: Such as 0.99.
    """
    came, missing = np.sort(np.asarray(seen, dtype=float)), np.sort(np.asarray(unseen, dtype=float))
    total = len(came) + len(missing)
    if not total:
        return Quantile(math.nan)
    place = max(0, math.ceil(share * total) - 1)
    if place < len(came):
        return Quantile(float(came[place]))
    newest = float(came[-1]) if len(came) else 0.0
    return Quantile(max(newest, float(missing[place - len(came)])), at_least=True)


def ratio(above: float, below: float) -> float:
    """One figure in times of another; not a number where that cannot be said."""
    return above / below if below and math.isfinite(below) else math.nan


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound, and what was measured against it.

    Attributes:
        what: Such as ``W2 2,000/s, gold p50, s``.
        measured: The figure; ``None`` where it was not measured, or may not be believed.
        bound: Where it should be.
        direction: Whether the figure should be at most the bound, or at least.
        note: Why it was not measured, or what is to be known of it.
    """

    what: str
    measured: float | None
    bound: float
    direction: Literal["at most", "at least"]
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """``None`` where it is not known."""
        if self.measured is None or math.isnan(self.measured):
            return None
        return self.measured <= self.bound if self.direction == "at most" else self.measured >= self.bound

    @property
    def verdict(self) -> str:
        """``met``, ``missed by 12 %``, or ``not measured``."""
        if self.is_met is None or self.measured is None:
            return f"not measured{f': {self.note}' if self.note else ''}"
        note = f" ({self.note})" if self.note else ""
        if self.is_met:
            return f"met{note}"
        if not self.bound:
            return f"missed by {number(self.measured)}{note}"
        return f"missed by {abs(self.measured / self.bound - 1):.0%}{note}".replace("%", " %")


def number(value: float) -> str:
    """For a reader: three digits that count, thousands apart."""
    if math.isnan(value):
        return "-"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def median(values: Sequence[float]) -> float:
    """Of what there is; not a number for nothing."""
    return float(np.median(values)) if values else math.nan
