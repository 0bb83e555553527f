"""What the columns of a table are computed from, exactly, from the declaration; needs no Spark.

SQL is parsed. A Python function cannot be: each column then comes from all columns that the function reads.
Columns are those of the direct source of a query: silver reads bronze, so a field of the value is bronze's
column ``value``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from common.declare import Silver
from common.errors import SqlError
from common.sql.expression import Path, analyze

Kind = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION", "FILTER", "GROUP_BY", "JOIN", "SORT", "WINDOW"]
"""How a column is used; the first three give a value, the others decide about rows."""

KAFKA = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "headers",
)
"""The columns of Spark's Kafka source that bronze keeps."""

_BRONZE = {"kafka_timestamp": "timestamp", "kafka_timestamp_type": "timestampType", "ingested_at": None}
_OF_VALUE = ("fault", "fault_field", "rescued", "element")
_OF_RECORD = {
    "timestamp": "kafka_timestamp",
    "timestamp_type": "kafka_timestamp_type",
    **dict.fromkeys(_OF_VALUE, "value"),
}


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A column that another one comes from."""

    table: str  # the table, ``topic`` for the Kafka topics, or the path of a table outside of the pipeline
    column: str
    kind: Kind  # how it is used
    sql: str = ""  # the SQL text; empty where a column is only copied, or computed by the engine


Sources = tuple[Source, ...]
Resolve = Callable[[Path], Iterable[tuple[str, str, bool]]]
"""Table and column for a reference, and whether the reference is the whole column."""


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """The sources of one table."""

    # Sources of each column, in the table's order; empty for a constant and for a count.
    columns: Mapping[str, Sources]
    rows: Sources = ()  # columns that decide which rows there are: conditions, groups, keys, joins and orders


def of_sql(sql: str, resolve: Resolve, kind: Kind | None = None) -> Sources:
    """The sources of one expression, each once, in the order of the text.

    Args:
        kind: How the columns are used; unset: by the expression.
    """
    try:
        facts = analyze(sql)
    except SqlError:
        return ()
    use = kind or ("AGGREGATION" if facts.aggregates else None)
    found: dict[tuple[str, str], Source] = {}
    for path in facts.columns:
        for table, column, is_whole in resolve(path):
            is_copy = facts.path is not None and is_whole
            how = use or ("IDENTITY" if is_copy else "TRANSFORMATION")
            text = "" if how == "IDENTITY" else " ".join(sql.split())
            found.setdefault((table, column), Source(table, column, how, text))
    return tuple(found.values())


def of_all(columns: Iterable[str], table: str, known: Sequence[str]) -> dict[str, Sources]:
    """Columns that a function computes: each from all columns of a table."""
    everything = tuple(Source(table, column, "TRANSFORMATION") for column in known)
    return dict.fromkeys(columns, everything)


def in_table(table: str, known: Sequence[str]) -> Resolve:
    """References to the columns of one table, whose names are compared as Spark compares them."""
    names = {name.lower(): name for name in known}

    def resolve(path: Path) -> Iterable[tuple[str, str, bool]]:
        yield table, names.get(path[0].lower(), path[0]), len(path) == 1

    return resolve


def once(*parts: Iterable[Source]) -> Sources:
    """The sources of several expressions, each use of a column once."""
    found: dict[tuple[str, str, Kind], Source] = {}
    for source in (source for part in parts for source in part):
        found.setdefault((source.table, source.column, source.kind), source)
    return tuple(found.values())


def of_bronze(columns: Sequence[str]) -> ColumnSources:
    """The sources of a bronze table: the columns of Kafka's records."""
    found: dict[str, Sources] = {}
    for column in columns:
        name = _BRONZE.get(column, column)
        found[column] = () if name is None else (Source("topic", name, "IDENTITY"),)
    return ColumnSources(found)


def of_silver(
    silver: Silver, columns: Sequence[str], bronze: Sequence[str], known: Mapping[str, Sequence[str]]
) -> ColumnSources:
    """The sources of a silver table.

    Args:
        bronze: The columns of the bronze tables that it reads.
        known: The columns of the tables of its lookups.
    """
    parts = [_of_source(silver, source, columns, bronze, known) for source in silver.sources]
    found = {column: once(*(part.columns[column] for part in parts)) for column in columns}
    return ColumnSources(found, once(*(part.rows for part in parts)))


def _of_source(
    silver: Silver,
    source: str,
    columns: Sequence[str],
    bronze: Sequence[str],
    known: Mapping[str, Sequence[str]],
) -> ColumnSources:
    """The sources of a silver table in one of the bronze tables that it reads."""
    of_value = _in_record(source)
    declared = silver.columns
    if callable(declared):
        own = of_all((name for name in columns if not name.startswith("_")), source, bronze)
    else:
        own = {name: of_sql(sql, of_value) for name, sql in declared.items()}
    found = {column: own.get(column, ()) for column in columns}
    for column in columns:
        if column == "_ingested_at":
            found[column] = (Source(source, "ingested_at", "IDENTITY"),)
        elif column.startswith("_kafka_"):
            name = column.removeprefix("_kafka_")
            found[column] = (Source(source, _OF_RECORD.get(name, name), "IDENTITY"),)
        elif column not in own and column != "_watermark":
            found[column] = (Source(source, "value", "TRANSFORMATION"),)
    return ColumnSources(found, _rows_of_silver(silver, source, own, known))


def _rows_of_silver(
    silver: Silver, source: str, own: Mapping[str, Sources], known: Mapping[str, Sequence[str]]
) -> Sources:
    """What decides about the rows of silver: its condition, its rules, its key and its event time."""
    of_value = _in_record(source)
    looked_up = {lookup.name: lookup.table for lookup in silver.lookups}
    lower = {name.lower(): sources for name, sources in own.items()}

    def of_row(path: Path) -> Iterable[tuple[str, str, bool]]:
        if path[0] in looked_up:
            table = looked_up[path[0]]
            names = path[1:2] or tuple(known.get(table, ()))
            return [(table, name, True) for name in names]
        if path[0] == "_kafka":
            return of_value(path)
        return [(one.table, one.column, False) for one in lower.get(path[0].lower(), ())]

    parts = [of_sql(silver.where, of_value, "FILTER")] if silver.where is not None else []
    parts += [of_sql(rule.condition, of_row, "FILTER") for rule in silver.rules if rule.on_fail != "warn"]
    for lookup in silver.lookups:
        pairs = {name: name for name in lookup.on} if not isinstance(lookup.on, Mapping) else lookup.on
        parts += [(Source(lookup.table, name, "JOIN"),) for name in pairs]
        parts += [of_sql(sql, of_row, "JOIN") for sql in pairs.values()]
    parts += [of_sql(f"`{name}`", of_row, "GROUP_BY") for name in silver.key]
    parts.append(of_sql(f"`{silver.event_time}`", of_row, "FILTER"))
    return tuple(Source(each.table, each.column, each.kind) for each in once(*parts))


def of_quarantine(silver: Silver, columns: Sequence[str], bronze: Sequence[str]) -> ColumnSources:
    """The sources of a quarantine table: a copy of the record, and what the value is rejected for."""
    found: dict[str, Sources] = {}
    for column in columns:
        kind: Kind = "IDENTITY" if column in bronze else "TRANSFORMATION"
        name = column if column in bronze else "value"
        is_constant = column in {"verdict", "rule_version"}
        found[column] = () if is_constant else tuple(Source(one, name, kind) for one in silver.sources)
    return ColumnSources(found)


def _in_record(bronze: str) -> Resolve:
    """References of silver's SQL: ``_kafka`` is the record, everything else is a field of its value."""

    def resolve(path: Path) -> Iterable[tuple[str, str, bool]]:
        if path[0].lower() != "_kafka":
            # A value of Bytes is the record's own, but a null of it is a tombstone, which is no row.
            yield bronze, "value", False
        elif len(path) == 1:
            yield from ((bronze, name, False) for name in KAFKA[:3])
        else:
            is_whole = len(path) == 2 and path[1] not in _OF_VALUE  # noqa: PLR2004  # _kafka and its field
            yield bronze, _OF_RECORD.get(path[1], path[1]), is_whole

    return resolve
