"""What a gold table must have by its declaration, at given versions of its sources. Pure.

An audit compares it with the table. The first micro-batch of a kind without state writes the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from common.declare import Gold
from common.declare.field_types import named
from common.sql.expression import analyze, called_in, non_deterministic_in
from common.sql.functions import APPROXIMATE, BY_ORDER


@dataclass(frozen=True)
class Defined:
    """The rows that one table of a gold query must have."""

    table: str
    rows: DataFrame  # its rows
    key: tuple[str, ...] = ()  # columns that tell rows apart; empty: all columns do
    # Columns whose value may differ when it is computed again from the same rows.
    inexact: frozenset[str] = frozenset()
    # A column of times; rows beyond the last closed window come later: the commit says its end, else the
    # greatest value in the table does.
    until: str | None = None
    # Columns that are computed: the last digits of their floats may differ. Others are copies.
    rounded: frozenset[str] = frozenset()


def inexact_columns(gold: Gold) -> frozenset[str]:
    """Columns whose value may differ when it is computed again from the same rows."""
    found = set()
    for attribute in ("columns", "untracked", "measures"):
        for name, sql in named(getattr(gold, attribute, None) or {}).items():
            if non_deterministic_in(sql) or called_in(sql) & (BY_ORDER | APPROXIMATE):
                found.add(name)
    return frozenset(found)


def computed_columns(gold: Gold) -> frozenset[str]:
    """Columns that are results of expressions, not values that rows of the source have."""
    found = set(named(getattr(gold, "measures", None) or {}))
    for attribute in ("columns", "untracked", "by"):
        texts = named(getattr(gold, attribute, None) or {})
        found |= {name for name, sql in texts.items() if analyze(sql).path is None}
    return frozenset(found)
