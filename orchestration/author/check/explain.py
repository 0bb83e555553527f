"""A gold table in words: its statement, and of a view the way, the key, and what a change reads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, Literal

from common.config.paths import Layout
from common.declare import Pipeline, View
from common.declare.declared import is_outside
from common.declare.gold_statement import statement_of, unsaid
from common.errors import MedallionError, UsageError, nearest
from common.sql.cost import TAKEN, Sizes, chosen, met, rows_read
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
    """How much a micro-batch reads after a usual commit of a source; None where it is not known."""

    rows: int | None  # all rows of the source
    changed: int | None  # rows that the middle one of its last ten commits changed
    # Rows that the micro-batch reads, of all sources: keys that are spread evenly are assumed, and rows that
    # meet as many rows as the rows of the view tell.
    read: int | None
    kept: Kept | Literal[""] = ""  # the way that such a micro-batch takes; empty where it is not known


@dataclass(frozen=True, slots=True)
class Explanation:
    """A gold table; how it is kept is said of a view."""

    table: str
    statement: str | None  # the SELECT whose rows it has; None where code of the pipeline makes them
    unsaid: tuple[str, ...]  # what its rows have besides the statement
    columns: tuple[str, ...]  # the output columns, as far as they are known
    kept: Kept | Literal[""] = ""  # ``by row``, ``by key`` or ``whole``; empty for other kinds
    why: str = ""  # why in this way
    keys: tuple[str, ...] = ()  # the output columns by which rows are computed again, where it is kept by key
    # What a micro-batch reads when a source has changed, by source.
    reads: Mapping[str, str] = field(default_factory=dict)
    # How many rows that are, by source, as far as the logs of the tables say it.
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    last: str = ""  # the way that its last micro-batch took, and why, where it had a choice


def explain(pipeline: Pipeline, table: str, layout: Layout | None = None) -> Explanation:
    """A gold table of a pipeline without problems.

    Args:
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
        by_path = ", or a path without a Delta table" if any(map(is_outside, view.tables)) else ""
        raise UsageError(f"{table} reads a table whose columns are known only when the job starts{by_path}")
    way = kept_so(view, statement, scopes, without_feed(view, remote=True))
    counts = {} if layout is None else _last_counts(table, layout.table_path(table))
    if why := noted(statement, counts):  # a job has found it out
        way = whole(why)
    estimates = _estimates(view, statement, way, _sizes(table, statement, layout))
    last = "{way}: {why}".format(**counts[TAKEN]) if TAKEN in counts else ""
    of_view = (way.kept, in_words(way), tuple(way.keys), _reads(statement, way), estimates, last)
    return Explanation(table, statement.text, (), statement.columns, *of_view)


def _last_counts(table: str, path: str) -> Mapping[str, Any]:
    """The counts of the last commit of a view's query; empty where there is none."""
    from common.delta.match.checkpoint_match import last_commit_metadata  # pyarrow, as below

    with suppress(MedallionError, OSError):
        if (last := last_commit_metadata(path, table)) is not None:
            return dict(last.get("counts", {}))
    return {}


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
    view: View, statement: Statement, way: Way, sizes: Mapping[str, _Size]
) -> Mapping[str, Estimate]:
    rows = {each: sizes[each].rows for each in statement.tables if each in sizes}
    known = {each: float(count) for each, count in rows.items() if count is not None}
    made = sizes[view.table].rows if view.table in sizes else None
    found = {}
    for source in statement.tables:
        changed = sizes[source].changed if source in sizes else None
        if len(known) < len(statement.tables) or changed is None:
            found[source] = Estimate(rows.get(source), changed, None)
            continue
        of_commit = dict.fromkeys(statement.tables, 0) | {source: changed}
        taken = chosen(statement, way, Sizes(rows, of_commit, made)) if view.kept is None else way
        read = rows_read(source, statement, taken, known, changed, made)
        found[source] = Estimate(rows[source], changed, None if read is None else round(read), taken.kept)
    return found


def _reads(statement: Statement, way: Way) -> Mapping[str, str]:
    if way.kept == "whole" or statement.relation is None:
        return dict.fromkeys(statement.tables, "all rows of all sources; only rows that differ are written")
    below = statement.relation if way.top is None else way.top.input
    return {table: _of_change(table, met(below, table), way) for table in statement.tables}


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
