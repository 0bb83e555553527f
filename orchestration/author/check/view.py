"""Faults of a view's statement that are known before Spark starts, and the columns of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from common.config.paths import is_local
from common.declare import View
from common.declare.declared import is_path, source_of
from common.errors import Fault, MedallionError, Problem, SqlError
from common.sql.function_names import FUNCTIONS, NON_DETERMINISTIC
from common.sql.statement import Statement, functions_of, read_statement
from common.sql.way import way_of
from orchestration.author.check.names import each, name_faults
from orchestration.author.check.visible_columns import Scope, unknown

if TYPE_CHECKING:
    from common.delta.log import LogReader

_FEED = "delta.enableChangeDataFeed"


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
    way = way_of(statement, without_feed(view))
    if view.kept is not None and view.kept != way.kept:
        yield Fault("MED-1210", f"kept={view.kept!r}, but the statement is kept {way.kept}: {way.why}")


def read_view(view: View, scopes: Mapping[str, Scope], *, remote: bool = False) -> Statement | None:
    """The statement of a view; None where the columns of a table are known only at job start.

    Args:
        view: The view.
        scopes: The columns of the pipeline's tables.
        remote: Whether an object store is asked for the columns of a table that is named by its URI.

    Raises:
        SqlError: It is not one SELECT statement, or names a column that there is not.
    """
    known: dict[str, Sequence[str]] = {}
    for table in view.tables:
        if is_path(table):
            known[table] = [*_of_log(table, lambda log: log.column_types(), remote=remote)]
        elif table in scopes:
            known[table] = [field.name for field in scopes[table].fields or ()]
    is_whole = len(known) == len(view.tables) and all(known.values())
    return read_statement(view.statement, known) if is_whole else None


def without_feed(view: View, *, remote: bool = False) -> tuple[str, ...]:
    """The tables that a view names by their paths and that are known to keep no change data feed."""
    tables = [table for table in view.sources if is_path(table)]
    found = {table: _of_log(table, _properties, remote=remote) for table in tables}
    return tuple(table for table, known in found.items() if known and known[_FEED] != "true")


def _properties(log: LogReader) -> Mapping[str, str]:
    return {} if log.latest_version() is None else {_FEED: "false", **log.properties()}


def _of_log(path: str, asked: Callable[[LogReader], Mapping[str, str]], *, remote: bool) -> Mapping[str, str]:
    """What the log of a table says; empty where there is none, or none that may be read."""
    from common.delta.log import LogReader  # pyarrow, which a pipeline without such tables does not need

    if not remote and not is_local(path):
        return {}
    with suppress(MedallionError, OSError):
        return asked(LogReader(path))
    return {}
