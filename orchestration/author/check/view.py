"""Faults of a view's statement that are known before Spark starts, and the columns of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from common.config.paths import is_local
from common.declare import View
from common.declare.declared import is_in_catalog, is_outside, source_of
from common.errors import UNNAMED, Fault, MedallionError, Problem, SqlError, as_fault
from common.schema.ddl import DdlError, Field, parse
from common.sql.statement import Statement, read_statement
from common.sql.way import Way, decided, in_words, way_of
from common.typed.statement import argument_types, output_types, statement_mistakes
from orchestration.author.check.expression import told
from orchestration.author.check.names import each, name_faults
from orchestration.author.check.visible_columns import Scope, unknown

if TYPE_CHECKING:
    from common.delta.log import LogReader

_FEED = "delta.enableChangeDataFeed"


def view_problems(view: View, scopes: Mapping[str, Scope]) -> Iterator[Problem]:
    """Problems of one view.

    Args:
        scopes: Columns of the silver tables, and of the gold tables that it may read.
    """
    yield from each(view.table, _faults(view, scopes), source_of(view))


def view_scope(view: View, scopes: Mapping[str, Scope]) -> Scope:
    """The columns of a view's table; none known where those of a source are not."""
    try:
        statement = read_view(view, scopes)
        types = () if statement is None else output_types(view.statement, columns_of(view, scopes))
    except SqlError:
        statement = None
    if statement is None or not statement.columns:
        return Scope(view.table, None)
    fields = map(_column, statement.columns, types) if types else map(unknown, statement.columns)
    return Scope(view.table, tuple(fields))


def _column(name: str, type_: str) -> Field:
    with suppress(DdlError):
        return replace(parse(f"a {type_}")[0], name=name) if type_ else unknown(name)
    return unknown(name)


def _faults(view: View, scopes: Mapping[str, Scope]) -> Iterator[str]:
    if not view.tables:
        return  # a text that cannot be read is a mistake of the declaration
    for mistake in told(statement_mistakes(view.statement, columns_of(view, scopes))):
        yield view.fault(mistake.code, f"sql {mistake}", mistake.at)
    try:
        statement = read_view(view, scopes)
    except SqlError as error:
        for each_one in (error, *error.also):
            yield view.fault(each_one.code, f"sql {each_one}", each_one.at)
        return
    if statement is None:
        return
    for fault in name_faults(name for name in statement.columns if not name.startswith("_")):
        named = (at for name, at in statement.places.items() if repr(name) in fault)
        yield view.fault(as_fault(fault, UNNAMED).code, fault, next(named, None))
    lacking = without_feed(view)
    way = kept_so(view, statement, scopes, lacking)
    if view.kept is not None and view.kept != way.kept:
        text = f"kept={view.kept!r}, but the statement is kept {way.kept}: {in_words(way)}"
        yield view.table_fault("MED-1210", text, lacking[0]) if lacking else Fault("MED-1210", text)


def read_view(view: View, scopes: Mapping[str, Scope], *, remote: bool = False) -> Statement | None:
    """The statement of a view; None where columns are known only at job start, or it has no table.

    Args:
        remote: Whether an object store is asked for the columns of a table that is named by its URI.

    Raises:
        SqlError: It is not one SELECT statement, or names a column that there is not.
    """
    if not view.tables:
        return None
    known = columns_of(view, scopes, remote=remote)
    is_whole = len(known) == len(view.tables) and all(known.values())
    names = {table: [field.name for field in fields] for table, fields in known.items()}
    return read_statement(view.statement, names) if is_whole else None


def kept_so(view: View, statement: Statement, scopes: Mapping[str, Scope], lacking: Sequence[str]) -> Way:
    """The way in which a view is kept, as far as the types of its tables' columns are known.

    Args:
        lacking: The tables that keep no change data feed.
    """
    way = way_of(statement, lacking, declared=view.kept)
    return decided(way, argument_types(view.statement, columns_of(view, scopes))) if way.unsure else way


def columns_of(
    view: View, scopes: Mapping[str, Scope], *, remote: bool = False
) -> Mapping[str, Sequence[Field]]:
    """The columns of a view's tables, as far as they are known, with their types as far as these are."""
    known: dict[str, Sequence[Field]] = {}
    for table in view.tables:
        if is_outside(table):
            types = _of_log(table, lambda log: log.column_types(), remote=remote)
            known[table] = [_column(name, type_) for name, type_ in types.items()]
        elif table in scopes:
            known[table] = scopes[table].fields or ()
    return known


def without_feed(view: View, *, remote: bool = False) -> tuple[str, ...]:
    """The tables that a view names by their paths and that are known to keep no change data feed."""
    tables = [table for table in view.sources if is_outside(table)]
    found = {table: _of_log(table, _properties, remote=remote) for table in tables}
    return tuple(table for table, known in found.items() if known and known[_FEED] != "true")


def _properties(log: LogReader) -> Mapping[str, str]:
    return {} if log.latest_version() is None else {_FEED: "false", **log.properties()}


def _of_log(path: str, asked: Callable[[LogReader], Mapping[str, str]], *, remote: bool) -> Mapping[str, str]:
    """What the log of a table says; empty where there is none, or none that may be read."""
    from common.delta.log import LogReader  # pyarrow, which a pipeline without such tables does not need

    if is_in_catalog(path) or (not remote and not is_local(path)):
        return {}
    with suppress(MedallionError, OSError):
        return asked(LogReader(path))
    return {}
