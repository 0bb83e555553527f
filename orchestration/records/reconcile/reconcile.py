"""Compares a table of the pipeline with its source: now, and once more for what may be on its way.

A source that has no ``valid_from`` has no versions: beside it a ``History`` is its current rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from common.config.paths import Layout, all_tables
from common.declare import History, Pipeline
from common.delta.log import LogReader
from common.errors import TableMissingError, UsageError, first_line, nearest
from gold.table.identity import identity
from orchestration.access.query.duckdb_views import Database
from orchestration.records.reconcile.compare import KEY_CANNOT_BE_READ, Comparison, Sides, compare
from orchestration.records.reconcile.other_side import OtherSide, other_side
from silver.read.column_names import KAFKA_TIMESTAMP

_VALID_FROM = "valid_from"


@dataclass(frozen=True)
class Wanted:
    """What is compared, and how."""

    table: str  # a silver or gold table
    against: str  # the other side, as ``other_side`` takes it
    # The key's columns; unset: those that identify a row by the table's declaration, of a ``History`` without
    # ``valid_from`` where the other side has none. Without it only its current rows are read.
    key: Sequence[str] = ()
    columns: Sequence[str] = ()  # the columns to compare; unset: all that both sides have
    expressions: Mapping[str, str] = field(default_factory=dict)  # what a column is on the other side, in SQL
    version: int | None = None  # the version of the table; unset: the newest
    changed_at: str | None = None  # the other side's column with the time of a row's last change; unset: none
    settle_seconds: float = 0  # after how many seconds keys that differ are compared again; 0: not
    limit: int = 20  # most differing keys that are read whole


@dataclass(frozen=True)
class Reconciled:
    """A comparison, and of what it is."""

    table: str
    version: int  # the version of it that was read
    against: str  # the other side, without a password
    key: tuple[str, ...]  # the key's columns
    is_current: bool  # whether only the current rows of a ``History`` were compared
    read_until: datetime | None  # the newest Kafka time that the table has read; None unless it was asked for
    result: Comparison  # what was found


def reconcile(pipeline: Pipeline, layout: Layout, wanted: Wanted) -> Reconciled:
    """Compare a table with the other side, at one version and one snapshot.

    With ``settle_seconds``, keys that differ are compared again after that time, by the newest version and a
    new snapshot: what is the same then was on its way, and what differs only then is.

    Raises:
        UsageError: The table, a column or the other side is not there, or options contradict each other.
        TableMissingError: The table has no micro-batch yet.
        TableError: A side cannot be read.
    """
    if wanted.settle_seconds and wanted.version is not None:
        raise UsageError("--settle reads the newest version again; leave out --as-of, or --settle.")
    _refuse_unknown(pipeline, wanted.table)
    key = tuple(wanted.key) or _declared_key(pipeline, wanted.table)
    has_versions = any(gold.table == wanted.table and isinstance(gold, History) for gold in pipeline.gold)
    database = Database()
    other = other_side(wanted.against, database)
    found = _compared(database, layout, wanted, key, other, has_versions)
    if found.result.wrong and wanted.settle_seconds:
        time.sleep(wanted.settle_seconds)
        # A Delta table that is named without a version has a new one by now.
        other = other_side(wanted.against, database)
        found = _compared(database, layout, wanted, key, other, has_versions, is_again=True)
    return found


def _compared(  # noqa: PLR0913, PLR0917  # what is compared, and whether again
    database: Database,
    layout: Layout,
    wanted: Wanted,
    key: tuple[str, ...],
    other: OtherSide,
    has_versions: bool,  # noqa: FBT001
    is_again: bool = False,  # noqa: FBT001, FBT002
) -> Reconciled:
    import duckdb

    path = layout.table_path(wanted.table)
    newest = LogReader(path).latest_version()
    if newest is None:
        raise TableMissingError(wanted.table, path)
    version = newest if wanted.version is None else wanted.version
    if version > newest:
        raise UsageError(f"{wanted.table} has no version {version} yet; its newest is {newest}.")
    here = database.source(path, version)
    with other.opened(database):
        try:
            until = _read_until(database, here, wanted) if wanted.changed_at else None
            sides = Sides(
                database,
                here,
                other.relation,
                key,
                wanted.expressions,
                wanted.columns,
                wanted.changed_at,
                until,
            )
            if has_versions and not wanted.key and _VALID_FROM not in sides.there_columns:
                sides = replace(sides, key=[name for name in key if name != _VALID_FROM])
            if is_current := has_versions and _VALID_FROM not in sides.key:
                sides = replace(sides, here=f"(SELECT * FROM {here} WHERE is_current)")
            result = compare(sides, wanted.limit, is_again=is_again)
        except duckdb.Error as error:
            if KEY_CANNOT_BE_READ in (text := first_line(error)):
                raise UsageError(text) from error
            raise other.failed(error) from error
    return Reconciled(wanted.table, version, other.shown, tuple(sides.key), is_current, until, result)


def _declared_key(pipeline: Pipeline, table: str) -> tuple[str, ...]:
    """The columns that identify a row by the declaration: of silver those of an event, not of its record."""
    events = {silver.table: silver.event_key for silver in pipeline.silver}
    key = events.get(table) or identity(pipeline, table)
    if not key:
        raise UsageError(f"{table} declares no key; name its columns: --key order_id")
    return key


def _refuse_unknown(pipeline: Pipeline, table: str) -> None:
    tables = [name for name in all_tables(pipeline) if not name.startswith("bronze.")]
    if table not in tables:
        raise UsageError(f"{table} is no silver or gold table of the pipeline; {nearest(table, tables)}")


def _read_until(database: Database, here: str, wanted: Wanted) -> datetime:
    run = database.connection.execute
    names = [row[0] for row in run(f"DESCRIBE SELECT * FROM {here}").fetchall()]
    if KAFKA_TIMESTAMP not in names:
        raise UsageError(
            f"{wanted.table} has no column {KAFKA_TIMESTAMP}, so that it is not known up to when it has "
            "read; use --settle instead of --changed-at."
        )
    ((found,),) = run(f'SELECT max("{KAFKA_TIMESTAMP}") FROM {here}').fetchall()
    if found is None:
        raise UsageError(f"{wanted.table} has no row yet")
    return found  # type: ignore[no-any-return]  # DuckDB's rows have no types
