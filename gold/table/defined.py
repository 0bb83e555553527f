"""What a gold table must have by its declaration, at given versions of its sources. Pure.

An audit compares it with the table. The first micro-batch of a kind without state writes the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from common.declare import Aggregate, Custom, Gold, Join, Stateful
from common.sql.expression import analyze, called_in, non_deterministic_in
from common.sql.functions import APPROXIMATE, BY_ORDER
from gold.table.sql_columns import named


@dataclass(frozen=True)
class Defined:
    """The rows that one table of a gold query must have.

    Attributes:
        table: The table.
        rows: Its rows.
        key: Columns that tell rows apart; empty: all columns do.
        inexact: Columns whose value may differ when it is computed again from the same rows.
        until: A column of times; rows beyond the last closed window come later: the commit says its end, else
            the greatest value in the table does.
        rounded: Columns that are computed: the last digits of their floats may differ. Others are copies.
    """

    table: str
    rows: DataFrame
    key: tuple[str, ...] = ()
    inexact: frozenset[str] = frozenset()
    until: str | None = None
    rounded: frozenset[str] = frozenset()


def why_undefined(gold: Gold) -> str:  # noqa: PLR0911  # one return per reason
    """Why the rows of a gold table do not follow from versions of its sources, in words; empty if they do."""
    if isinstance(gold, Custom):
        return "a function of the pipeline writes it"
    if isinstance(gold, Stateful):
        return "a processor of the pipeline emits its rows"
    if isinstance(gold, Join) and gold.mode == "lookup":
        return "each row has the match of the time when it came"
    if isinstance(gold, Join) and gold.mode == "stream" and gold.how == "left":
        return "a row without a match comes when the watermark has passed"
    if gold.reading.has_start:
        return "it begins at a later version of its source"
    if found := sorted({name for sql in _deciding(gold) for name in non_deterministic_in(sql)}):
        return f"{', '.join(found)} decides which rows it has"
    return ""


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


def _deciding(gold: Gold) -> Iterator[str]:
    """The texts of a declaration that decide which rows there are."""
    for attribute in ("where", "delete_when", "operation", "truncates"):
        if (sql := getattr(gold, attribute, None)) is not None:
            yield sql
    if isinstance(gold, Aggregate):
        yield from named(gold.by or ()).values()
    on = getattr(gold, "on", None)
    if isinstance(on, Mapping):
        yield from on.values()
