"""How a view is kept, in words: its sources, the way, the key, and what a change of each source reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.declare import Pipeline, View
from common.declare.declared import is_path
from common.errors import UsageError, nearest
from common.sql.relations import Joined, Keyed, Relation, scans
from common.sql.statement import Statement
from common.sql.way import Kept, Way, way_of
from orchestration.author.check.pipeline import table_scopes
from orchestration.author.check.view import read_view, without_feed


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a view is kept.

    Attributes:
        table: The view's table.
        kept: ``by row``, ``by key`` or ``whole``.
        why: Why in this way.
        keys: The output columns by which rows are computed again, where it is kept by key.
        columns: The output columns.
        reads: What a micro-batch reads when a source has changed, by source.
    """

    table: str
    kept: Kept
    why: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    reads: Mapping[str, str]


def explain(pipeline: Pipeline, table: str) -> Explanation:
    """How a view of a pipeline without problems is kept.

    Raises:
        UsageError: The pipeline has no such view, or columns of a source are known only at job start.
    """
    views = {gold.table: gold for gold in pipeline.gold if isinstance(gold, View)}
    if table not in views:
        known = [*views]
        raise UsageError(
            f"{table} is no view of this pipeline; "
            + (nearest(table, known) if known else "it declares none: medallion check lists its tables")
        )
    view = views[table]
    statement = read_view(view, table_scopes(pipeline), remote=True)
    if statement is None:
        by_path = ", or a path without a Delta table" if any(map(is_path, view.tables)) else ""
        raise UsageError(f"{table} reads a table whose columns are known only when the job starts{by_path}")
    way = way_of(statement, without_feed(view, remote=True))
    return Explanation(table, way.kept, way.why, tuple(way.keys), statement.columns, _reads(statement, way))


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
        text += f"; then the rows of the touched {', '.join(way.keys)} in all sources, and in the table"
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
        is_whole = isinstance(relation, Joined) and not relation.equal
        for scan in (scan for one in read for scan in scans(one)):
            found[scan.table] = found.get(scan.table, False) or is_whole
    return found


def _names(relation: Relation, table: str) -> bool:
    return any(scan.table == table for scan in scans(relation))
