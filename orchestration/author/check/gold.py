"""Faults of a gold table that are known before Spark starts, and the columns that the table will have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from common.declare import (
    Aggregate,
    ChangeFeed,
    Custom,
    Gold,
    History,
    Join,
    Session,
    Silver,
    Stateful,
    Upsert,
    View,
)
from common.declare.declared import source_of
from common.declare.field_types import named
from common.errors import Fault, Problem, SqlError, nearest
from common.schema.ddl import Field, parse
from common.sql.expression import analyze
from orchestration.author.check.expression import (
    holds_uncomparable,
    measure_faults,
    result,
    row_faults,
)
from orchestration.author.check.names import each, name_faults, references
from orchestration.author.check.publish import (
    custom_problems,
    custom_scopes,
    ddl_fields,
    ddl_problems,
    unused_order,
)
from orchestration.author.check.throwing_sql import division_faults
from orchestration.author.check.view import view_problems, view_scope
from orchestration.author.check.visible_columns import METADATA, Scope, unknown

_INGESTED = "_ingested_at"
_WINDOW = ("window_start", "window_end")
_OF_A_HISTORY = parse(
    "valid_from timestamp, valid_to timestamp, is_current boolean, versions bigint, last_at timestamp"
)
_COORDINATES = tuple(field for field in METADATA if field.name != _INGESTED)


def gold_problems(
    gold: Gold, silver: Mapping[str, Scope], replaced: Collection[str], elements: Collection[str] = ()
) -> Iterator[Problem]:
    """Problems of one gold table.

    Args:
        silver: Columns of the silver tables; for a join also of the gold tables declared before it.
        replaced: Silver tables that replace rows by newer ones.
        elements: Silver tables with a row per element of their records.
    """
    yield from _reads_elements(gold) if gold.reads in elements else ()
    if gold.reads in replaced and not gold.takes_rows_back:
        other_mode = 'declare it with mode="recompute", ' if isinstance(gold, Aggregate | Join) else ""
        text = Fault(
            "MED-1305",
            f"reads {gold.reads}, which keeps the newest row of a key: this kind of table cannot take back a "
            f"row that is replaced there; {other_mode}read a table that keeps the first row, or read "
            f"{gold.reads} with an Upsert",
        )
        yield Problem(gold.table, text, source_of(gold))
    if isinstance(gold, Join) and gold.mode == "stream" and gold.joins in replaced:
        text = Fault(
            "MED-1305",
            f"joins {gold.joins} as a stream, which keeps the newest row of a key: micro-batches that "
            'replace a row would be skipped completely; declare it with mode="recompute"',
        )
        yield Problem(gold.table, text, source_of(gold))
    if gold.reading.changes == "appends" and gold.takes_rows_back and _replaces_rows(gold.reads, replaced):
        text = Fault(
            "MED-1305",
            f"reads appends of {gold.reads}, whose rows are replaced: micro-batches that replace a row would "
            "be skipped completely, with their new rows; leave changes out",
        )
        yield Problem(gold.table, text, source_of(gold))
    yield from unused_order(gold)
    yield from _of_kind(gold, silver)


def _of_kind(gold: Gold, silver: Mapping[str, Scope]) -> Iterator[Problem]:
    """Problems of the attributes that its kind has."""
    seen = silver.get(gold.reads, Scope(gold.reads, None))
    yield from _condition(gold, seen)
    match gold:
        case Aggregate():
            yield from _aggregate(gold, seen)
        case Upsert() | ChangeFeed():
            yield from _upsert(gold, seen)
        case History():
            yield from _history(gold, seen)
        case Join():
            yield from _join(gold, seen, _joined(gold, silver))
        case View():
            yield from view_problems(gold, silver)
        case Custom():
            yield from custom_problems(gold)
        case Stateful():
            yield from _stateful(gold, seen)


def _stateful(gold: Stateful, seen: Scope) -> Iterator[Problem]:
    """Problems of the columns that a processor is given and emits."""
    source = source_of(gold)
    yield from each(gold.table, references("key", gold.key, seen), source)
    if gold.event_time is not None:
        yield from each(gold.table, references("event_time", [gold.event_time], seen), source)
    yield from ddl_problems(f"{gold.table}, output", gold.output, source)
    emitted = ddl_fields(gold.output)
    if gold.mode == "update" and emitted is not None:
        yield from each(gold.table, references("key", gold.key, Scope("output", emitted)), source)


def _reads_elements(gold: Gold) -> Iterator[Problem]:
    """Problems of a table whose source has several rows of one record."""
    if isinstance(gold, Upsert | ChangeFeed | History | Join):
        text = Fault(
            "MED-1305",
            f"reads {gold.reads}, which has a row per element (each): a {type(gold).__name__} orders rows "
            "by their records, of which such rows have the same; read it with a View, an Aggregate or a "
            "Custom, as in max_by(price, struct(at, _kafka_offset, _element)) of a View with group by",
        )
        yield Problem(gold.table, text, source_of(gold))


def _condition(gold: Gold, silver: Scope) -> Iterator[Problem]:
    """Problems of the condition on the rows that count."""
    for argument, sql in (("where", gold.where), ("truncates", gold.truncates)):
        if sql is not None:
            yield from each(f"{gold.table}, {argument}", _row_faults(sql, silver), source_of(gold))


def _replaces_rows(table: str, replaced: Collection[str]) -> bool:
    """Whether a table replaces rows in normal operation."""
    return table in replaced or table.startswith("gold.")


def gold_scopes(  # noqa: PLR0911  # one return per kind
    gold: Gold, silver: Mapping[str, Scope]
) -> Mapping[str, Scope]:
    """The columns of the tables that a gold query writes, by table."""
    seen = silver.get(gold.reads, Scope(gold.reads, None))
    match gold:
        case Aggregate():
            own = _results(named(gold.by or ()), seen)
            own += [Field(name, "timestamp") for name in (_WINDOW if gold.window is not None else ())]
            own += _results(named(gold.measures), with_bounds(gold, seen))
            return {gold.table: Scope(gold.table, tuple(own))}
        case View():
            return {gold.table: view_scope(gold, silver)}
        case Custom():
            return custom_scopes(gold)
        case Stateful():
            return {gold.table: Scope(gold.table, ddl_fields(gold.output))}
        case Upsert() | ChangeFeed():
            kept = seen.fields
            if gold.columns is not None:
                kept = (*_results(named(gold.columns), seen), *_COORDINATES)
            beside = None if kept is None else tuple(field for field in kept if field.name in _order(gold))
            return {
                gold.table: Scope(gold.table, kept),
                **{table: Scope(table, beside) for table in gold.side_tables},
            }
        case Join():
            both = with_joined(gold, seen, _joined(gold, silver))
            return {gold.table: Scope(gold.table, (*_results(named(gold.columns), both), *_COORDINATES))}
        case History():
            texts = {**named(gold.key), **named(gold.columns), **named(gold.untracked or ())}
            own = [*_results(texts, seen), *(Field(name, "string") for name in _surrogate(gold))]
            return {gold.table: Scope(gold.table, (*own, *_OF_A_HISTORY, *_COORDINATES))}
    return {table: Scope(table, None) for table in (gold.table, *gold.side_tables)}


def _results(texts: Mapping[str, str], seen: Scope) -> list[Field]:
    """The columns that texts define over a table."""
    return [result(sql, name, seen) for name, sql in texts.items()]


def _aggregate(gold: Aggregate, silver: Scope) -> Iterator[Problem]:
    place, source = gold.table, source_of(gold)
    by, measures = named(gold.by or ()), named(gold.measures)
    for name, sql in by.items():
        found = result(sql, name, silver)
        # What Spark keeps in state and writes whole is grouped alone, which maps can be.
        is_compared = gold.mode in {"recompute", "update"} or holds_uncomparable(found, of=("variant",))
        compared = _comparable(found) if is_compared else ()
        yield from each(f"{place}, by {name!r}", (*_row_faults(sql, silver), *compared), source)
    for name, sql in measures.items():
        yield from each(f"{place}, measure {name!r}", _measure_faults(sql, gold, silver, _groups(by)), source)
    yield from each(place, name_faults([*by, *measures]), source)
    if gold.window is not None:
        yield from each(f"{place}, window", _window_faults(gold.window.on, silver), source)
        taken = [name for name in (*by, *measures) if name.lower() in _WINDOW]
        text = "column {!r} has the name of a column that the window gives the table; rename it"
        yield from each(place, (Fault("MED-1304", text.format(name)) for name in taken), source)


def _row_faults(sql: str, scope: Scope) -> Iterator[str]:
    yield from row_faults(sql, scope)
    yield from division_faults(sql)


def _measure_faults(
    sql: str, gold: Aggregate, silver: Scope, groups: Collection[str] | None
) -> Iterator[str]:
    seen, bounds = with_bounds(gold, silver), () if gold.window is None else _WINDOW
    own = None if groups is None else {*groups, *bounds}
    yield from measure_faults(sql, seen, own, in_state=gold.mode != "recompute", bounds=bounds)
    yield from division_faults(sql, gold.window)
    yield from _bounds_inside(sql, gold, silver)


def _bounds_inside(sql: str, gold: Aggregate, silver: Scope) -> Iterator[str]:
    """The fault of an aggregate over the bounds of sessions, which Spark joins after their rows are read."""
    if not isinstance(gold.window, Session):
        return
    try:
        facts = analyze(sql)
    except SqlError:
        return
    for path in facts.columns:
        name = path[0].lower()
        is_bound = name in _WINDOW and silver.fields is not None and not silver.has(name)
        if is_bound and path not in facts.outside_aggregates:
            text = (
                f"{name!r} is inside of an aggregate, where it is a bound of one row's session; write it "
                "outside of aggregates, where it is the group's"
            )
            yield Fault("MED-1206", text)


def with_bounds(gold: Aggregate, silver: Scope) -> Scope:
    """The columns that a measure may name: those of the source, and the bounds of its window."""
    if gold.window is None or silver.fields is None:
        return silver
    bounds = (Field(name, "timestamp") for name in _WINDOW if not silver.has(name))
    return Scope(f"{silver.what} with its windows", (*silver.fields, *bounds))


def _window_faults(on: str, silver: Scope) -> Iterator[str]:
    yield from references("on", [on], silver)
    if (found := silver.type_of((on,)).type) not in {"", "timestamp"}:
        yield Fault("MED-1207", f"on {on!r} is of type {found}; a window is over a timestamp")


def _groups(by: Mapping[str, str]) -> frozenset[str] | None:
    """Columns with one value per group; None if a group is an expression and not a plain column."""
    try:
        paths = [analyze(sql).path for sql in by.values()]
    except SqlError:
        return None
    plain = [path[0].lower() for path in paths if path is not None and len(path) == 1]
    return frozenset(plain) if len(plain) == len(paths) else None


def _order(gold: Upsert | ChangeFeed) -> frozenset[str]:
    """The columns of the table of deleted keys."""
    return frozenset(
        (*gold.key, *gold.newest_by, *(field.name for field in METADATA if field.name != _INGESTED))
    )


def _upsert(gold: Upsert | ChangeFeed, silver: Scope) -> Iterator[Problem]:
    place, source = gold.table, source_of(gold)
    if gold.columns is None:
        yield from each(place, _key_faults(gold.key, silver), source)
    kept = named(gold.columns) if gold.columns is not None else None
    for name, sql in (kept or {}).items():
        yield from each(f"{place}, column {name!r}", _row_faults(sql, silver), source)
    yield from each(place, name_faults(kept or ()), source)
    if isinstance(gold, ChangeFeed):
        argument_of_condition, names = "operation", {"key": gold.key, "sequence_by": gold.sequence_by}
        condition: str | None = gold.operation
    else:
        argument_of_condition, names, condition = (
            "delete_when",
            {"key": gold.key, "newest_by": gold.newest_by},
            gold.delete_when,
        )
    if condition is not None:
        yield from each(f"{place}, {argument_of_condition}", _row_faults(condition, silver), source)
    yield from each(place, _key_and_order_faults(names, kept, silver), source)


def _key_and_order_faults(
    names: Mapping[str, Sequence[str]], kept: Mapping[str, str] | None, silver: Scope
) -> Iterator[str]:
    """Faults of columns that identify or order rows, by the argument that names them."""
    for argument, given in names.items():
        types = {name: result((kept or {}).get(name, name), name, silver) for name in given}
        if kept is not None or argument != "key":
            yield from _order_faults(argument, types)
        if kept is None:
            yield from references(argument, given, silver)
            continue
        for name in given:
            if name.lower() not in {column.lower() for column in kept}:
                text = Fault(
                    "MED-1202", f"{argument} {name!r} is not among its columns; {nearest(name, kept)}"
                )
                if silver.fields is not None and silver.has(name):
                    text = Fault(
                        "MED-1202", f"{argument} {name!r} is not among its columns; add it to columns"
                    )
                yield text


def _comparable(column: Field) -> Iterator[str]:
    """The fault of a column whose values are compared and have a map or variant in them."""
    if holds_uncomparable(column):
        yield Fault(
            "MED-1207",
            f"is of type {column.type}, which cannot be compared; "
            "write sort_array(map_entries(…)), to_json(…), or a field of it",
        )


def _key_faults(key: Sequence[str], scope: Scope) -> Iterator[str]:
    """Faults of a key: names that are doubled, of the wrong case, or of a type that cannot be compared."""
    lower = [name.lower() for name in key]
    for name in dict.fromkeys(name for name in lower if lower.count(name) > 1):
        yield Fault("MED-1303", f"key {name!r} is named twice")
    known = {field.name.lower(): field.name for field in scope.fields or ()}
    for name in key:
        if (own := known.get(name.lower(), name)) != name:
            yield Fault("MED-1202", f"key {name!r} is {own!r} in {scope.what}; use that spelling")
    yield from _order_faults("key", {name: scope.type_of((name,)) for name in key})


def _order_faults(argument: str, columns: Mapping[str, Field]) -> Iterator[str]:
    """Faults of columns that are compared, or ordered by, and have a map or variant in them."""
    for name, column in columns.items():
        if holds_uncomparable(column):
            yield Fault(
                "MED-1207",
                f"{argument} {name!r} is of type {column.type}, which cannot be compared; use a field of it",
            )


def _history(gold: History, silver: Scope) -> Iterator[Problem]:
    place, source = gold.table, source_of(gold)
    yield from each(place, _key_faults(gold.key, silver), source)
    kept = named(gold.columns)
    for name, sql in kept.items():
        faults = (*_row_faults(sql, silver), *_comparable(result(sql, name, silver)))
        yield from each(f"{place}, column {name!r}", faults, source)
    if gold.delete_when is not None:
        yield from each(f"{place}, delete_when", _row_faults(gold.delete_when, silver), source)
    for name, sql in named(gold.untracked or ()).items():
        yield from each(f"{place}, column {name!r}", _row_faults(sql, silver), source)
    added = [field.name for field in _OF_A_HISTORY]
    own = [*gold.key, *_surrogate(gold), *added, *kept, *named(gold.untracked or ())]
    yield from each(place, name_faults(own), source)
    yield from each(place, references("key", gold.key, silver), source)
    for argument, names in (("valid_by", [gold.valid_by]), ("sequence_by", gold.sequence_by or ())):
        yield from each(place, references(argument, names, silver), source)
        order = {name: silver.type_of((name,)) for name in names}
        yield from each(place, _order_faults(argument, order), source)


def snapshot_problems(gold: History, silver: Sequence[Silver]) -> Iterator[Problem]:
    """The problem of full snapshots out of a table that keeps one row of an entity, whatever its snapshot."""
    reads = next((one for one in silver if one.table == gold.reads), None)
    if gold.snapshots is None or reads is None:
        return
    unique = {*reads.key, *([reads.event_time] if reads.dedupe == "event_time" else [])}
    if unique <= set(gold.key):
        text = Fault(
            "MED-1105",
            f"snapshots reads a row per key and snapshot, and {reads.table} has one per "
            f"{', '.join(sorted(unique))}: a row of a later snapshot is its duplicate, or "
            f"replaces it; add {gold.valid_by!r} to the key of {reads.table}",
        )
        yield Problem(gold.table, text, source_of(gold))


def _surrogate(gold: History) -> Sequence[str]:
    return () if gold.surrogate_key is None else (gold.surrogate_key,)


def _joined(gold: Join, scopes: Mapping[str, Scope]) -> Scope:
    return scopes.get(gold.joins, Scope(gold.joins, None))


def _join(gold: Join, reads: Scope, joins: Scope) -> Iterator[Problem]:
    place, source = gold.table, source_of(gold)
    for column, sql in named(gold.on).items():
        compared = (*_comparable(result(sql, column, reads)), *_comparable(joins.type_of((column,))))
        yield from each(f"{place}, on {column!r}", (*_row_faults(sql, reads), *compared[:1]), source)
    yield from each(place, references("on", named(gold.on), joins), source)
    if gold.how != "semi" and reads.fields is not None and reads.has(gold.joined):
        text = Fault(
            "MED-1304",
            f"{reads.what} has a column {gold.joined!r}, which is also the name of the joined row of "
            f"{gold.joins}; rename the column",
        )
        yield Problem(place, text, source)
    for name, sql in named(gold.columns).items():
        yield from each(
            f"{place}, column {name!r}", _row_faults(sql, with_joined(gold, reads, joins)), source
        )
    yield from each(place, name_faults(named(gold.columns)), source)
    if gold.within is not None:
        for argument, name, scope in (
            ("on", gold.within.on, reads),
            ("joins_on", gold.within.joins_on, joins),
        ):
            yield from each(f"{place}, within", _time_faults(argument, name, scope), source_of(gold.within))


def with_joined(gold: Join, reads: Scope, joins: Scope) -> Scope:
    """The columns that the SQL of a join's columns may name."""
    if reads.fields is None or gold.how == "semi":
        return reads
    row = unknown(gold.joined) if joins.fields is None else Field(gold.joined, "struct", joins.fields)
    return Scope(f"{reads.what} with {gold.joined!r}", (*reads.fields, row))


def _time_faults(argument: str, name: str, scope: Scope) -> Iterator[str]:
    yield from references(argument, [name], scope)
    found = scope.type_of((name,)).type
    if scope.has(name) and found not in {"", "timestamp"}:
        yield Fault("MED-1207", f"{argument} {name!r} is of type {found}; event time is a timestamp")
