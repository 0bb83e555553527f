"""What the columns of a gold table are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from common.declare import Custom, Gold, Stateful
from common.declare.gold_statement import statement_of
from common.sql.quoting import backquoted
from orchestration.observe.lineage.sources import (
    ColumnSources,
    Kind,
    Resolve,
    Source,
    Sources,
    in_table,
    of_all,
    of_sql,
    once,
)
from orchestration.observe.lineage.statement_sources import of_statement


def of_gold(gold: Gold, table: str, columns: Mapping[str, Sequence[str]]) -> ColumnSources:
    """The sources of a table that a gold query writes: by its statement; of a function's table, all columns.

    Args:
        table: The table of the query's own name, or a side table.
        columns: The columns of the table and of those that the query reads.
    """
    own = columns.get(table, ())
    if (sql := statement_of(gold, columns)) is not None:
        return of_statement(sql, own, columns)
    if isinstance(gold, Stateful):
        return _stateful(gold, own, columns)
    assert isinstance(gold, Custom)  # all others have a statement  # noqa: S101
    parts = [of_all(own, name, columns.get(name, ())) for name in (gold.reads, *gold.also_reads)]
    return ColumnSources({column: once(*(part[column] for part in parts)) for column in own})


def _stateful(gold: Stateful, own: Sequence[str], columns: Mapping[str, Sequence[str]]) -> ColumnSources:
    """Each column from all that the processor is given: it is Python."""
    resolve = in_table(gold.reads, columns.get(gold.reads, ()))
    order = () if gold.event_time is None else (gold.event_time,)
    rows = [
        _rows(gold.key, resolve, "GROUP_BY"),
        _rows(order, resolve, "SORT"),
        () if gold.where is None else of_sql(gold.where, resolve, "FILTER"),
    ]
    given = [gold.reads] if gold.initial is None else [gold.reads, gold.initial]
    parts = [of_all(own, table, columns.get(table, ())) for table in given]
    if gold.initial is not None:
        rows.append(_rows(gold.key, in_table(gold.initial, columns.get(gold.initial, ())), "JOIN"))
    decide = tuple(Source(each.table, each.column, each.kind) for each in once(*rows))
    return ColumnSources({column: once(*(part[column] for part in parts)) for column in own}, decide)


def _rows(names: Iterable[str], resolve: Resolve, kind: Kind) -> Sources:
    return once(*(of_sql(backquoted(name), resolve, kind) for name in names))
