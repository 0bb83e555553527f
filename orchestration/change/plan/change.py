"""What differs between a declaration and what exists, and what the next start does about it. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestration.access.history.effort import Effort

Effect = Literal[
    "unchanged",
    "no effect",
    "not declared",
    "next start",
    "not compared",
    "new column",
    "new",
    "rebuild",
    "refused",
]
"""What becomes of a difference, from the least to the most that is to do:

``unchanged``: there is no difference. ``no effect``: the difference is ignored, because the first start of
the query has fixed the attribute. ``not declared``: no declaration names the table any more; it stays as it
is. ``next start``: the next start works by the new declaration; existing rows stay. ``not compared``: the
same, unless a column gets another type, which Spark alone knows and was not asked for. ``new column``: the
next start adds the column; existing rows have null there. ``new``: the next start creates the table and reads
its source from the first row. ``rebuild``: the next start is refused until the table is filled again.
``refused``: the next start is refused, and filling the table again does not help."""

EFFECTS: tuple[Effect, ...] = Effect.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference."""

    name: str  # the attribute, setting or column: ``columns.amount``, ``rule amount_positive``
    old: str  # the former text; empty where there was none or no start has recorded it
    new: str  # the text now; empty where there is none
    effect: Effect  # what the next start does about it
    why: str = ""  # the reason, or what to do, as sentences; empty where the effect says all


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What the next start does with one query and its tables."""

    query: str  # the table that the query writes, or its publication
    changes: tuple[Change, ...] = ()  # what differs; empty for an unchanged query
    effort: Effort | None = None  # what the next start, or a rebuild, reads; None where it reads no old rows

    @property
    def effect(self) -> Effect:
        """The effect of the change that needs most to be done."""
        return max((each.effect for each in self.changes), key=EFFECTS.index, default="unchanged")
