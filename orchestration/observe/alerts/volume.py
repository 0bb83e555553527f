"""Whether the records of the last hour are unusual for this time of day.

The last hour is compared with the same hour of each former day. Usual is the median of the former days, and
the spread is 1.4826 times the median of their distances from it (MAD): the same as a standard deviation where
days differ by chance, but one day of an outage or of a catch-up changes neither. A spread is taken as at
least 5 % of the median, and as the square root of the median, by which counts of independent events differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FEWEST_DAYS = 7
"""Former days with records in the same hour that are needed; with fewer, nothing is unusual."""

_NORMAL = 1.4826
_LEAST_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class HourVolume:
    """Records of the last hour, and of the same hour of former days."""

    now: int  # records of the last hour
    former: tuple[int, ...]  # records of the same hour of each former day on which there were some


@dataclass(frozen=True, slots=True)
class Usual:
    """What is usual for an hour: ``count`` records, give or take ``spread``."""

    count: float
    spread: float


def usual(former: Sequence[int]) -> Usual | None:
    """What is usual by former days; None with fewer than seven."""
    if len(former) < FEWEST_DAYS:
        return None
    middle = median(former)
    spread = _NORMAL * median(abs(count - middle) for count in former)
    return Usual(middle, max(spread, _LEAST_SHARE * middle, math.sqrt(middle), 1.0))


def is_unusual(volume: HourVolume, spreads: float) -> bool | None:
    """Whether the last hour is more than so many spreads from what is usual; None while that is not known."""
    found = usual(volume.former)
    return None if found is None else abs(volume.now - found.count) / found.spread > spreads


def explain(volume: HourVolume) -> str:
    """The last hour in words: ``48 % of the usual 21,000 ± 3,000``."""
    found = usual(volume.former)
    if found is None:
        return f"{volume.now:,} records; what is usual is known after {FEWEST_DAYS} days"
    share = f"{100 * volume.now / found.count:.0f} %" if found.count else f"{volume.now:,} records instead"
    return f"{share} of the usual {_rounded(found.count, 3)} ± {_rounded(found.spread, 2)}"


def _rounded(number: float, digits: int) -> str:
    """A number of records with so many digits that count."""
    size = 10 ** max(0, math.floor(math.log10(max(number, 1))) - digits + 1)
    return f"{round(number / size) * size:,}"
