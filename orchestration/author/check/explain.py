"""How a view is kept, in words: its sources, the way, the key, and what a change of each source reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.declare import Pipeline, View
from common.errors import UsageError, nearest
from common.sql.statement import Statement
from common.sql.way import Kept, Way, way_of
from orchestration.author.check.pipeline import table_scopes
from orchestration.author.check.view import read_view


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
    statement = read_view(views[table], table_scopes(pipeline))
    if statement is None:
        raise UsageError(f"{table} reads a table whose columns are known only when the job starts")
    way = way_of(statement)
    return Explanation(table, way.kept, way.why, tuple(way.keys), statement.columns, _reads(statement, way))


def _reads(statement: Statement, way: Way) -> Mapping[str, str]:
    if way.kept == "whole":
        return dict.fromkeys(statement.tables, "all rows of all sources; only rows that differ are written")
    return {table: _of_change(table, statement.tables, way) for table in statement.tables}


def _of_change(table: str, tables: Sequence[str], way: Way) -> str:
    others = [other for other in tables if other != table]
    text = "its changed rows"
    if others:
        text += f", and the rows of {' and '.join(others)} that they meet"
    if way.kept == "by key":
        text += f"; then the rows of the touched {', '.join(way.keys)} in all sources, and in the table"
    return text
