"""Faults of a view's statement that are known before Spark starts, and the columns of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from common.declare import View
from common.declare.declared import source_of
from common.errors import Fault, Problem, SqlError
from common.sql.function_names import FUNCTIONS, NON_DETERMINISTIC
from common.sql.statement import Statement, functions_of, read_statement
from common.sql.way import way_of
from orchestration.author.check.names import each, name_faults
from orchestration.author.check.visible_columns import Scope, unknown


def view_problems(view: View, scopes: Mapping[str, Scope]) -> Iterator[Problem]:
    """Problems of one view.

    Args:
        view: The view.
        scopes: Columns of the silver tables, and of the gold tables that it may read.
    """
    yield from each(view.table, _faults(view, scopes), source_of(view))


def view_scope(view: View, scopes: Mapping[str, Scope]) -> Scope:
    """The columns of a view's table; none known where those of a source are not."""
    try:
        statement = read_view(view, scopes)
    except SqlError:
        statement = None
    return Scope(view.table, None if statement is None else tuple(map(unknown, statement.columns)))


def _faults(view: View, scopes: Mapping[str, Scope]) -> Iterator[str]:
    try:
        functions = functions_of(view.statement)
        statement = read_view(view, scopes)
    except SqlError as error:
        yield Fault("MED-1201", f"sql {error}")
        return
    for name in functions:
        if name in NON_DETERMINISTIC:
            yield Fault(
                "MED-1205",
                f"sql calls {name}(), whose value differs each time, so that the table could not be kept "
                "by changes; use a column of a row instead",
            )
        elif name not in FUNCTIONS:
            yield Fault("MED-1203", f"sql calls {name}(), which Spark does not have")
    if statement is None:
        return
    yield from name_faults(name for name in statement.columns if not name.startswith("_"))
    way = way_of(statement)
    if view.kept is not None and view.kept != way.kept:
        yield Fault("MED-1210", f"kept={view.kept!r}, but the statement is kept {way.kept}: {way.why}")


def read_view(view: View, scopes: Mapping[str, Scope]) -> Statement | None:
    """The statement of a view; None where the columns of a table are known only at job start.

    Raises:
        SqlError: It is not one SELECT statement, or names a column that there is not.
    """
    seen = {table: scopes[table].fields if table in scopes else None for table in view.tables}
    known = {table: [field.name for field in fields] for table, fields in seen.items() if fields is not None}
    return read_statement(view.statement, known) if len(known) == len(seen) else None
