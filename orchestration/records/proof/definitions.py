"""What a gold table must have: its declaration as a query of DuckDB over its sources, each at one version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.declare import Aggregate, Gold, Session, Upsert, View, Window
from common.declare.intervals import length_of
from common.errors import SqlError
from common.sql.duckdb_text import expression, statement
from common.sql.quoting import double_quoted
from gold.table.row_order import COORDINATES, total_order

START, END = "window_start", "window_end"


@dataclass(frozen=True, slots=True)
class Definition:
    """A gold table's definition.

    Attributes:
        sql: The query; it gives at least the table's columns.
        keys: Columns that identify a row; empty where none are known to.
        may_round: Whether columns of floating-point numbers are results of arithmetic, whose last digits may
            differ.
    """

    sql: str
    keys: tuple[str, ...]
    may_round: bool


def definition(gold: Gold, sources: Mapping[str, str], columns: Mapping[str, Sequence[str]]) -> Definition:
    """The definition of a gold table.

    Args:
        gold: The declaration.
        sources: By table that it reads, the name of its view.
        columns: The columns of the table itself, by its name, and of its sources.

    Raises:
        SqlError: It is not defined in SQL, or not by SQL that DuckDB is known to compute as Spark does.
    """
    if isinstance(gold, View):
        text = statement(gold.statement, sources)
        return Definition(text, (), may_round=True)
    if isinstance(gold, Upsert):
        return _upsert(gold, sources[gold.reads], columns)
    if isinstance(gold, Aggregate):
        return _aggregate(gold, sources[gold.reads])
    raise SqlError(f"is a {type(gold).__name__}, which the script does not compute")


def _upsert(gold: Upsert, source: str, columns: Mapping[str, Sequence[str]]) -> Definition:
    for attribute, is_given in (
        ("unchanged", gold.unchanged is not None),
        ("ignore_nulls", gold.ignore_nulls),
    ):
        if is_given:
            raise SqlError(f"takes values from older rows ({attribute})")
    order = total_order(gold.newest_by)
    if gold.columns is None:
        there = {name.lower() for name in columns[gold.reads]}
        kept = [
            double_quoted(name) if name.lower() in there else f"NULL AS {double_quoted(name)}"
            for name in columns[gold.table]
        ]
    else:
        named = _mapping(gold.columns)
        kept = [f"{expression(sql)} AS {double_quoted(name)}" for name, sql in named.items()]
        kept += [name for name in COORDINATES if name not in named]
    ends = "false" if gold.delete_when is None else f"coalesce({expression(gold.delete_when)}, false)"
    where = "" if gold.where is None else f" WHERE {expression(gold.where)}"
    key = ", ".join(map(double_quoted, gold.key))
    by = ", ".join(f"{double_quoted(name)} DESC NULLS LAST" for name in order)
    text = f"""SELECT * FROM (
    SELECT {", ".join(kept)}, {ends} AS "__ends" FROM {source}{where}
  ) QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {by}) = 1"""
    return Definition(f'SELECT * FROM ({text}) WHERE NOT "__ends"', tuple(gold.key), may_round=False)


def _aggregate(gold: Aggregate, source: str) -> Definition:
    if gold.watermark is not None:
        raise SqlError("leaves rows out that are later than its watermark")
    by = _mapping(gold.by or {})
    groups = {name: f"{expression(sql)}" for name, sql in by.items()}
    measures = ", ".join(
        f"{expression(sql)} AS {double_quoted(name)}" for name, sql in _mapping(gold.measures).items()
    )
    where = "" if gold.where is None else f" WHERE {expression(gold.where)}"
    rows = f"(SELECT * FROM {source}{where})"
    window: tuple[str, ...] = ()
    if isinstance(gold.window, Window):
        rows, window = windows_of(rows, gold.window), (START, END)
    elif isinstance(gold.window, Session):
        rows, window = _sessions(rows, gold.window, list(groups.values())), (START, END)
    # The groups are columns of an inner query: an output column may have the name of one of its inputs.
    inner = [f"{sql} AS {double_quoted(f'__by {name}')}" for name, sql in groups.items()]
    own = [f"{double_quoted(f'__by {name}')} AS {double_quoted(name)}" for name in groups]
    keys = [double_quoted(f"__by {name}") for name in groups] + list(window)
    text = f"""SELECT {", ".join([*own, *window, measures])}
  FROM (SELECT *{"".join(f", {one}" for one in inner)} FROM {rows})
  GROUP BY {", ".join(keys)}"""
    return Definition(text, (*groups, *window[:1]), may_round=True)


def windows_of(rows: str, window: Window) -> str:
    """Rows once per window that contains them; windows start at multiples of the slide, plus the offset."""
    size, slide = (length_of(text).microseconds for text in (window.size, window.slide or window.size))
    offset = length_of(window.offset).microseconds if window.offset is not None else 0
    at = f"epoch_us({double_quoted(window.on)})"
    last = f"{at} - (({at} - {offset}) % {slide} + {slide}) % {slide}"
    return f"""(SELECT * EXCLUDE (__start), make_timestamptz(__start) AS {START},
      make_timestamptz(__start + {size}) AS {END}
    FROM (SELECT *, unnest(range({last}, {at} - {size}, -{slide})) AS __start FROM {rows}
      WHERE {double_quoted(window.on)} IS NOT NULL))"""


def _sessions(rows: str, session: Session, groups: Sequence[str]) -> str:
    """Rows with the session that they belong to: no pause in it is longer than the gap."""
    gap, on = length_of(session.gap).microseconds, double_quoted(session.on)
    by = "".join(f"__g{number}, " for number in range(len(groups)))
    named = "".join(f", {sql} AS __g{number}" for number, sql in enumerate(groups))
    part = f"PARTITION BY {by.rstrip(', ')}" if groups else ""
    of_session = f"PARTITION BY {by}__session"
    return f"""(SELECT * EXCLUDE (__session, __begins), min({on}) OVER ({of_session}) AS {START},
      make_timestamptz(epoch_us(max({on}) OVER ({of_session})) + {gap}) AS {END}
    FROM (SELECT *, sum(__begins::INTEGER) OVER ({part} ORDER BY {on} ROWS UNBOUNDED PRECEDING) AS __session
      FROM (SELECT *, coalesce(epoch_us({on}) - epoch_us(lag({on}) OVER ({part} ORDER BY {on})) > {gap}, true)
          AS __begins
        FROM (SELECT *{named} FROM {rows} WHERE {on} IS NOT NULL))))"""


def _mapping(expressions: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    """Expressions by name; a list of columns is itself."""
    return expressions if isinstance(expressions, Mapping) else {name: name for name in expressions}
