"""Which stored rows a change is about: by condition or coordinates; and what their query has yet to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.config.paths import Layout
from common.declare import Silver
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position
from common.errors import SqlError, UsageError, closest, first_line, if_text
from common.sql.expression import analyze
from silver.read.column_names import COORDINATES, PLACE
from silver.write import first_load

Say = Callable[[str], None]
"""Reports a step of the work."""


def condition(rows: DataFrame, where: str, table: str) -> Column:
    """A condition of ``--where`` over the columns of a table.

    Raises:
        UsageError: It is none.
    """
    try:
        found = F.expr(f"({where})")
        rows.where(found).schema  # noqa: B018  # resolves the condition's columns
    except PySparkException as error:
        names = ", ".join(rows.columns)
        raise UsageError(f"--where: {first_line(error)}. The columns of {table} are: {names}.") from error
    return found


def require_condition(where: str, table: str, path: str) -> None:
    """Refuse a condition of ``--where`` that cannot be parsed, or that names no column of a table.

    Call it before Spark's start, which refuses the rest: ``condition``.

    Raises:
        UsageError: Names the word or the column, and the most similar column.
    """
    have = delta_table.logged_types(path)
    columns = f"The columns of {table} are: {', '.join(have)}."
    try:
        facts = analyze(where)
    except SqlError as error:
        raise UsageError(f"--where: {error}. {columns}") from error
    known = {name.lower() for name in have}
    for name in (one[0] for one in facts.columns if one[0].lower() not in known):
        if facts.subquery or not have:
            return  # Spark alone knows the columns
        near = f"; did you mean {like!r}" if (like := closest(name, have)) else ""
        raise UsageError(f"--where: {table} has no column {name}{near}. {if_text(name)} {columns}")


def refuse_elements(silver: Silver, what: str, instead: str) -> None:
    """Refuse what works by record only, for a table with a row per element.

    Args:
        what: The operation, in words.
        instead: What to type or do.

    Raises:
        UsageError: The table is declared with ``each``.
    """
    if silver.each is not None:
        raise UsageError(
            f"{silver.table} has a row per element of {silver.each}, and {what} works by whole records. "
            f"Nothing was written. {instead}"
        )


def coordinates_of(table: str) -> tuple[str, ...]:
    """The columns of a table with the coordinates of its records: they are raw, or of silver's shape."""
    return PLACE if table.startswith("bronze.") or table.endswith("__quarantine") else COORDINATES


def renamed(have: Sequence[str], want: Sequence[str]) -> list[Column]:
    """Columns under other names, such as coordinates as another table has them."""
    return [F.col(own).alias(name) for own, name in zip(have, want, strict=True)]


def tables_with_own_row(silver: Silver) -> tuple[str, ...]:
    """The tables of the query in which a record has a row of its own, if it is nobody's duplicate."""
    return (silver.table, silver.quarantine, *((silver.late_table,) if silver.late == "keep" else ()))


@dataclass(frozen=True, slots=True)
class ReadUntil:
    """How far the query of a silver table has read bronze."""

    unfinished: str  # what of its work was cut off, and has rows to write; empty if nothing was
    positions: tuple[DeltaPosition, ...] = ()  # what it has read of each bronze table; empty: nothing yet


def read_until(layout: Layout, silver: Silver) -> ReadUntil:
    """How far the query of a silver table has read its bronze tables, by checkpoint and first load."""
    checkpoint = Checkpoint(layout.checkpoint_path(silver.table))
    committed = checkpoint.last_committed()
    loaded = first_load.mark(layout.table_path(silver.table))
    if loaded is not None and not loaded.is_done:
        return ReadUntil("first load")
    if checkpoint.last_planned() != committed:
        return ReadUntil("newest micro-batch")
    if loaded is None and committed is None:
        return ReadUntil("")
    entry = checkpoint.planned_batch(committed)
    begins = (0,) * len(silver.sources) if loaded is None else loaded.begins
    found = [None if entry is None else delta_position(entry, place) for place in range(len(begins))]
    firsts = [DeltaPosition(begin, -1, "", in_snapshot=False) for begin in begins]
    return ReadUntil("", tuple(one or first for one, first in zip(found, firsts, strict=True)))
