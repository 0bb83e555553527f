"""What a micro-batch of a view is about to cost by changes and whole, and which of the two it takes. Pure.

Costs are estimates in seconds of CPU. The factors follow from W16 and W17 of the bench (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from common.sql.relations import Joined, Keyed, Relation, below, scans
from common.sql.statement import Statement
from common.sql.way import Way, whole

TAKEN = "kept"
"""In the counts of a view's commit: the way that its micro-batch took, where it had a choice, and why."""

_STEP, _WHOLE = 0.35, 1.3
"""Of a step by changes, and of all rows computed and compared, however few rows there are."""

_OF_KEYS = 4
"""Steps of a relation whose rows follow from keys: those that are touched, and their rows before and now."""

_BY_CHANGES, _SCANNED = 2.5e-6, 0.25e-6
"""Of a row that is read by changes; of one that is read whole."""

_COMPARED, _EXCHANGED = 6e-6, 40e-6
"""Of a row of the view that is compared; of one that is taken away and added by row."""

_MOST = 1.2
"""By changes may be so many times as dear: it rewrites no row for a last digit, and follows the change."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows, as far as the logs of tables say it; None where one does not."""

    rows: Mapping[str, int | None]  # all rows of each table of a statement
    changed: Mapping[str, int | None]  # the rows of each that are changed
    made: int | None  # the rows of the view


def chosen(statement: Statement, way: Way, sizes: Sizes) -> Way:
    """The cheaper way for a micro-batch, and why; that of the statement where too little is known."""
    if way.kept == "whole" or statement.relation is None:
        return way
    rows = {table: float(count) for table, count in sizes.rows.items() if count is not None}
    changed = {table: count for table, count in sizes.changed.items() if count}
    if len(rows) < len(statement.tables) or sizes.made is None or None in sizes.changed.values():
        return way
    scanned = sum(rows[scan.table] for scan in scans(statement.relation))
    again = _WHOLE + scanned * _SCANNED + sizes.made * _COMPARED
    steps = _steps(statement.relation, changed)
    if way.top is not None and not way.top.keys:  # if the change passes the conditions, all are read
        read, by_changes = scanned, again
    else:
        each = (rows_read(table, statement, way, rows, count, sizes.made) for table, count in changed.items())
        pairs = zip(changed.values(), each, strict=True)  # of unknown keys: the change, and it once more
        read = sum(2 * count if found is None else found for count, found in pairs)
        share = min(1.0, sum(changed.values()) / max(1.0, scanned))
        made = (
            _COMPARED * sizes.made * share if way.top else _EXCHANGED * _exchanged(sizes.made, rows, changed)
        )
        by_changes = read * _BY_CHANGES + made
    by_changes += steps * _STEP
    why = (
        f"about {by_changes:.2g} CPU s {way.kept}, where it reads {read:,.0f} rows in "
        f"{steps} step{'s' * (steps > 1)}, and {again:.2g} whole, where it reads {scanned:,.0f} and compares "
        f"{sizes.made:,}"
    )
    return whole(why) if again * _MOST < by_changes else replace(way, why=why)


def _exchanged(made: int, rows: Mapping[str, float], changed: Mapping[str, int]) -> float:
    """The rows of a view that changed rows of its tables are part of, if all are part of as many."""
    return min(made, sum(count * max(1.0, made / max(1.0, rows[table])) for table, count in changed.items()))


def _steps(relation: Relation, changed: Mapping[str, int]) -> int:
    """How many steps compute the changes of what stands above tables that have changed; the commit is one."""
    return 1 + sum(
        1 if isinstance(each, Joined) and each.is_linear else _OF_KEYS
        for each in below(relation)
        if isinstance(each, Joined | Keyed) and any(scan.table in changed for scan in scans(each))
    )


def rows_read(  # noqa: PLR0913, PLR0917  # what an estimate is made of
    table: str, statement: Statement, way: Way, rows: Mapping[str, float], changed: int, made: int | None
) -> float | None:
    """The rows that a micro-batch reads after a commit that changes some rows of a table.

    Keys that are spread evenly are assumed, and rows that meet as many rows as the rows of the view tell.

    Args:
        made: The rows of the view; None where it is not there yet.

    Returns:
        None where the number of its keys is not known.
    """
    if way.kept == "whole" or statement.relation is None:
        return sum(rows.values())
    if way.top is None:
        meets = max(1.0, made / rows[table]) if made is not None and rows[table] else 1.0
        return changed + _rows_met(statement.relation, table, rows, changed * meets)
    if (made is None or way.top.kind == "window") and way.top.keys:
        return None
    keys = made if made is not None and way.top.keys else 1
    share = 1 - (1 - 1 / keys) ** changed if keys > 1 else 1.0  # of the keys, by rows of any of them
    return changed + _rows_met(way.top.input, table, rows, changed) + share * sum(rows.values())


def _rows_met(relation: Relation, table: str, rows: Mapping[str, float], most: float) -> float:
    found = met(relation, table).items()
    return sum(rows[other] if is_whole else min(rows[other], most) for other, is_whole in found)


def met(relation: Relation, table: str) -> Mapping[str, bool]:
    """The tables whose rows a change of one reads by the delta rule, itself among them; True: all rows."""
    found: dict[str, bool] = {}
    for each in relation.inputs:
        if not any(scan.table == table for scan in scans(each)):
            continue
        for other, is_whole in met(each, table).items():
            found[other] = found.get(other, False) or is_whole
        if isinstance(relation, Keyed) or (isinstance(relation, Joined) and not relation.is_linear):
            read = [*relation.inputs]  # computed again for the touched keys, from both sides
        else:
            read = [one for one in relation.inputs if one is not each] if isinstance(relation, Joined) else []
        is_whole = (isinstance(relation, Joined) and not relation.equal) or (
            isinstance(relation, Keyed) and not relation.keys
        )
        for scan in (scan for one in read for scan in scans(one)):
            found[scan.table] = found.get(scan.table, False) or is_whole
    return found
