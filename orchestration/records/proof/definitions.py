"""What a gold table must have: its declaration as a query of DuckDB over its sources, each at one version."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from common.declare import Aggregate, Gold, Session, Upsert, View, Window
from common.declare.field_types import named
from common.declare.intervals import length_of
from common.declare.row_order import COORDINATES, total_order
from common.errors import SqlError
from common.sql.duckdb.text import columns_of, expression, statement
from common.sql.duckdb.values import TIME
from common.sql.quoting import double_quoted
from common.sql.statement import read_statement
from gold.view.copied import copied_columns

START, END = "window_start", "window_end"
"""The columns of a gold table with its windows' bounds."""
IN_ROWS = {START: "__start", END: "__end"}
"""The same bounds beside the columns of a source, which may have such names too."""

Types = Mapping[str, str]
"""Columns in their order -> DuckDB's names of their types."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A gold table's definition."""

    sql: str  # the query; it gives at least the table's columns
    keys: tuple[str, ...]  # columns that identify a row; empty where none are known to
    # Columns that are results of arithmetic: the last digits of floats in them may differ.
    rounded: frozenset[str] = frozenset()
    # Columns that the query does not give -> why DuckDB does not compute them.
    left_out: Mapping[str, str] = field(default_factory=dict)


def definition(gold: Gold, sources: Mapping[str, str], columns: Mapping[str, Types]) -> Definition:
    """The definition of a gold table.

    Args:
        sources: By table that it reads, the name of its view.
        columns: The columns of the table itself, by its name, and of its sources, with DuckDB's types.

    Raises:
        SqlError: It is not defined in SQL, or not by SQL that DuckDB is known to compute as Spark does.
    """
    if isinstance(gold, View):
        tables = {name: (view, columns[name]) for name, view in sources.items()}
        read = read_statement(gold.statement, {name: [*types] for name, (_, types) in tables.items()})
        rounded = frozenset(columns[gold.table]) - copied_columns(read)
        return Definition(statement(gold.statement, tables, written=True), (), rounded)
    if isinstance(gold, Upsert):
        return _upsert(gold, sources[gold.reads], columns)
    if isinstance(gold, Aggregate):
        return _aggregate(gold, sources[gold.reads], columns[gold.reads])
    raise SqlError(f"is a {type(gold).__name__}, which the script does not compute")


def written(sql: str, types: Types) -> str:
    """An expression over rows of a table that Spark has computed already.

    Raises:
        SqlError: DuckDB may compute it otherwise than Spark.
    """
    return expression(sql, columns_of(types), written=True).sql


def _upsert(gold: Upsert, source: str, columns: Mapping[str, Types]) -> Definition:
    for attribute, is_given in (
        ("unchanged", gold.unchanged is not None),
        ("ignore_nulls", gold.ignore_nulls),
    ):
        if is_given:
            raise SqlError(f"takes values from older rows ({attribute})")
    order, types = total_order(gold.newest_by), columns[gold.reads]
    left_out: Mapping[str, str] = {}
    if gold.columns is None:
        there = {name.lower() for name in types}
        kept = [
            double_quoted(name) if name.lower() in there else f"NULL AS {double_quoted(name)}"
            for name in columns[gold.table]
        ]
    else:
        own = named(gold.columns)
        kept, left_out = _each(own, types, but=gold.key)
        kept += [name for name in COORDINATES if name not in own]
    ends = "false" if gold.delete_when is None else f"coalesce({written(gold.delete_when, types)}, false)"
    where = "" if gold.where is None else f" WHERE {written(gold.where, types)}"
    key = ", ".join(map(double_quoted, gold.key))
    by = ", ".join(f"{double_quoted(name)} DESC NULLS LAST" for name in order)
    text = f"""SELECT * FROM (
    SELECT {", ".join(kept)}, {ends} AS "__ends" FROM {source}{where}
  ) QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {by}) = 1"""
    alive = f'SELECT * FROM ({text}) WHERE NOT "__ends"'
    return Definition(alive, tuple(gold.key), left_out=left_out)


def _aggregate(gold: Aggregate, source: str, types: Types) -> Definition:
    if gold.watermark is not None:
        raise SqlError("leaves rows out that are later than its watermark")
    by = named(gold.by or {})
    groups = {name: written(sql, types) for name, sql in by.items()}
    bounds = {} if gold.window is None else IN_ROWS
    free = {name: own for name, own in bounds.items() if name not in map(str.lower, types)}
    measures, left_out = _each(named(gold.measures), {**types, **dict.fromkeys(free, TIME)})
    where = "" if gold.where is None else f" WHERE {written(gold.where, types)}"
    rows = f"(SELECT * FROM {source}{where})"
    if isinstance(gold.window, Window):
        rows = windows_of(rows, gold.window)
    elif isinstance(gold.window, Session):
        rows = _sessions(rows, gold.window, list(groups.values()))
    # The groups are columns of an inner query: an output column may have the name of one of its inputs.
    inner = [f"{sql} AS __k{number}" for number, sql in enumerate(groups.values())]
    inner += [f"{own} AS {name}" for name, own in free.items()]
    own = [f"__k{number} AS {double_quoted(name)}" for number, name in enumerate(groups)]
    own += [f"{column} AS {name}" for name, column in bounds.items()]
    keys = [f"__k{number}" for number in range(len(groups))] + [*bounds.values(), *free]
    text = f"""SELECT {", ".join([*own, *measures]) or "1"}
  FROM (SELECT *{"".join(f", {one}" for one in inner)} FROM {rows})
  GROUP BY {", ".join(keys)}"""
    return Definition(text, (*groups, *[*bounds][:1]), frozenset(named(gold.measures)), left_out=left_out)


def _each(
    given: Mapping[str, str], types: Types, but: Collection[str] = ()
) -> tuple[list[str], Mapping[str, str]]:
    """Columns with their names, and those that DuckDB does not compute; it has to compute some of them."""
    found, left_out = [], {}
    for name, sql in given.items():
        try:
            found.append(f"{written(sql, types)} AS {double_quoted(name)}")
        except SqlError as error:
            if name in but:
                raise
            left_out[name] = str(error)
    return found, left_out


def windows_of(rows: str, window: Window) -> str:
    """Rows once per window that contains them, with its bounds as ``IN_ROWS`` names them.

    Windows start at multiples of the slide, plus the offset.
    """
    size, slide = (length_of(text).microseconds for text in (window.size, window.slide or window.size))
    offset = length_of(window.offset).microseconds if window.offset is not None else 0
    at = f"epoch_us({double_quoted(window.on)})"
    last = f"{at} - (({at} - {offset}) % {slide} + {slide}) % {slide}"
    return f"""(SELECT * EXCLUDE (__from), make_timestamptz(__from) AS {IN_ROWS[START]},
      make_timestamptz(__from + {size}) AS {IN_ROWS[END]}
    FROM (SELECT *, unnest(range({last}, {at} - {size}, -{slide})) AS __from FROM {rows}
      WHERE {double_quoted(window.on)} IS NOT NULL))"""


def _sessions(rows: str, session: Session, groups: Sequence[str]) -> str:
    """Rows with the session that they belong to: no pause in it is longer than the gap."""
    gap, on = length_of(session.gap).microseconds, double_quoted(session.on)
    by = "".join(f"__g{number}, " for number in range(len(groups)))
    named = "".join(f", {sql} AS __g{number}" for number, sql in enumerate(groups))
    part = f"PARTITION BY {by.rstrip(', ')}" if groups else ""
    of_session = f"PARTITION BY {by}__session"
    return f"""(SELECT * EXCLUDE (__session, __begins), min({on}) OVER ({of_session}) AS {IN_ROWS[START]},
      make_timestamptz(epoch_us(max({on}) OVER ({of_session})) + {gap}) AS {IN_ROWS[END]}
    FROM (SELECT *, sum(__begins::INTEGER) OVER ({part} ORDER BY {on} ROWS UNBOUNDED PRECEDING) AS __session
      FROM (SELECT *, coalesce(epoch_us({on}) - epoch_us(lag({on}) OVER ({part} ORDER BY {on})) > {gap}, true)
          AS __begins
        FROM (SELECT *{named} FROM {rows} WHERE {on} IS NOT NULL))))"""
