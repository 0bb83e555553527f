"""What the columns of a gold table are computed from, for each kind of table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from common.declare import Aggregate, ChangeFeed, Custom, Gold, History, Join, Stateful, Upsert, View, Window
from common.declare.field_types import Expressions
from common.sql.expression import Path
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
from orchestration.observe.lineage.view_sources import of_view

_COORDINATES = ("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp")
_OF_TIME = ("valid_from", "valid_to", "is_current", "last_at")


def of_gold(  # noqa: PLR0911  # one return per kind
    gold: Gold, table: str, columns: Mapping[str, Sequence[str]]
) -> ColumnSources:
    """The sources of a table that a gold query writes.

    Args:
        table: The table of the query's own name, or a side table.
        columns: The columns of the table and of those that the query reads.
    """
    own = columns.get(table, ())
    resolve = in_table(gold.reads, columns.get(gold.reads, ()))
    match gold:
        case Aggregate():
            return _aggregate(gold, resolve, columns.get(gold.reads, ()))
        case Upsert() | ChangeFeed():
            return _upsert(gold, own, resolve)
        case History():
            return _history(gold, own, resolve)
        case Join():
            return _join(gold, own, columns)
        case View():
            return of_view(gold, own, columns)
        case Stateful():
            return _stateful(gold, own, columns)
        case Custom():
            parts = [of_all(own, name, columns.get(name, ())) for name in (gold.reads, *gold.also_reads)]
            return ColumnSources({column: once(*(part[column] for part in parts)) for column in own})


def _named(columns: Expressions) -> Mapping[str, str]:
    """Columns with their SQL text; a plain name is its own."""
    return columns if isinstance(columns, Mapping) else {name: f"`{name}`" for name in columns}


def _rows(names: Iterable[str], resolve: Resolve, kind: Kind) -> Sources:
    return once(*(of_sql(name, resolve, kind) for name in names))


def _aggregate(gold: Aggregate, resolve: Resolve, known: Sequence[str]) -> ColumnSources:
    bounds = {"window_start", "window_end"} - {name.lower() for name in known}
    by = _named(gold.by or ())
    found = {name: of_sql(sql, resolve) for name, sql in by.items()}
    rows = [_rows(by.values(), resolve, "GROUP_BY")]
    if gold.window is not None:
        on = f"`{gold.window.on}`"
        found |= dict.fromkeys(("window_start", "window_end"), _bare(of_sql(on, resolve, "TRANSFORMATION")))
        rows.append(of_sql(on, resolve, "GROUP_BY" if isinstance(gold.window, Window) else "WINDOW"))

    def with_bounds(path: Path) -> Iterable[tuple[str, str, bool]]:
        if gold.window is not None and path[0].lower() in bounds:
            return resolve((gold.window.on,))
        return resolve(path)

    found |= {name: of_sql(sql, with_bounds) for name, sql in _named(gold.measures).items()}
    if gold.where is not None:
        rows.append(of_sql(gold.where, resolve, "FILTER"))
    return ColumnSources(found, _bare(once(*rows)))


def _bare(sources: Iterable[Source]) -> Sources:
    """Sources without SQL text: of what decides about rows, only the columns are named."""
    return tuple(Source(each.table, each.column, each.kind) for each in sources)


def _upsert(gold: Upsert | ChangeFeed, own: Sequence[str], resolve: Resolve) -> ColumnSources:
    declared = dict(_named(gold.columns)) if gold.columns is not None else {}
    # A column that is not declared is a copy: all columns of the source, and the Kafka coordinates.
    found = {name: of_sql(declared.get(name, f"`{name}`"), resolve) for name in own or declared}
    lower = {name.lower(): name for name in declared}

    def of_table(path: Path) -> Iterable[tuple[str, str, bool]]:
        name = lower.get(path[0].lower())
        sources = of_sql(declared[name], resolve) if name is not None else of_sql(f"`{path[0]}`", resolve)
        return [(source.table, source.column, False) for source in sources]

    newest_by = gold.sequence_by if isinstance(gold, ChangeFeed) else gold.newest_by
    condition = gold.operation if isinstance(gold, ChangeFeed) else gold.delete_when
    rows = [
        _rows(map(backquoted, gold.key), of_table, "GROUP_BY"),
        _rows(map(backquoted, newest_by), of_table, "SORT"),
        *(of_sql(sql, resolve, "FILTER") for sql in (gold.where, condition, gold.truncates) if sql),
    ]
    return ColumnSources(found, _bare(once(*rows)))


def _history(gold: History, own: Sequence[str], resolve: Resolve) -> ColumnSources:
    declared = {
        **{name: f"`{name}`" for name in gold.key},
        **_named(gold.columns),
        **_named(gold.untracked or ()),
    }
    found = {name: of_sql(sql, resolve) for name, sql in declared.items()}
    time = f"`{gold.valid_by}`"
    found["valid_from"] = of_sql(time, resolve)
    for name in _OF_TIME[1:]:
        found[name] = _bare(of_sql(time, resolve, "AGGREGATION" if name == "last_at" else "TRANSFORMATION"))
    found["versions"] = ()
    if gold.surrogate_key is not None:
        found[gold.surrogate_key] = _bare(
            _rows(map(backquoted, (*gold.key, gold.valid_by)), resolve, "TRANSFORMATION")
        )
    found |= {name: of_sql(name, resolve) for name in _COORDINATES}
    rows = [
        _rows(map(backquoted, gold.key), resolve, "GROUP_BY"),
        _rows(map(backquoted, (gold.valid_by, *(gold.sequence_by or ()))), resolve, "SORT"),
        *(of_sql(sql, resolve, "FILTER") for sql in (gold.where, gold.delete_when, gold.truncates) if sql),
    ]
    ordered = {name: found[name] for name in own if name in found} if own else found
    return ColumnSources(ordered, _bare(once(*rows)))


def _join(gold: Join, own: Sequence[str], columns: Mapping[str, Sequence[str]]) -> ColumnSources:
    reads, joins = columns.get(gold.reads, ()), columns.get(gold.joins, ())
    left, right = in_table(gold.reads, reads), in_table(gold.joins, joins)

    def both(path: Path) -> Iterable[tuple[str, str, bool]]:
        if path[0].lower() != gold.joined.lower() or gold.how == "semi":
            return left(path)
        if len(path) > 1:
            return right(path[1:])
        return [(gold.joins, name, False) for name in joins]

    found = {name: of_sql(sql, both) for name, sql in _named(gold.columns).items()}
    found |= {name: of_sql(name, left) for name in (*_COORDINATES, "_ingested_at") if name in own or not own}
    if "_match" in own:
        found["_match"] = ()
    on = _named(gold.on)
    rows = [_rows(on.values(), left, "JOIN"), _rows(map(backquoted, on), right, "JOIN")]
    if gold.where is not None:
        rows.append(of_sql(gold.where, left, "FILTER"))
    if gold.within is not None:
        rows += [of_sql(gold.within.on, left, "JOIN"), of_sql(gold.within.joins_on, right, "JOIN")]
    ordered = {name: found[name] for name in own if name in found} if own else found
    return ColumnSources(ordered, _bare(once(*rows)))


def _stateful(gold: Stateful, own: Sequence[str], columns: Mapping[str, Sequence[str]]) -> ColumnSources:
    """Each column from all that the processor is given: it is Python."""
    resolve = in_table(gold.reads, columns.get(gold.reads, ()))
    order = () if gold.event_time is None else (gold.event_time,)
    rows = [
        _rows(map(backquoted, gold.key), resolve, "GROUP_BY"),
        _rows(map(backquoted, order), resolve, "SORT"),
        () if gold.where is None else of_sql(gold.where, resolve, "FILTER"),
    ]
    given = [gold.reads] if gold.initial is None else [gold.reads, gold.initial]
    parts = [of_all(own, table, columns.get(table, ())) for table in given]
    if gold.initial is not None:
        rows.append(
            _rows(map(backquoted, gold.key), in_table(gold.initial, columns.get(gold.initial, ())), "JOIN")
        )
    return ColumnSources(
        {column: once(*(part[column] for part in parts)) for column in own}, _bare(once(*rows))
    )
