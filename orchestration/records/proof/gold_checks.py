"""The checks of gold tables: each equals its definition over its sources at the versions that it has read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from common.config.paths import Layout
from common.config.settings import GoldSettings
from common.declare import Aggregate, Gold, Pipeline, Upsert, View
from common.declare.declared import is_outside
from common.delta.match.checkpoint_match import lost_commits
from common.errors import SqlError, TableError
from common.sql.quoting import double_quoted, standard_text
from orchestration.records.audit.gold.state import GoldState, declared_anew, excuse_of, newest_state
from orchestration.records.proof.checks import compared, heading, not_compared, stated
from orchestration.records.proof.definitions import Definition, definition
from orchestration.records.proof.tables import Tables

_FLOATS = {"FLOAT", "DOUBLE"}


_DEFINED = "equals its definition"


def gold_checks(pipeline: Pipeline, layout: Layout, tables: Tables, settings: GoldSettings) -> Iterator[str]:
    """The statements for all gold tables of a pipeline, in the order of their declaration."""
    for gold in pipeline.gold:
        yield heading(f"{gold.table} {_DEFINED}")
        path = layout.table_path(gold.table)
        if (lost := lost_commits(gold.table, path, layout.checkpoint_path(gold.table))) is not None:
            yield stated(gold.table, "log", "different", "every commit", lost)
        try:
            yield from _checks(gold, layout, tables, settings)
        except (SqlError, TableError) as error:
            yield not_compared(gold.table, _DEFINED, str(error).splitlines()[0])


def _checks(gold: Gold, layout: Layout, tables: Tables, settings: GoldSettings) -> Iterator[str]:
    """The statements for one table.

    Raises:
        SqlError: The definition is none that DuckDB computes as Spark does.
        TableError: A version that is needed cannot be read.
    """
    if by_path := [name for name in gold.sources if is_outside(name)]:
        raise SqlError(f"reads {by_path[0]}, which is no table of the pipeline")
    if not isinstance(gold, View) and gold.reading.has_start:
        raise SqlError("begins at a later version of its source")
    if not isinstance(gold, View | Upsert | Aggregate):
        definition(gold, {}, {})  # says why
    state = newest_state(gold, layout)
    if why := declared_anew(gold, state):
        raise SqlError(why)
    if state.left_out:
        yield not_compared(gold.table, "newest version", state.left_out)
    found = tables.view(gold.table, layout.table_path(gold.table), state.version)
    views = {}
    for name, version in state.sources.items():
        if version is None:
            raise TableError(f"{name} had no version when {gold.table} read it")
        views[name] = tables.view(name, layout.table_path(name), version)
    columns = {name: tables.columns(view) for name, view in {**views, gold.table: found}.items()}
    defined = definition(gold, views, columns)
    excuse = excuse_of(gold, layout, state, settings)
    yield from _comparison(state, excuse.why if excuse else "", found, defined, columns[gold.table], tables)


def _comparison(  # noqa: PLR0913, PLR0917  # what a comparison is made of
    state: GoldState,
    excuse: str,
    found: str,
    defined: Definition,
    columns: Mapping[str, str],
    tables: Tables,
) -> Iterator[str]:
    """The rows of both as multisets; what is computed with floating-point numbers may differ a little."""
    table = state.batch.query
    expected = {name.lower(): kind for name, kind in tables.columns(defined.sql).items()}
    exact, close = [], []
    for name, kind in columns.items():
        mine = expected.get(name.lower())
        why = None
        if mine is None:
            why = defined.left_out.get(name, "the definition does not give it")
        elif kind.startswith("DECIMAL") and mine in _FLOATS:
            why = f"DuckDB computes it as {mine}, not exactly"
        if why is not None:
            yield not_compared(table, f"column {name}", why)
        elif kind in _FLOATS and name in defined.rounded and name not in defined.keys:
            close.append(name)
        else:
            exact.append(name)
    if not (exact or close):
        return
    of = ", ".join(f"{name}@{version}" for name, version in state.sources.items())
    # By number: a column may have the name of one of the comparison's own.
    names = {name: f"c{number}" for number, name in enumerate((*exact, *close))}
    want = ", ".join(f"TRY_CAST({_q(name)} AS {columns[name]}) AS {number}" for name, number in names.items())
    have = ", ".join(f"{_q(name)} AS {number}" for name, number in names.items())
    keys = ", ".join(f"{_q(name)}: {names[name]}" for name in defined.keys if name in names)
    view = _q(f"definition of {table}")
    yield f"CREATE VIEW {view} AS\n  {defined.sql};\n"
    yield compared(
        about=table,
        check=standard_text(_DEFINED if len(names) == len(columns) else f"{_DEFINED} in {', '.join(names)}"),
        holds="count(*) = count(*) FILTER (is_same)",
        expected=f"coalesce(sum(expected), 0) || ' rows, of {of}'",
        found=f"coalesce(sum(found), 0) || ' rows at version {state.version} of {state.newest}, ' "
        "|| count(*) FILTER (NOT is_same) || ' differ'",
        shown=f"shown_keys(min(to_json({{{keys}}})::VARCHAR, 5) FILTER (NOT is_same))" if keys else "''",
        rows=_groups(
            [names[name] for name in exact],
            [names[name] for name in close],
            f"(SELECT {want} FROM {view})",
            f"(SELECT {have} FROM {found})",
        ),
        otherwise=standard_text(f"not compared: {excuse}" if excuse else "different"),
    )


def _groups(exact: Sequence[str], close: Sequence[str], want: str, have: str) -> str:
    """Rows that are alike in their exact columns: how many there must be and are, and whether all are there.

    Rows that are alike in all columns need no comparison; those that are left are compared rank by rank.
    """
    names = "".join(f"{name}, " for name in (*exact, *close))
    by = "".join(f"{name}, " for name in exact)
    near = _near(close) if close else "false"
    return f"""FROM (
  SELECT {by}sum(e)::BIGINT AS expected, sum(f)::BIGINT AS found,
    coalesce(bool_and(e = f) OR {near}, false) AS is_same
  FROM (
    SELECT {names}count(*) FILTER (is_expected) AS e, count(*) FILTER (NOT is_expected) AS f
    FROM (SELECT {names}true AS is_expected FROM {want} UNION ALL SELECT {names}false FROM {have})
    GROUP BY ALL)
  GROUP BY ALL)"""


def _near(close: Sequence[str]) -> str:
    """Whether the rows that are left of a group are alike, up to the last digits of their floats.

    In which column they are put in order first is tried in turn: where two values of it differ in their last
    digits only, the other columns decide.
    """
    row = "{" + ", ".join(f"{name}: {name}" for name in close) + "}"
    same = " AND ".join(f"is_close(p[1].{name}, p[2].{name})" for name in close)
    ways = []
    for first in close:
        order = ", ".join(dict.fromkeys((first, *close)))
        sides = ", ".join(
            f"flatten(list(list_transform(range({more} - {less}), lambda n: {row}) ORDER BY {order}) "
            f"FILTER ({more} > {less}))"
            for more, less in (("e", "f"), ("f", "e"))
        )
        ways.append(f"coalesce(list_bool_and(list_transform(list_zip({sides}), lambda p: {same})), false)")
    return f"(sum(e) = sum(f) AND ({' OR '.join(ways)}))"


_q = double_quoted
