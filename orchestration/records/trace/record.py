"""The way of one record, from Kafka's offset to the silver tables, from tables and logs, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from common.config.paths import ERASED, Layout
from common.declare import Pipeline, Silver
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.errors import TableError, UsageError, first_line
from common.sql.quoting import double_quoted, standard_text
from orchestration.access.query.duckdb_views import Database
from orchestration.records.audit.accepted_gaps import read_gaps
from orchestration.records.audit.table_log import (
    TableCommit,
    TableLog,
    delta_position,
    kafka_positions,
    read_log,
)
from orchestration.records.proof.value_columns import ValueColumns

_MOVED_BY = {"replay": "put into silver by a replay", "restatement": "in a file that a restatement wrote"}


@dataclass(frozen=True, slots=True)
class Place:
    """One record of Kafka; the topic is named as bronze's rows name it."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Place:
        """A place from ``topic/partition/offset``.

        Raises:
            UsageError: The text is none.
        """
        topic, _, rest = text.partition("/")
        partition, _, offset = rest.partition("/")
        if not (topic and partition.isdigit() and offset.isdigit()):
            raise UsageError(f"--offset {text!r} is not topic/partition/offset, such as orders/3/1842")
        return cls(topic, int(partition), int(offset))

    def condition(self, prefix: str = "") -> str:
        """The SQL condition by which the record's rows are found; ``_kafka_`` before silver's columns."""
        names = (double_quoted(f"{prefix}{name}") for name in ("topic", "partition", "offset"))
        topic, partition, offset = names
        named = f"{topic} = {standard_text(self.topic)} AND {partition} = {self.partition}"
        return f"{named} AND {offset} = {self.offset}"

    def document(self) -> dict[str, Any]:
        """The place in a JSON document."""
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


@dataclass
class Tables:
    """The tables of a pipeline, read by DuckDB; logs are read once."""

    database: Database
    pipeline: Pipeline
    layout: Layout
    _logs: dict[str, TableLog] = field(default_factory=dict)

    def log(self, table: str, query: str = "") -> TableLog:
        """The commits that a table's log still has."""
        if table not in self._logs:
            self._logs[table] = read_log(table, self.layout.table_path(table), query or table)
        return self._logs[table]

    def source(self, table: str, version: int | None = None) -> str | None:
        """The table in a FROM clause; None if it does not exist."""
        if LogReader(self.layout.table_path(table)).latest_version() is None:
            return None
        return self.database.source(self.layout.table_path(table), version)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query.

        Raises:
            TableError: A table cannot be read, for example a version whose files are gone.
        """
        import duckdb  # imported here, because the import takes a third of a second

        try:
            found = self.database.connection.execute(sql)
            names = [each[0] for each in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        except duckdb.Error as error:
            raise TableError(first_line(error)) from error

    def files(self) -> str:
        """SQL of the column with the data file of a row; null where delta-rs reads the table."""
        return "NULL" if self.database.note else "filename"


def commit_document(one: TableCommit | None) -> dict[str, Any]:
    """Version, micro-batch and time of a commit; nulls where the log does not have it, or no longer."""
    if one is None:
        return {"version": None, "batch_id": None, "committed_at": None}
    return {"version": one.version, "batch_id": one.batch_id, "committed_at": _iso(one.commit.timestamp)}


def _iso(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Record:
    """What is known of one record.

    Attributes:
        tables: The tables.
        place: The record.
        bronze: The bronze table of its topic.
    """

    tables: Tables
    place: Place
    bronze: str

    @cached_property
    def row(self) -> dict[str, Any] | None:
        """The record's row in bronze, without key, value and headers; None where bronze does not have it."""
        source = self.tables.source(self.bronze)
        if source is None:
            return None
        found = self.tables.rows(
            "SELECT kafka_timestamp, ingested_at, value IS NULL AS is_tombstone, "
            f"{self.tables.files()} AS file FROM {source} WHERE {self.place.condition()}"
        )
        return found[0] if found else None

    @cached_property
    def read_by(self) -> TableCommit | None:
        """The micro-batch of bronze that has read the record."""
        place = (self.place.topic, self.place.partition)
        for one in self.tables.log(self.bronze).commits:
            if one.batch_id is not None and kafka_positions(one).get(place, 0) > self.place.offset:
                return one
        return None

    def document(self) -> dict[str, Any]:
        """The record in bronze, or where it is if bronze does not have it."""
        row = self.row
        where = "held" if row is not None else self._absent()
        return {
            "table": self.bronze,
            "place": where,
            "kafka_timestamp": _iso(row["kafka_timestamp"]) if row else None,
            "ingested_at": _iso(row["ingested_at"]) if row else None,
            "file": _file_name(row["file"]) if row else None,
            **commit_document(self.read_by),
        }

    def _absent(self) -> str:
        place = self.place
        erased = self.tables.source(ERASED)
        if erased is not None:
            condition = f"bronze = {standard_text(self.bronze)} AND {place.condition()}"
            if self.tables.rows(f"SELECT 1 FROM {erased} WHERE {condition} LIMIT 1"):
                return "erased"
        layout = self.tables.layout
        expired = expired_topics(LogReader(layout.table_path(self.bronze)).properties()).get(place.topic)
        first, end = expired.offsets.get(place.partition, (0, 0)) if expired else (0, 0)
        if first <= place.offset < end:
            return "expired"
        for gap in read_gaps(layout, self.bronze):
            same = (gap.topic, gap.partition) == (place.topic, place.partition)
            if same and gap.first_offset <= place.offset <= gap.last_offset:
                return "accepted as lost"
        return "not read yet" if self.read_by is None else "not there, although bronze has read past it"

    def silvers(self) -> Iterator[Silver]:
        """The silver tables that read the record's bronze table."""
        return (one for one in self.tables.pipeline.silver if one.reads == self.bronze)

    def in_silver(self, silver: Silver) -> dict[str, Any]:
        """What a silver table has made of the record."""
        batch = self._judged_by(silver)
        found = (
            self._accepted(silver, batch)
            or self._late(silver)
            or self._aside(silver)
            or self._rest(silver, batch)
        )
        told = commit_document(found.pop("commit", None) or batch)
        if silver.each is not None:
            found["elements"] = self._elements(silver)
        return {"table": silver.table, **found, **told}

    def _elements(self, silver: Silver) -> list[dict[str, Any]]:
        """The rows of the record's elements, by position; a record that was set aside whole has none."""
        found = []
        for table, place in ((silver.table, "silver"), (silver.late_table, "late")):
            source, condition = self.tables.source(table), self.place.condition("_kafka_")
            sql = f"SELECT _element AS element, '{place}' AS place FROM {source} WHERE {condition}"
            found += self.tables.rows(sql) if source is not None else []
        if (source := self.tables.source(silver.quarantine)) is not None:
            place = "CASE verdict WHEN 'drop' THEN 'dropped' ELSE 'quarantine' END AS place"
            condition = self.place.condition()
            found += self.tables.rows(f"SELECT element, {place}, reasons FROM {source} WHERE {condition}")
        return sorted(found, key=lambda row: -1 if row["element"] is None else row["element"])

    def _judged_by(self, silver: Silver) -> TableCommit | None:
        """The micro-batch of silver that has read the record."""
        read_by = self.read_by
        if read_by is None:
            return None
        for one in self.tables.log(silver.table).steps("accepted"):
            position = delta_position(one)
            if position is not None and (
                position.version > read_by.version
                or (position.version == read_by.version and position.index >= 0)
            ):
                return one
        return None

    def _accepted(self, silver: Silver, batch: TableCommit | None) -> dict[str, Any] | None:
        source = self.tables.source(silver.table)
        if source is None:
            return None
        condition = self.place.condition("_kafka_")
        rows = self.tables.rows(f"SELECT {self.tables.files()} AS file FROM {source} WHERE {condition}")
        if not rows:
            return None
        writer = self._writer(silver.table, rows[0]["file"])
        if writer is None or (writer.commit.is_change and writer.by not in _MOVED_BY):
            writer = batch  # the file was rewritten for the sake of other rows
        how = ""
        if writer is not None:
            how = _MOVED_BY.get(writer.by, "late, and merged" if writer.step == "late" else "")
        file = _file_name(rows[0]["file"])
        return {"place": "silver", "rows": len(rows), "how": how, "file": file, "commit": writer}

    def _writer(self, table: str, file: str | None) -> TableCommit | None:
        """The commit that has added a data file; None for a compaction, which moves rows as they are."""
        if file is None:
            return None
        name = _file_name(file)
        for one in self.tables.log(table).commits:
            if any(_file_name(each.path) == name for each in one.commit.added):
                return one
        return None

    def _late(self, silver: Silver) -> dict[str, Any] | None:
        source = self.tables.source(silver.late_table)
        condition = self.place.condition("_kafka_")
        rows = self.tables.rows(f"SELECT _watermark FROM {source} WHERE {condition}") if source else []
        return {"place": "late", "watermark": _iso(rows[0]["_watermark"])} if rows else None

    def _aside(self, silver: Silver) -> dict[str, Any] | None:
        source = self.tables.source(silver.quarantine)
        if source is None:
            return None
        rows = self.tables.rows(f"SELECT verdict, reasons FROM {source} WHERE {self.place.condition()}")
        if not rows:
            return None
        place = "dropped" if rows[0]["verdict"] == "drop" else "quarantine"
        return {"place": place, "reasons": list(rows[0]["reasons"])}

    def _rest(self, silver: Silver, batch: TableCommit | None) -> dict[str, Any]:
        """A record that is in bronze alone: tombstone, another table's, a duplicate, or not read yet."""
        if self.row is None:
            return {"place": self._absent()}
        if batch is None:
            return {"place": "not processed yet"}
        if self.row["is_tombstone"] and silver.tombstones == "count":
            return {"place": "tombstone"}
        if silver.each is not None:
            return {
                "place": "no row",
                "why": f"its elements of {silver.each} are duplicates or other tables', or it has none: "
                "medallion audit counts them",
            }
        key = silver.key
        values = ValueColumns(silver)
        for name in key:
            if isinstance(silver.columns, Mapping):
                values.add(name, silver.columns[name])
            else:
                values.why_not[name] = "a function makes the columns"
        if silver.where is not None:
            values.add("where", silver.where)
        if values.why_not:
            what = "duplicate" if silver.where is None else "duplicate, or another table's record"
            return {"place": what, "witness": None, "why": "; ".join(dict.fromkeys(values.why_not.values()))}
        return self._duplicate(silver, values, key)

    def _duplicate(self, silver: Silver, values: ValueColumns, key: Sequence[str]) -> dict[str, Any]:
        listed = ", ".join(f"{text} AS {double_quoted(name)}" for name, text in values.texts.items())
        bronze, mine = self.tables.source(self.bronze), self.tables.source(silver.table)
        rows = f"""(SELECT topic, partition, "offset", kafka_timestamp AS "timestamp", value
          FROM {bronze} WHERE {self.place.condition()})"""
        (read,) = self.tables.rows(f"SELECT {listed} FROM ({values.source(rows)})")
        if read.get("where", True) is not True:
            return {"place": "another table's record"}
        connection = self.tables.database.connection
        same = " AND ".join(f"{double_quoted(name)} = ?" for name in key)
        witness = connection.execute(
            f"SELECT _kafka_topic, _kafka_partition, _kafka_offset FROM {mine} WHERE {same} LIMIT 1",
            [read[name] for name in key],
        ).fetchone()
        if witness is None:
            return {"place": "missing", "why": f"no row of {silver.table} has its key: see medallion audit"}
        kept = {"how": "the newest row of a key is kept"} if silver.keep == "newest" else {}
        return {"place": "duplicate", "witness": Place(*witness).document(), **kept}


def _file_name(path: str | None) -> str | None:
    return None if path is None else path.rsplit("/", 1)[-1]


def bronze_of(tables: Tables, place: Place) -> str:
    """The bronze table that has read a topic.

    Raises:
        UsageError: None has.
    """
    topics: dict[str, str] = {}
    for one in tables.pipeline.bronze:
        for commit in reversed(tables.log(one.table).commits):
            if commit.batch_id is not None:
                topics |= {topic: one.table for topic, _ in kafka_positions(commit)}
                break
    if place.topic not in topics:
        known = ", ".join(sorted(topics)) or "none"
        raise UsageError(f"no bronze table has read the topic {place.topic}; those that were read: {known}")
    return topics[place.topic]
