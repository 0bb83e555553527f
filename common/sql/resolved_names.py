"""The columns of a statement with their tables, and those that no table of it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from common.errors import SqlError, nearest
from common.sql.places import offset_of

_DIALECT = "spark"
_MOST = 20
"""Most wrong names that are told of one statement."""
_NAMED = re.compile(
    r"(?:Ambiguous column|Column|Unknown column:|Unknown table:) '?(?P<name>.+?)'?"
    r"(?: could not be resolved.*|\.?(?: \(Line: .*)?)"
)


def resolve(
    root: exp.Query, columns: Mapping[str, Sequence[str]], further: Sequence[str]
) -> tuple[exp.Query, tuple[SqlError, ...]]:
    """The statement with the table of each of its columns, and a mistake for each name that there is not.

    Args:
        root: The statement; is changed.
        columns: The columns of each table of its FROM, by the name that it has there.
        further: Names of columns that the statement itself gives.
    """
    schema: dict[str, object] = {table: dict.fromkeys(given, "unknown") for table, given in columns.items()}
    faults: list[SqlError] = []
    while True:
        tried = root.copy()
        try:
            qualified = qualify(tried, schema=schema, dialect=_DIALECT)
        except OptimizeError as error:
            text = str(error).split("\n", 1)[0].replace("`", "'")
            wrong = _wrong(text, tried, columns)
            if wrong is None or len(faults) == _MOST:
                faults = faults or [SqlError(f"cannot be read: {text.rstrip('.')}")]
                return root, _in_order(faults)
            written = _written(root, wrong)
            faults.append(_told(wrong, written, columns, further))
            if written is wrong:
                return root, _in_order(faults)
            written.replace(exp.null())  # so that the next wrong name is found
            continue
        assert isinstance(qualified, exp.Query)  # what went in  # noqa: S101
        return qualified, _in_order(faults)


def _in_order(faults: Sequence[SqlError]) -> tuple[SqlError, ...]:
    return tuple(sorted(faults, key=lambda each: each.at or 0))


def _wrong(text: str, tried: exp.Query, columns: Mapping[str, Sequence[str]]) -> exp.Column | None:
    """The first column that a text of sqlglot's is about; None if it is about something else."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return None
    name = found["name"].lower()
    if text.startswith("Unknown table:"):
        return _first(each for each in tried.find_all(exp.Column) if each.table.lower() == name)
    named = [each for each in tried.find_all(exp.Column) if each.name.lower() == name]
    if text.startswith("Unknown column:"):
        return _first(each for each in named if _lacks(each, columns)) or _first(iter(named))
    unknown = {
        id(each)
        for scope in traverse_scope(tried)
        for each in (*scope.unqualified_columns, *scope.external_columns)
    }
    return _first(each for each in named if id(each) in unknown) or _first(iter(named))


def _first(found: Iterator[exp.Column]) -> exp.Column | None:
    return min(found, key=lambda each: offset_of(each) or 0, default=None)


def _tables(column: exp.Column) -> dict[str, str]:
    """The tables that a column may belong to: alias, lower-case -> the table's name; empty of a query."""
    found: dict[str, str] = {}
    select = column.find_ancestor(exp.Select)
    while select is not None:
        from_ = select.args.get("from_")
        joined = [join.this for join in select.args.get("joins") or ()]
        for source in ([from_.this] if from_ is not None else []) + joined:
            found.setdefault(source.alias_or_name.lower(), source.name if _is_table(source) else "")
        select = select.find_ancestor(exp.Select)
    return found


def _is_table(source: exp.Expr) -> bool:
    return isinstance(source, exp.Table)


def _lacks(column: exp.Column, columns: Mapping[str, Sequence[str]]) -> bool:
    """Whether a column names a table that has no such column."""
    given = columns.get(_tables(column).get(column.table.lower(), ""))
    return given is not None and column.name.lower() not in {each.lower() for each in given}


def _written(root: exp.Query, column: exp.Column) -> exp.Column:
    """A column as the statement has it, in its own letters; the same one where its place is not known."""
    at = offset_of(column)
    found = (each for each in root.find_all(exp.Column) if offset_of(each) == at)
    return column if at is None else next(found, column)


def _told(
    column: exp.Column,
    written: exp.Column,
    columns: Mapping[str, Sequence[str]],
    further: Sequence[str],
) -> SqlError:
    """The mistake of a column; the nearest word is one of the table that it names, or of all."""
    tables = _tables(column)
    alias, name = written.table, written.name
    at = offset_of(written.this)
    lower = name.lower()
    having = [each for each, table in tables.items() if lower in map(str.lower, columns.get(table, ()))]
    if having and not alias:
        shown = " and ".join(having) if len(having) > 1 else "several of its tables"
        return SqlError(
            f"names {name!r}, which {shown} have; write {having[0]}.{name}", name, at=at, code="MED-1202"
        )
    if alias and alias.lower() not in tables:
        own = [each for each in tables if each]
        return SqlError(
            f"names {alias!r}, which is no table of its FROM; {nearest(alias, own)}",
            alias,
            at=offset_of(written),
            code="MED-1202",
        )
    given = columns.get(tables.get(alias.lower(), "")) if alias else None
    known = given if given is not None else {*further, *(each for own in columns.values() for each in own)}
    if not name.startswith("_"):
        known = [each for each in known if not each.startswith("_")]  # the engine's own
    whose = f"column of {alias}" if alias else "column of its tables"
    return SqlError(
        f"names {name!r}, which is no {whose}; {nearest(name, known)}", name, at=at, code="MED-1202"
    )
