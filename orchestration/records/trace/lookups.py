"""What the tables have of some records of one bronze table: one query per table, however many records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from common.config.paths import ERASED
from common.declare import Silver
from common.sql.quoting import double_quoted, standard_text
from orchestration.access.query.record_place import Place
from orchestration.records.audit.table_log import TableCommit, delta_position, kafka_positions
from orchestration.records.proof.value_columns import ValueColumns
from orchestration.records.trace.tables import Tables

_PLACES = "__places"
_FIELDS = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Witness:
    """What the bytes of a record say of its place in a silver table."""

    # Whether DuckDB reads its key and the condition as the bytes have them; else the rest says nothing.
    is_alike: bool
    is_own: bool  # whether it is a record of the table
    place: Place | None  # the record of a row there with its key; None without one


@dataclass
class Lookups:
    """What is known of records of one bronze table."""

    tables: Tables
    bronze: str  # the bronze table
    places: Sequence[Place]  # the records
    _held: dict[str, Mapping[Place, list[dict[str, Any]]]] = field(default_factory=dict)
    _values: dict[str, ValueColumns] = field(default_factory=dict)
    _witnesses: dict[str, Mapping[Place, Witness]] = field(default_factory=dict)
    _judged: dict[tuple[str, int], TableCommit | None] = field(default_factory=dict)

    @cached_property
    def rows(self) -> Mapping[Place, dict[str, Any]]:
        """Their rows in bronze, without key, value and headers."""
        columns = (
            "kafka_timestamp, ingested_at, value IS NULL AS is_tombstone, "
            f"{self.tables.file_of(self.bronze)} AS file"
        )
        found = self._found(self.bronze, columns)
        return {place: rows[0] for place, rows in found.items()}

    @cached_property
    def erased(self) -> frozenset[Place]:
        """Those that were erased."""
        found = self._found(ERASED, "1 AS one", also=f"bronze = {standard_text(self.bronze)}")
        return frozenset(found)

    def held(self, table: str, columns: str, prefix: str = "") -> Mapping[Place, list[dict[str, Any]]]:
        """Their rows in a table; each table is read once, with the first columns that are asked for."""
        if table not in self._held:
            self._held[table] = self._found(table, columns, prefix)
        return self._held[table]

    def read_by(self, place: Place) -> TableCommit | None:
        """The micro-batch of bronze that has read a record."""
        ends, commits = self._reads.get((place.topic, place.partition), ([], []))
        at = bisect_right(ends, place.offset)
        return commits[at] if at < len(commits) else None

    @cached_property
    def read_to(self) -> Mapping[tuple[str, int], int]:
        """By topic and partition, the next offset that bronze reads."""
        return read_to(self.tables, self.bronze)

    @cached_property
    def _reads(self) -> Mapping[tuple[str, int], tuple[list[int], list[TableCommit]]]:
        """By topic and partition, the ends of micro-batches in ascending order, and their commits."""
        found: dict[tuple[str, int], tuple[list[int], list[TableCommit]]] = {}
        for one in self.tables.log(self.bronze).commits:
            for place, end in kafka_positions(one).items() if one.batch_id is not None else ():
                ends, commits = found.setdefault(place, ([], []))
                if not ends or end > ends[-1]:
                    ends.append(end)
                    commits.append(one)
        return found

    def judged_by(self, silver: Silver, place: Place) -> TableCommit | None:
        """The micro-batch of a silver table that has read a record."""
        read_by = self.read_by(place)
        if read_by is None:
            return None
        known = silver.table, read_by.version
        if known not in self._judged:
            self._judged[known] = self._first_after(silver, read_by.version)
        return self._judged[known]

    def _first_after(self, silver: Silver, version: int) -> TableCommit | None:
        for one in self.tables.log(silver.table).steps("accepted"):
            position = delta_position(one, silver.sources.index(self.bronze))
            if position is not None and (
                position.version > version or (position.version == version and position.index >= 0)
            ):
                return one
        return None

    def values(self, silver: Silver) -> ValueColumns:
        """The key of a silver table and its condition ``where``, as DuckDB reads them from bronze's bytes."""
        if silver.table not in self._values:
            values = self._values[silver.table] = ValueColumns(silver)
            values.add_key(silver.event_key)
            if silver.where is not None:
                values.add("where", silver.where)
        return self._values[silver.table]

    def witness(self, silver: Silver, place: Place) -> Witness:
        """What the bytes of a record that is in bronze alone say of its place in a silver table."""
        if silver.table not in self._witnesses:
            self._witnesses[silver.table] = self._with_keys(silver, self.values(silver))
        return self._witnesses[silver.table][place]

    def _with_keys(self, silver: Silver, values: ValueColumns) -> Mapping[Place, Witness]:
        key = {f"k{number}": double_quoted(name) for number, name in enumerate(silver.event_key)}
        listed = ", ".join(f'{text} AS "{name}"' for name, text in values.texts.items())
        listed += f", {values.is_read_alike(values.texts)} AS is_alike"
        own = 'coalesce("where", false)' if "where" in values.texts else "true"
        bronze, mine = self.tables.source(self.bronze), self.tables.source(silver.table)
        rows = f"""(SELECT topic, partition, "offset", kafka_timestamp AS "timestamp", value
          FROM {bronze} WHERE {self._among()})"""
        same = " AND ".join(f"r.{name} = s.{name}" for name in key)
        columns = [f"{name} AS {number}" for number, name in key.items()]
        columns += [f"{double_quoted(f'_kafka_{name}')} AS w{n}" for n, name in enumerate(_FIELDS)]
        found = self.tables.rows(
            f"""SELECT r.topic, r.partition, r."offset", {own} AS own, is_alike, w0, w1, w2
            FROM (SELECT topic, partition, "offset", {listed} FROM ({values.source(rows)})) AS r
            LEFT JOIN (SELECT {", ".join(columns)} FROM {mine}) AS s ON {same}"""
        )
        return {
            Place(row["topic"], row["partition"], row["offset"]): Witness(
                bool(row["is_alike"]),
                bool(row["own"]),
                None if row["w0"] is None else Place(row["w0"], row["w1"], row["w2"]),
            )
            for row in found
        }

    def _found(
        self, table: str, columns: str, prefix: str = "", also: str = "true"
    ) -> Mapping[Place, list[dict[str, Any]]]:
        """Rows of the records by their place; none of a table that there is not."""
        source = self.tables.source(table)
        found: dict[Place, list[dict[str, Any]]] = {}
        if source is None:
            return found
        names = (f"{double_quoted(f'{prefix}{name}')} AS __{name}" for name in _FIELDS)
        sql = f"SELECT {', '.join(names)}, {columns} FROM {source} WHERE {also} AND {self._among(prefix)}"
        for row in self.tables.rows(sql):
            place = Place(*(row.pop(f"__{name}") for name in _FIELDS))
            found.setdefault(place, []).append(row)
        return found

    def _among(self, prefix: str = "") -> str:
        """The condition by which the records' rows are found, with bounds by which files are left out."""
        if len(self.places) == 1:
            return self.places[0].condition(prefix)
        self._register()
        names = ", ".join(double_quoted(f"{prefix}{name}") for name in _FIELDS)
        offsets = [place.offset for place in self.places]
        bounds = f"{double_quoted(f'{prefix}offset')} BETWEEN {min(offsets)} AND {max(offsets)}"
        return f'{bounds} AND ({names}) IN (SELECT (topic, partition, "offset") FROM {_PLACES})'

    def _register(self) -> None:
        """Have the database know the places; another set of records may have been there before."""
        import pyarrow as pa

        columns = zip(*((one.topic, one.partition, one.offset) for one in self.places), strict=True)
        types = (pa.string(), pa.int32(), pa.int64())
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        self.tables.database.connection.register(_PLACES, pa.table(dict(zip(_FIELDS, arrays, strict=True))))


def read_to(tables: Tables, bronze: str) -> Mapping[tuple[str, int], int]:
    """By topic and partition, the next offset that a bronze table reads.

    The newest commit of each query says it: files that are appended to a topic's table have their own.
    """
    own = (one for one in tables.log(bronze).commits if one.batch_id is not None)
    newest = {str(one.metadata.get("query")): one for one in own}
    return {place: end for one in newest.values() for place, end in kafka_positions(one).items()}
