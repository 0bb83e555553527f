"""What the columns of a view are computed from: exactly, through every part of its statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap

from sqlglot import exp

from common.declare import View
from common.errors import SqlError
from common.sql.expression import analyze
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll, as_named
from common.sql.statement import Statement, read_statement
from common.sql.syntax import parse_text, text_of
from orchestration.observe.lineage.sources import ColumnSources, Kind, Source, Sources, of_all, once

_Columns = Mapping[str, Sources]


def of_view(view: View, own: Sequence[str], columns: Mapping[str, Sequence[str]]) -> ColumnSources:
    """The sources of a view.

    A statement without relations (``LIMIT``, a subquery as a value) is not followed: each of its columns then
    comes from all columns of all of its tables.

    Args:
        own: The columns of its table; empty: those of the statement.
        columns: The columns of the tables that it reads.
    """
    statement = _read(view, columns)
    if statement is None or statement.relation is None:
        every = [of_all(own, table, columns.get(table, ())) for table in view.tables]
        return ColumnSources({name: once(*(each[name] for each in every)) for name in own})
    found, rows = _followed(statement.relation)
    return ColumnSources({name: found[name] for name in own or found if name in found}, rows)


def _read(view: View, columns: Mapping[str, Sequence[str]]) -> Statement | None:
    try:
        return read_statement(view.statement, {table: columns.get(table, ()) for table in view.tables})
    except SqlError:
        return None


def _followed(relation: Relation) -> tuple[_Columns, Sources]:
    """The sources of each column of a relation, and those that decide about its rows."""
    if isinstance(relation, Scan):
        return {name: (Source(relation.table, column, "IDENTITY"),) for column, name in relation.read}, ()
    below = [_followed(each) for each in relation.inputs]
    rows = once(*(rows for _, rows in below))
    if isinstance(relation, UnionAll):
        parts = [
            [found[name] for name in each.columns]
            for each, (found, _) in zip(relation.inputs, below, strict=True)
        ]
        return dict(zip(relation.columns, starmap(once, zip(*parts, strict=True)), strict=True)), rows
    inner = {name: sources for found, _ in below for name, sources in found.items()}
    found = {name: inner[name] for name in relation.columns if name in inner}
    if isinstance(relation, Joined):
        return found, once(rows, *_deciding(relation.conditions, inner, "JOIN"))
    computed, decide = _read_text(relation, inner)
    return {name: (found | computed)[name] for name in relation.columns}, once(rows, *decide)


def _read_text(relation: RowWise | Keyed, inner: _Columns) -> tuple[dict[str, Sources], list[Sources]]:
    """The sources of what a relation computes, by column, and of what decides about its rows."""
    text = relation.text() if isinstance(relation, RowWise) else relation.text
    (select,) = parse_text(text)
    assert isinstance(select, exp.Select)  # written so by the statement's reader  # noqa: S101
    made = [
        *((each.expressions, each.this) for each in select.expressions if isinstance(each, exp.Aliases)),
        *((each.args["alias"].columns, each.this) for each in select.args.get("laterals") or ()),
    ]
    columns = {name.name: _derived(text_of(text, node), inner) for names, node in made for name in names}
    for each in select.expressions:
        if not isinstance(each, exp.Star | exp.Aliases):
            columns[each.alias_or_name] = _derived(text_of(text, each.unalias()), inner)
    conditions = [each.this for each in map(select.args.get, ("where", "having")) if each is not None]
    orders = [window.args.get("order") for window in select.find_all(exp.Window)]
    ordered = [each.this for order in orders if order is not None for each in order.expressions]
    decide = _deciding((text_of(text, each) for each in conditions), inner, "FILTER")
    if isinstance(relation, Keyed):
        decide += _deciding(relation.keys, inner, "WINDOW" if relation.kind == "window" else "GROUP_BY")
    return columns, decide + _deciding((text_of(text, each) for each in ordered), inner, "SORT")


def _derived(text: str, inner: _Columns) -> Sources:
    """The sources of an expression; a sum of a product is an aggregation of the product's columns."""
    facts = analyze(text)
    if facts.path is not None and len(facts.path) == 1:
        return inner.get(facts.path[0], ())
    shown = " ".join(as_named(text).split())
    found = [
        Source(
            each.table,
            each.column,
            "AGGREGATION" if facts.aggregates or each.kind == "AGGREGATION" else "TRANSFORMATION",
            shown,
        )
        for path in facts.columns
        for each in inner.get(path[0], ())
    ]
    return once(found)


def _deciding(texts: Iterable[str], inner: _Columns, kind: Kind) -> list[Sources]:
    found = (inner.get(path[0], ()) for text in texts for path in analyze(text).columns)
    return [tuple(Source(each.table, each.column, kind) for each in sources) for sources in found]
