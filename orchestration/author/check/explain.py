"""A gold table in words: its statement, and of a view the way, the key, and what a change reads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median_low
from typing import Literal

from common.config.paths import Layout
from common.declare import Pipeline, View
from common.declare.declared import is_path
from common.declare.statement import statement_of, unsaid
from common.errors import MedallionError, UsageError, nearest
from common.sql.relations import Joined, Keyed, Relation, scans
from common.sql.statement import Statement
from common.sql.way import Kept, Way, in_words, noted, whole
from orchestration.author.check.pipeline import table_scopes
from orchestration.author.check.view import kept_so, read_view, without_feed

_COMMITS = 10
"""The last so many commits of a table with rows say how many rows a usual one changes."""
_MOST_COMMITS = 100
"""So many commits are looked at for that: some have no rows."""


@dataclass(frozen=True, slots=True)
class _Size:
    """Rows of a table, and rows that a usual commit of it changes; None where it is not known."""

    rows: int | None
    changed: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much a micro-batch reads after a usual commit of a source; None where it is not known.

    Attributes:
        rows: All rows of the source.
        changed: Rows that the middle one of its last ten commits changed.
        read: Rows that the micro-batch reads, of all sources: keys that are spread evenly are assumed, and
            rows that meet as many rows as the rows of the view tell.
    """

    rows: int | None
    changed: int | None
    read: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A gold table; how it is kept is said of a view.

    Attributes:
        table: The table.
        statement: The SELECT whose rows it has; None where code of the pipeline makes them.
        unsaid: What its rows have besides the statement.
        columns: The output columns, as far as they are known.
        kept: ``by row``, ``by key`` or ``whole``; empty for other kinds.
        why: Why in this way.
        keys: The output columns by which rows are computed again, where it is kept by key.
        reads: What a micro-batch reads when a source has changed, by source.
        estimates: How many rows that are, by source, as far as the logs of the tables say it.
    """

    table: str
    statement: str | None
    unsaid: tuple[str, ...]
    columns: tuple[str, ...]
    kept: Kept | Literal[""] = ""
    why: str = ""
    keys: tuple[str, ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict)
    estimates: Mapping[str, Estimate] = field(default_factory=dict)


def explain(pipeline: Pipeline, table: str, layout: Layout | None = None) -> Explanation:
    """A gold table of a pipeline without problems.

    Args:
        pipeline: The pipeline.
        table: The table.
        layout: Where its tables are, whose logs say how many rows they have; unset: they are not read.

    Raises:
        UsageError: The pipeline has no such table, or columns of a view's source are known only at job start.
    """
    tables, scopes = {gold.table: gold for gold in pipeline.gold}, table_scopes(pipeline)
    if table not in tables:
        known = [*tables]
        raise UsageError(
            f"{table} is no gold table of this pipeline; "
            + (nearest(table, known) if known else "it declares none: medallion check lists its tables")
        )
    view = tables[table]
    if not isinstance(view, View):
        names = {name: [one.name for one in scope.fields or ()] for name, scope in scopes.items()}
        return Explanation(table, statement_of(view, names), tuple(unsaid(view)), tuple(names[table]))
    statement = read_view(view, scopes, remote=True)
    if statement is None:
        by_path = ", or a path without a Delta table" if any(map(is_path, view.tables)) else ""
        raise UsageError(f"{table} reads a table whose columns are known only when the job starts{by_path}")
    way = kept_so(view, statement, scopes, without_feed(view, remote=True))
    if layout is not None and (why := _found_at_a_start(table, statement, layout.table_path(table))):
        way = whole(why)
    estimates = _estimates(table, statement, way, _sizes(table, statement, layout))
    of_view = (way.kept, in_words(way), tuple(way.keys), _reads(statement, way), estimates)
    return Explanation(table, statement.text, (), statement.columns, *of_view)


def _found_at_a_start(table: str, statement: Statement, path: str) -> str:
    """Why a job keeps the view whole although its text has rules for changes; empty where none does."""
    from common.delta.match.checkpoint_match import last_commit_metadata  # pyarrow, as below

    with suppress(MedallionError, OSError):
        last = last_commit_metadata(path, table) or {}
        return noted(statement, last.get("counts", {}))
    return ""


def _sizes(table: str, statement: Statement, layout: Layout | None) -> Mapping[str, _Size]:
    """The sizes of a view's sources, and of the view itself."""
    if layout is None:
        return {}
    return {each: _size(layout.table_path(each)) for each in (*statement.tables, table)}


def _size(path: str) -> _Size:
    from common.delta.log import LogReader  # pyarrow, which a check does not need

    log, changed = LogReader(path), list[int]()
    with suppress(MedallionError, OSError):
        latest = log.latest_version()
        for version in range(-1 if latest is None else latest, -1, -1):
            commit = log.commit(version)
            if commit is None or len(changed) == _COMMITS or (latest or 0) - version > _MOST_COMMITS:
                break
            if (commit.added or commit.removed) and commit.changed_rows is not None:
                changed.append(commit.changed_rows)
        snapshot = log.snapshot()
        middle = median_low(changed) if changed else None
        return _Size(None if snapshot is None else snapshot.rows, middle)
    return _Size(None, None)


def _estimates(
    table: str, statement: Statement, way: Way, sizes: Mapping[str, _Size]
) -> Mapping[str, Estimate]:
    rows = {each: sizes[each].rows for each in statement.tables if each in sizes}
    known = {each: float(count) for each, count in rows.items() if count is not None}
    made = sizes[table].rows if table in sizes else None
    found = {}
    for source in statement.tables:
        changed = sizes[source].changed if source in sizes else None
        is_known = len(known) == len(statement.tables) and changed is not None
        read = _read(source, statement, way, known, changed or 0, made) if is_known else None
        found[source] = Estimate(rows.get(source), changed, None if read is None else round(read))
    return found


def _read(  # noqa: PLR0913, PLR0917  # what an estimate is made of
    table: str, statement: Statement, way: Way, rows: Mapping[str, float], changed: int, made: int | None
) -> float | None:
    """The rows that a micro-batch reads after a commit that changes some rows of a table.

    Args:
        table: The table that has changed.
        statement: The view's statement.
        way: The way in which it is kept.
        rows: The rows of its tables.
        changed: The rows that have changed.
        made: The rows of the view; None where it is not there yet.
    """
    if way.kept == "whole" or statement.relation is None:
        return sum(rows.values())
    if way.top is None:
        meets = max(1.0, made / rows[table]) if made is not None and rows[table] else 1.0
        return changed + _rows_met(statement.relation, table, rows, changed * meets)
    if (made is None or way.top.kind == "window") and way.top.keys:
        return None  # the number of keys is not known
    keys = made if made is not None and way.top.keys else 1
    share = 1 - (1 - 1 / keys) ** changed if keys > 1 else 1.0  # of the keys, by rows of any of them
    return changed + _rows_met(way.top.input, table, rows, changed) + share * sum(rows.values())


def _rows_met(below: Relation, table: str, rows: Mapping[str, float], most: float) -> float:
    met = _met(below, table).items()
    return sum(rows[other] if is_whole else min(rows[other], most) for other, is_whole in met)


def _reads(statement: Statement, way: Way) -> Mapping[str, str]:
    if way.kept == "whole" or statement.relation is None:
        return dict.fromkeys(statement.tables, "all rows of all sources; only rows that differ are written")
    below = statement.relation if way.top is None else way.top.input
    return {table: _of_change(table, _met(below, table), way) for table in statement.tables}


def _of_change(table: str, met: Mapping[str, bool], way: Way) -> str:
    text = "its changed rows"
    if some := sorted(other for other, is_whole in met.items() if not is_whole):
        text += f", and the rows of {' and '.join(some)} that they meet"
    if whole := sorted(other for other, is_whole in met.items() if is_whole):
        text += f", and all rows of {' and '.join(whole)}"
    if way.kept == "by key":
        again = f"the rows of the touched {', '.join(way.keys)} in all sources, and in the table"
        text += f"; then {again}" if way.keys else "; if any is left, then all rows of all sources"
    return text


def _met(relation: Relation, table: str) -> Mapping[str, bool]:
    """The tables whose rows a change of one reads by the delta rule, itself among them; True: all rows."""
    found: dict[str, bool] = {}
    for each in relation.inputs:
        if not _names(each, table):
            continue
        for other, is_whole in _met(each, table).items():
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


def _names(relation: Relation, table: str) -> bool:
    return any(scan.table == table for scan in scans(relation))
