"""What the columns of a statement are computed from: exactly, through every part of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap

from sqlglot import exp

from common.errors import SqlError
from common.sql.expression import Path, analyze
from common.sql.functions import AGGREGATES
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll, as_named
from common.sql.statement import read_statement, tables_of
from common.sql.syntax import arguments, called, inner_call, parse_text, replaced, span_of, text_of
from orchestration.observe.lineage.sources import ColumnSources, Kind, Source, Sources, of_all, once

_Columns = Mapping[str, Sources]


class _Computed(tuple[Source, ...]):  # noqa: SLOT001  # it has attributes
    """The sources of an expression, with those of each field of a struct, and whether it is a rank."""

    fields: Mapping[str, Sources]
    is_rank: bool

    @classmethod
    def of(cls, sources: Sources, fields: Mapping[str, Sources], *, is_rank: bool) -> _Computed:
        """The sources, and what is known beside them."""
        found = cls(sources)
        found.fields, found.is_rank = fields, is_rank
        return found


def of_statement(sql: str, own: Sequence[str], columns: Mapping[str, Sequence[str]]) -> ColumnSources:
    """The sources of a table that a statement defines.

    A statement without relations (``LIMIT``) is not followed: each of its columns then
    comes from all columns of all of its tables.

    Args:
        own: The columns of its table; empty: those of the statement.
        columns: The columns of the tables that it reads.
    """
    tables = {table: columns.get(table, ()) for table in tables_of(sql)}
    try:
        relation = read_statement(sql, tables).relation
    except SqlError:
        relation = None
    if relation is None:
        every = [of_all(own, table, known) for table, known in tables.items()]
        return ColumnSources({name: once(*(each[name] for each in every)) for name in own})
    found, rows = _followed(relation)
    return ColumnSources({name: found[name] for name in own or relation.columns if name in found}, rows)


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
        return found, once(*_deciding(relation.conditions, inner, "JOIN"), rows)
    computed, decide = _read_text(relation, inner)
    return {name: (found | computed)[name] for name in relation.columns}, once(*decide, rows)


def _read_text(relation: RowWise | Keyed, inner: _Columns) -> tuple[dict[str, Sources], list[Sources]]:
    """The sources of what a relation computes, by column, and of what decides about its rows."""
    text = relation.text() if isinstance(relation, RowWise) else relation.text
    (select,) = parse_text(text)
    assert isinstance(select, exp.Select)  # written so by the statement's reader  # noqa: S101
    made = [
        *((each.expressions, each.this) for each in select.expressions if isinstance(each, exp.Aliases)),
        *((each.args["alias"].columns, each.this) for each in select.args.get("laterals") or ()),
    ]
    columns = {name.name: _derived(text, node, inner) for names, node in made for name in names}
    for each in select.expressions:
        if not isinstance(each, exp.Star | exp.Aliases):
            columns[each.alias_or_name] = _derived(text, each.unalias(), inner)
    conditions = [each.this for each in map(select.args.get, ("where", "having")) if each is not None]
    orders = [window.args.get("order") for window in select.find_all(exp.Window)]
    ordered = [each.this for order in orders if order is not None for each in order.expressions]
    decide: list[Sources] = []
    if isinstance(relation, Keyed):
        decide = _deciding(relation.keys, inner, "WINDOW" if relation.kind == "window" else "GROUP_BY")
    for pivot in select.find_all(exp.Pivot):
        values = once(*(_derived(text, each.unalias(), inner) for each in pivot.expressions))
        columns |= {name: values for name in relation.columns if name not in inner}
        turned = pivot.args["fields"][0].this.find_all(exp.Column)
        decide += _deciding((text_of(text, each) for each in turned), inner, "GROUP_BY")
    decide += _deciding((text_of(text, each) for each in ordered), inner, "SORT")
    return columns, decide + _deciding((text_of(text, each) for each in conditions), inner, "FILTER")


def _derived(text: str, node: exp.Expr, inner: _Columns) -> Sources:
    """The sources of an expression; a sum of a product is an aggregation of the product's columns.

    A window function is of its arguments; one without, such as ``rank()``, of its keys and its order.
    """
    pieces = {}
    for window in node.find_all(exp.Window):
        if not _is_rank(window) and (span := span_of(window)) is not None:
            call = inner_call(window)
            given = ", ".join(text_of(text, each) for each in arguments(call)) or "*"
            pieces[span[0]] = span[1], f"{called(call)}({given})"
    facts = analyze(replaced(text, pieces, span_of(node)))
    if facts.path is not None and (whole := _of_path(facts.path, inner))[1]:
        return whole[0]
    shown = " ".join(as_named(text_of(text, node)).split())
    found = once(
        Source(
            each.table,
            each.column,
            "AGGREGATION" if facts.aggregates or each.kind == "AGGREGATION" else "TRANSFORMATION",
            each.sql if facts.path is not None and each.sql else shown,
        )
        for path in facts.columns
        for each in _of_path(path, inner)[0]
    )
    fields = {}
    if called(node) == "struct":
        each_of = ((each.alias_or_name, each.unalias()) for each in arguments(node))
        fields = {name: _derived(text, each, inner) for name, each in each_of}
    return _Computed.of(found, fields, is_rank=_is_rank(node))


def _is_rank(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Window):
        return False
    call = inner_call(node)
    return not arguments(call) and called(call) not in AGGREGATES


def _of_path(path: Path, inner: _Columns) -> tuple[Sources, bool]:
    """The sources of a column or a field, and whether it is nothing but that."""
    found: Sources = inner.get(path[0], ())
    for name in path[1:]:
        fields = found.fields if isinstance(found, _Computed) else {}
        known = next((each for each in fields if each.lower() == name.lower()), None)
        if known is None:
            return found, False
        found = fields[known]
    return found, True


def _deciding(texts: Iterable[str], inner: _Columns, kind: Kind) -> list[Sources]:
    """What conditions, keys and orders decide by; what a condition on a rank decides by, its window says."""
    found = (_of_path(path, inner)[0] for text in texts for path in analyze(text).columns)
    return [
        tuple(Source(each.table, each.column, kind) for each in sources)
        for sources in found
        if kind != "FILTER" or not (isinstance(sources, _Computed) and sources.is_rank)
    ]
