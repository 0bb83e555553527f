"""The checks of gold tables: each equals its definition over its sources at the versions that it has read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.config.paths import Layout
from common.declare import Aggregate, Gold, Pipeline, Upsert, View
from common.declare.declared import is_path
from common.delta.checkpoint import DeltaPosition, delta_position_of
from common.delta.log import LogReader
from common.errors import SqlError, TableError
from common.machine.object_store import storage_options
from common.sql.quoting import double_quoted, standard_text
from orchestration.records.proof.checks import compared, heading, not_compared
from orchestration.records.proof.definitions import Definition, definition
from orchestration.records.proof.tables import Tables

_FEED = "delta.enableChangeDataFeed"
_FLOATS = {"FLOAT", "DOUBLE"}


@dataclass(frozen=True, slots=True)
class State:
    """A version of a gold table, and the version of each source that it has read to the end."""

    version: int
    sources: Mapping[str, int]


def gold_checks(pipeline: Pipeline, layout: Layout, tables: Tables) -> Iterator[str]:
    """The statements for all gold tables of a pipeline, in the order of their declaration."""
    for gold in pipeline.gold:
        yield heading(f"{gold.table} equals its definition")
        try:
            yield from _checks(gold, layout, tables)
        except (SqlError, TableError) as error:
            yield not_compared(gold.table, "equals its definition", str(error).splitlines()[0])


def _checks(gold: Gold, layout: Layout, tables: Tables) -> Iterator[str]:
    """The statements for one table.

    Raises:
        SqlError: The definition is none that DuckDB computes as Spark does.
        TableError: A version that is needed cannot be read.
    """
    names = gold.sources if isinstance(gold, View) else (gold.reads,)
    if by_path := [name for name in names if is_path(name)]:
        raise SqlError(f"reads {by_path[0]}, which is no table of the pipeline")
    if not isinstance(gold, View) and gold.reading.has_start:
        raise SqlError("begins at a later version of its source")
    if not isinstance(gold, View | Upsert | Aggregate):
        definition(gold, {}, {})  # says why
    state = newest_state(gold.table, names, layout.table_path)
    _refuse_unfollowed(gold, layout, state)
    found = tables.view(gold.table, layout.table_path(gold.table), state.version)
    views = {
        name: tables.view(name, layout.table_path(name), version) for name, version in state.sources.items()
    }
    columns = {name: tables.columns(view) for name, view in {**views, gold.table: found}.items()}
    defined = definition(gold, views, columns)
    yield from _comparison(gold.table, found, defined, columns[gold.table], tables)


def newest_state(table: str, sources: Sequence[str], path_of: Callable[[str], str]) -> State:
    """The newest version of a table that has read each source up to the end of a commit.

    Args:
        sources: The tables that its query reads, in the order of its positions.
        path_of: Gives the path of a table.

    Raises:
        TableError: There is none.
    """
    log = LogReader(path_of(table))
    oldest, latest = log.oldest_version(), log.latest_version()
    if oldest is None or latest is None:
        raise TableError(f"{table} is not written yet")
    version = latest
    for one in reversed(list(log.commits(oldest))):
        told = one.metadata
        if told.get("query") != table or "batch_id" not in told:
            continue
        if (read := _read_to(told, sources, path_of)) is not None:
            return State(version, read)
        version = one.version - 1
    raise TableError(f"no commit of {table} says up to which version it has read its sources")


def _read_to(
    told: Mapping[str, Any], sources: Sequence[str], path_of: Callable[[str], str]
) -> Mapping[str, int] | None:
    """The versions that a micro-batch has read; None where one is read in part."""
    read: dict[str, int] = {}
    positions = told.get("positions") or ()
    covered = (told.get("counts") or {}).get("covers")
    for number, name in enumerate(sources):
        end = delta_position_of(positions, number)
        if end is None or (version := _version(end, covered, path_of(name))) is None:
            return None
        read[name] = version
    return read


def _version(end: DeltaPosition, covered: object, path: str) -> int | None:
    """The version that is read to its end; None where its rows are read in part."""
    if end.in_snapshot:
        is_whole = covered == end.version or end.index + 1 >= _number_of_files(path, end.version)
        return end.version if is_whole else None
    return end.version - 1 if end.index < 0 else None


def _number_of_files(path: str, version: int) -> int:
    from deltalake import DeltaTable  # imported here: needed for a table that has only read a first state

    return len(DeltaTable(path, version=version, storage_options=storage_options(path)).file_uris())


def _refuse_unfollowed(gold: Gold, layout: Layout, state: State) -> None:
    """Refuse a table that has not followed rows which its source has lost or changed.

    Raises:
        SqlError: Names the first such commit.
    """
    if isinstance(gold, View):
        return
    log = LogReader(layout.table_path(gold.reads))
    has_feed = log.properties().get(_FEED, "").lower() == "true"
    if gold.takes_rows_back and gold.reading.changes != "appends" and has_feed:
        return
    oldest = log.oldest_version() or 0
    for one in log.commits(oldest):
        if one.is_change and one.version <= state.sources[gold.reads]:
            raise SqlError(f"does not follow the rows that {gold.reads} took away in version {one.version}")


def _comparison(
    table: str, found: str, defined: Definition, columns: Mapping[str, str], tables: Tables
) -> Iterator[str]:
    """The rows of both as multisets; what is computed with floating-point numbers may differ a little."""
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
        elif defined.may_round and kind in _FLOATS and name not in defined.keys:
            close.append(name)
        else:
            exact.append(name)
    keys = [name for name in defined.keys if name in columns]
    yield _statement(table, found, defined, columns, exact, close, keys)


def _statement(  # noqa: PLR0913, PLR0917  # what a comparison is made of
    table: str,
    found: str,
    defined: Definition,
    columns: Mapping[str, str],
    exact: Sequence[str],
    close: Sequence[str],
    keys: Sequence[str],
) -> str:
    def listed(*more: str) -> str:
        return ", ".join([*map(double_quoted, (*exact, *close)), *more])

    same = " AND ".join(
        f"is_close({how}({double_quoted(name)}) FILTER (is_expected), "
        f"{how}({double_quoted(name)}) FILTER (NOT is_expected))"
        for name in close
        for how in ("min", "max", "sum")
    )
    cast = ", ".join(f"CAST({double_quoted(name)} AS {columns[name]}) AS {double_quoted(name)}" for name in (*exact, *close))  # noqa: E501  # fmt: skip
    key = ", ".join(f"{double_quoted(name)}: {double_quoted(name)}" for name in keys)
    shown = f"shown_keys(min(to_json({{{key}}})::VARCHAR, 5) FILTER (NOT is_same))" if keys else "''"
    grouped = ", ".join(map(double_quoted, exact)) or "()"
    own = ", ".join(map(double_quoted, keys))
    return f"""\
CREATE VIEW {double_quoted(f"definition of {table}")} AS
  {defined.sql};

{compared(
    about=table,
    check=standard_text("equals its definition" if len(exact) + len(close) == len(columns)
                        else f"equals its definition in {', '.join((*exact, *close))}"),
    holds="count(*) = count(*) FILTER (is_same)",
    expected="coalesce(sum(expected), 0) || ' rows'",
    found="coalesce(sum(found), 0) || ' rows, ' || count(*) FILTER (NOT is_same) || ' differ'",
    shown=shown,
    rows=f'''FROM (
  SELECT {own + ", " if own else ""}count(*) FILTER (is_expected) AS expected,
    count(*) FILTER (NOT is_expected) AS found,
    count(*) FILTER (is_expected) = count(*) FILTER (NOT is_expected)
      {" AND " + same if same else ""} AS is_same
  FROM (
    SELECT {cast}, true AS is_expected FROM {double_quoted(f"definition of {table}")}
    UNION ALL
    SELECT {listed("false")} FROM {found})
  GROUP BY {grouped})''',
)}"""  # fmt: skip
