"""Mistakes of cases that can be known before a case runs. Starts nothing, and needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from common.declare import Pipeline
from common.errors import Problem, nearest
from common.schema.ddl import Field
from orchestration.author.cases.compare import wanted_in
from orchestration.author.cases.read.case import Case, Place, TextTable
from orchestration.author.cases.read.cells import CellError
from orchestration.author.cases.tables import query_of, topic_problem, unknown_table
from orchestration.author.check.pipeline import table_scopes
from orchestration.author.check.visible_columns import Scope


def case_problems(cases: Iterable[Case], pipeline: Pipeline) -> tuple[Problem, ...]:
    """The mistakes of cases of one pipeline: topics, tables, columns and cells that do not fit it."""
    scopes = table_scopes(pipeline)
    return tuple(problem for case in cases for problem in _problems(case, pipeline, scopes))


def _problems(case: Case, pipeline: Pipeline, scopes: Mapping[str, Scope]) -> Iterator[Problem]:
    what = f"case {case.name!r}"
    for record in case.records:
        if (problem := topic_problem(record, pipeline, what)) is not None:
            yield problem
    known = {lookup.name for silver in pipeline.silver for lookup in silver.lookups}
    for name, table in case.lookups.items():
        if name not in known:
            yield Problem(what, f"no rule looks up {name!r}; {nearest(name, known)}", str(table.place))
    for name, table in case.expect.items():
        if query_of(pipeline, name) is None:
            yield Problem(what, unknown_table(pipeline, name), str(table.place))
        else:
            yield from _table_problems(what, name, table, scopes.get(name))


def _table_problems(what: str, name: str, table: TextTable, scope: Scope | None) -> Iterator[Problem]:
    if scope is None or scope.fields is None:
        return
    known: Mapping[str, Field] = {field.name: field for field in scope.fields}
    for column in table.columns:
        if column not in known:
            text = f"{name} has no column {column!r}; {nearest(column, known)}"
            yield Problem(what, text, str(table.place))
    for cells, line in zip(table.rows, table.lines, strict=True):
        for column, cell in zip(table.columns, cells, strict=True):
            if column in known and known[column].type:
                try:
                    wanted_in(column, cell, known[column])
                except CellError as error:
                    yield Problem(f"{what}, {name}", str(error), str(Place(table.place.file, line)))
