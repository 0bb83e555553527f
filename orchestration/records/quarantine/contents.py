"""Reads quarantined records without Spark: counts per reason, and records with escaped payloads.

Payloads may be secret. ``groups`` never reads them; only ``rows``, for ``medallion quarantine show``, does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.config.paths import Layout
from common.declare import Pipeline, Silver
from common.declare.files import PREFIX as FILES_PREFIX
from common.delta.log import LogReader
from common.errors import TableMissingError, UsageError, nearest
from orchestration.access.query.allowed_sql import refused_condition
from orchestration.access.query.duckdb_views import Database
from orchestration.access.query.record_place import Place

_COORDINATES = ("topic", "partition", "offset")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
"""A part of the path of a field: a name, or the place of an element."""

_OF_SOME_TABLES = {"field": "VARCHAR", "rule_version": "VARCHAR", "element": "BIGINT"}
"""Columns, with their types, that quarantine tables of earlier releases lack, or of records without elements;
they are shown as null."""


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one table with one reason; a row with two reasons is in both groups."""

    table: str
    reason: str
    rows: int  # number of rows
    dropped: int  # number of rows that kept only their coordinates
    older: int  # number of rows that an older declaration judged
    first_seen: datetime  # time at which the first row was read from Kafka, UTC
    last_seen: datetime  # time at which the last row was read from Kafka, UTC
    example: Place  # coordinates of the last row


@dataclass(frozen=True, slots=True)
class Judgeable:
    """What a replay finds in quarantine."""

    selected: int  # number of rows
    dropped: int  # number of rows that have no payload
    older: int  # number of rows that are left out, because an older declaration judged them

    @property
    def count(self) -> int:
        """Number of rows to be judged."""
        return self.selected - self.dropped - self.older


@dataclass(frozen=True, slots=True)
class Row:
    """One quarantined record with its original bytes."""

    table: str
    place: Place
    reasons: tuple[str, ...]
    verdict: str
    field: str | None  # the field at which reading the value failed, if known
    rule_version: str | None
    is_current: bool  # whether the current declaration judged the record
    timestamp: datetime  # Kafka's timestamp
    timestamp_type: int  # origin of the timestamp: 0 the producer's clock, 1 the broker's clock
    ingested_at: datetime
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    element: int | None = None  # the position of an element in its record; None for a whole record

    @property
    def file(self) -> str | None:
        """The file that the record is of, below its folder; None for a record of a topic."""
        return self._said("path")

    @property
    def record(self) -> int:
        """The place of a file's record, from 1."""
        return int(self._said("row") or 0) + 1

    @property
    def at_field(self) -> str | None:
        """What a JSON value has at the field, as JSON text; None where it has none, or is no JSON."""
        if self.field is None or self.value is None:
            return None
        try:
            found = _at(json.loads(self.value, parse_int=_Spelt, parse_float=_Spelt), self.field)
            if isinstance(found, dict | list):  # whose numbers are not texts
                found = _at(json.loads(self.value), self.field)
        except (ValueError, RecursionError, LookupError, TypeError):
            return None
        return str(found) if isinstance(found, _Spelt) else json.dumps(found, ensure_ascii=False)

    def _said(self, name: str) -> str | None:
        if not self.place.topic.startswith(FILES_PREFIX):
            return None
        value = dict(self.headers).get(name)
        return None if value is None else value.decode("utf-8", "replace")


class _Spelt(str):
    """A JSON number as it is spelt."""

    __slots__ = ()


def _at(value: Any, path: str) -> Any:
    """The value at a path such as ``a.b`` or ``a[2].b``, also of a payload beside its schema.

    Raises:
        LookupError: There is none.
        TypeError: A part of the path leads into a value that has no members.
    """
    if isinstance(value, dict) and "schema" in value and isinstance(value.get("payload"), dict):
        value = value["payload"]
    for name, place in _STEP.findall(path):
        value = value[int(place)] if place else value[name]
    return value


def select_silver_tables(pipeline: Pipeline, table: str | None) -> tuple[Silver, ...]:
    """The silver table with this short name, full name or quarantine table; all silver tables if None.

    Raises:
        UsageError: The pipeline declares no such silver table.
    """
    if table is None:
        return tuple(pipeline.silver)
    for silver in pipeline.silver:
        if table in (silver.name, silver.table, silver.quarantine):
            return (silver,)
    raise UsageError(f"{table}: no such silver table; {nearest(table, [s.table for s in pipeline.silver])}")


def groups(database: Database, layout: Layout, silver: Silver) -> tuple[Group, ...]:
    """The rows of a table's quarantine grouped by reason, largest first; empty before the first write."""
    source = _source(database, layout, silver)
    if source is None:
        return ()
    example = (
        "max({'ingested_at': ingested_at, 'topic': topic, 'partition': \"partition\", 'offset': \"offset\"})"
    )
    found = database.connection.execute(
        f"SELECT reason, count(*), count(*) FILTER (verdict = 'drop'), "  # noqa: S608  # our own path, quoted
        "count(*) FILTER (rule_version IS DISTINCT FROM ?), min(ingested_at), max(ingested_at), "
        f"{example} FROM (SELECT unnest(reasons) AS reason, * FROM {source}) "
        "GROUP BY reason ORDER BY count(*) DESC, reason",
        [_rule_version(silver)],
    ).fetchall()
    return tuple(
        Group(
            table=silver.table,
            reason=row[0],
            rows=row[1],
            dropped=row[2],
            older=row[3],
            first_seen=row[4],
            last_seen=row[5],
            example=Place(*(row[6][name] for name in _COORDINATES)),
        )
        for row in found
    )


def judgeable(database: Database, layout: Layout, silver: Silver, *, with_older: bool) -> Judgeable:
    """How many rows of a table's quarantine a replay without a condition would judge again.

    Raises:
        TableMissingError: The quarantine table does not exist yet.
    """
    source = _source(database, layout, silver)
    if source is None:
        raise missing(layout, silver)
    row = database.connection.execute(
        "SELECT count(*), count(*) FILTER (verdict <> 'quarantine'), "  # noqa: S608  # our own path, quoted
        "count(*) FILTER (verdict = 'quarantine' AND rule_version IS DISTINCT FROM $current) "
        f"FROM {source} WHERE rule_version IS DISTINCT FROM $current OR NOT list_contains(reasons, 'poison')",
        {"current": _rule_version(silver)},
    ).fetchone()
    selected, dropped, older = row or (0, 0, 0)
    return Judgeable(selected, dropped, 0 if with_older else older)


def rows(  # noqa: PLR0913  # one per option
    database: Database,
    layout: Layout,
    silver: Silver,
    *,
    reason: str | None = None,
    where: str | None = None,
    limit: int,
) -> Iterator[Row]:
    """Quarantined rows, newest first by the time at which they were read from Kafka.

    Raises:
        TableMissingError: The quarantine table does not exist yet.
        UsageError: ``where`` is not a condition over the table's columns.
    """
    import duckdb  # a third of a second that other commands do not need

    source = _source(database, layout, silver)
    if source is None:
        raise missing(layout, silver)
    conditions = [f"({where})"] if where else []
    conditions += ["list_contains(reasons, ?)"] if reason is not None else []
    order = ", ".join(f'"{name}" DESC' for name in ("ingested_at", *_COORDINATES, "element"))
    current = _rule_version(silver)
    try:
        found = database.connection.execute(
            'SELECT topic, "partition", "offset", reasons, verdict, field, rule_version, '  # noqa: S608  # the user's own condition, over what the user may read
            "kafka_timestamp, kafka_timestamp_type, ingested_at, key, value, headers, element "
            f"FROM {source} WHERE {' AND '.join(conditions) or 'true'} ORDER BY {order} LIMIT {limit}",
            [] if reason is None else [reason],
        )
        while (row := found.fetchone()) is not None:
            yield _row(silver.table, row, current)
    except duckdb.Error as error:
        raise refused_condition(error) from error


def _rule_version(silver: Silver) -> str:
    """The rule version of the current declaration."""
    from silver.judge.reasons_and_verdict import rules_version  # imported here, because it imports PySpark

    return rules_version(silver)


def missing(layout: Layout, silver: Silver) -> TableMissingError:
    """The error for a quarantine table that was never written."""
    return TableMissingError(silver.quarantine, layout.table_path(silver.quarantine))


def _source(database: Database, layout: Layout, silver: Silver) -> str | None:
    """SQL of a quarantine table with all current columns; None if the table does not exist."""
    now = LogReader(layout.table_path(silver.quarantine)).snapshot()
    if now is None:
        return None
    source = database.source(layout.table_path(silver.quarantine), now.version)
    more = [f"NULL::{kind} AS {name}" for name, kind in _OF_SOME_TABLES.items() if name not in now.columns]
    return f"(SELECT {', '.join(['*', *more])} FROM {source})"  # noqa: S608  # our own path, quoted


def _bytes_of(value: Any) -> bytes | None:
    """A value as bytes; of a bronze table with typed columns their JSON text, for a person."""
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, default=str, ensure_ascii=False).encode()


def _row(table: str, row: Sequence[Any], current: str) -> Row:
    headers = tuple((one["key"], one["value"]) for one in row[12] or ())
    return Row(
        table=table,
        place=Place(*row[:3]),
        reasons=tuple(row[3]),
        verdict=row[4],
        field=row[5],
        rule_version=row[6],
        is_current=row[6] == current,
        timestamp=row[7],
        timestamp_type=row[8],
        ingested_at=row[9],
        key=row[10],
        value=_bytes_of(row[11]),
        headers=headers,
        element=row[13],
    )
