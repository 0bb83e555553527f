"""The truncation that has taken a record's row out of a gold table, as the rows of its source have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from common.declare import ChangeFeed, Gold, History
from common.declare.row_order import total_order
from common.errors import SqlError
from common.sql.quoting import double_quoted
from orchestration.access.query.record_place import Place
from orchestration.records.proof.definitions import written
from orchestration.records.trace.behind import RECORD, source_of
from orchestration.records.trace.tables import Tables

IS_ONE = "no row: the record is a truncation, which takes out every row before it"


@dataclass(frozen=True, slots=True)
class Truncations:
    """Of a gold table's source, the rows that empty the table, by queries with the same columns."""

    tables: Tables
    # All rows: their key as ``k``, their places ``declared`` and ``place``, the second by the coordinates
    # too, whether a row ``empties`` the table, and is no row of a key (``alone``).
    every: str
    own: str  # the record's rows; all rows where none is asked for

    def is_one(self) -> bool:
        """Whether the record is a truncation and no row."""
        return bool(self.tables.rows(f"SELECT 1 FROM ({self.own}) WHERE empties AND alone LIMIT 1"))

    def last(self, key: Sequence[str], values: Sequence[str]) -> Place | None:
        """The last record of a key, by SQL with a mark for each value; None without one."""
        names = ", ".join(map(double_quoted, RECORD))
        sql = (
            f"SELECT {names} FROM ({self.every}) WHERE k = ROW({', '.join(key)}) ORDER BY place DESC LIMIT 1"
        )
        found = self.tables.rows(sql, values)
        return Place(*found[0].values()) if found else None

    def after(self) -> Place | None:
        """The first truncation after the record; None if there is none, or the key has a row between them.

        One that is a row, too, comes before what is equal to it in the declared order.
        """
        names = ", ".join(map(double_quoted, RECORD))
        theirs = ", ".join(f"s.{double_quoted(name)}" for name in RECORD)
        found = self.tables.rows(
            f"""WITH r AS (SELECT * FROM ({self.own}) WHERE NOT alone), s AS ({self.every}), t AS (
              SELECT s.place AS until, {theirs} FROM s, r
              WHERE s.empties AND s.place > r.place AND (s.alone OR s.declared > r.declared)
              ORDER BY s.place LIMIT 1)
            SELECT {names} FROM t WHERE NOT EXISTS (SELECT 1 FROM s, r
              WHERE s.k IS NOT DISTINCT FROM r.k AND s.place > r.place AND s.place < t.until)"""
        )
        return Place(*(found[0][name] for name in RECORD)) if found else None


def truncations_of(tables: Tables, gold: Gold, rows: str | None = None) -> Truncations | None:
    """Those of a table that declares some; None of the others, and where DuckDB may read them otherwise.

    Args:
        rows: A query for the record's rows in the source; None where no record is asked for.
    """
    if not isinstance(gold, (ChangeFeed, History)) or gold.truncates is None:
        return None
    with suppress(SqlError):
        return _truncations(tables, gold, rows)
    return None


def _truncations(tables: Tables, gold: ChangeFeed | History, rows: str | None) -> Truncations:
    source = source_of(tables, gold.reads)
    types = tables.types(source)
    columns = gold.columns if isinstance(gold.columns, Mapping) else {}
    by = gold.sequence_by or ()
    declared = [gold.valid_by, *by] if isinstance(gold, History) else [columns.get(n, f"`{n}`") for n in by]
    empties = written(str(gold.truncates), types)
    key, at = [
        [written(text, types) for text in texts]
        for texts in ([columns.get(name, f"`{name}`") for name in gold.key], declared)
    ]
    places = [*at, *(double_quoted(name) for name in total_order(()))]
    lacks_key = " AND ".join(f"{each} IS NULL" for each in key)
    listed = f"""ROW({", ".join(key)}) AS k, ROW({", ".join(at)}) AS declared,
        ROW({", ".join(places)}) AS place, coalesce({empties}, false) AS empties, {lacks_key} AS alone,
        {", ".join(map(double_quoted, RECORD))}"""
    every = f"SELECT {listed} FROM {source}"
    return Truncations(tables, every, every if rows is None else f"SELECT {listed} FROM ({rows})")
