"""The way of one record, from Kafka's offset to the silver tables, from tables and logs, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from common.config.paths import ERASED
from common.declare import Silver
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.errors import UsageError
from common.sql.quoting import double_quoted, standard_text
from orchestration.records.audit.accepted_gaps import read_gaps
from orchestration.records.audit.table_log import TableCommit, delta_position, kafka_positions
from orchestration.records.proof.value_columns import ValueColumns
from orchestration.records.trace.row_history import RowChange, row_changes
from orchestration.records.trace.tables import Place, Tables, commit_document, iso


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

    @cached_property
    def _read_to(self) -> Mapping[tuple[str, int], int]:
        """By topic and partition, the next offset that bronze reads."""
        return _read_to(self.tables, self.bronze)

    def document(self) -> dict[str, Any]:
        """The record in bronze, or where it is if bronze does not have it."""
        row = self.row
        where = "held" if row is not None else self._absent()
        return {
            "table": self.bronze,
            "place": where,
            "kafka_timestamp": iso(row["kafka_timestamp"]) if row else None,
            "ingested_at": iso(row["ingested_at"]) if row else None,
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
        if self.read_by is not None:
            return "not there, although bronze has read past it"
        return self._unread()

    def _unread(self) -> str:
        place = self.place
        known = {number for topic, number in self._read_to if topic == place.topic}
        if place.partition not in known:
            read = ", ".join(map(str, sorted(known))) or "none"
            return f"unknown: bronze has read no such partition; of this topic it has read: {read}"
        end = self._read_to[place.topic, place.partition]
        read = f"this partition up to offset {end - 1:,}" if end else "no record of this partition"
        return f"not read yet, or not in Kafka: bronze has read {read}"

    def silvers(self) -> Iterator[Silver]:
        """The silver tables that read the record's bronze table."""
        return (one for one in self.tables.pipeline.silver if self.bronze in one.sources)

    def in_silver(self, silver: Silver) -> tuple[dict[str, Any], RowChange | None, list[RowChange]]:
        """What a silver table has made of the record.

        Returns:
            The verdict; the commit by which the rows that are there came, None where there are none or the
            log no longer says; the other commits that changed the record's rows, oldest first.
        """
        batch = self._judged_by(silver)
        file, rows = self._held(silver)
        changes, came = self._changes(silver, is_there=rows > 0), None
        if rows:
            came = next((one for one in reversed(changes) if one.change == "inserted"), None)
            how = "" if came is None else came.how
            how = f"put into silver {how}" if how.startswith("by ") else how
            found: dict[str, Any] = {"place": "silver", "rows": rows, "how": how, "file": file}
        else:
            found = self._late(silver) or self._aside(silver) or self._rest(silver, batch)
        if silver.each is not None:
            found["elements"] = self._elements(silver)
        told = commit_document(batch if came is None else came.commit)
        others = [one for one in changes if one is not came]
        return {"table": silver.table, **found, **told}, came, others

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
            position = delta_position(one, silver.sources.index(self.bronze))
            if position is not None and (
                position.version > read_by.version
                or (position.version == read_by.version and position.index >= 0)
            ):
                return one
        return None

    def _held(self, silver: Silver) -> tuple[str | None, int]:
        """The data file of the record's rows in silver, and their number."""
        source = self.tables.source(silver.table)
        if source is None:
            return None, 0
        condition = self.place.condition("_kafka_")
        rows = self.tables.rows(f"SELECT {self.tables.files()} AS file FROM {source} WHERE {condition}")
        return (_file_name(rows[0]["file"]) if rows else None), len(rows)

    def _changes(self, silver: Silver, *, is_there: bool) -> list[RowChange]:
        if self.tables.source(silver.table) is None:
            return []
        version = None if self.read_by is None else self.read_by.version
        return row_changes(self.tables, silver.table, self.place, version, is_there=is_there)

    def _late(self, silver: Silver) -> dict[str, Any] | None:
        source = self.tables.source(silver.late_table)
        condition = self.place.condition("_kafka_")
        rows = self.tables.rows(f"SELECT _watermark FROM {source} WHERE {condition}") if source else []
        return {"place": "late", "watermark": iso(rows[0]["_watermark"])} if rows else None

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
        key = silver.event_key
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
        topics |= {topic: one.table for topic, _ in _read_to(tables, one.table)}
    if place.topic not in topics:
        known = ", ".join(sorted(topics)) or "none"
        raise UsageError(f"no bronze table has read the topic {place.topic}; those that were read: {known}")
    return topics[place.topic]


def _read_to(tables: Tables, bronze: str) -> Mapping[tuple[str, int], int]:
    """By topic and partition, the next offset that a bronze table reads.

    The newest commit of each query says it: files that are appended to a topic's table have their own.
    """
    own = (one for one in tables.log(bronze).commits if one.batch_id is not None)
    newest = {str(one.metadata.get("query")): one for one in own}
    return {place: end for one in newest.values() for place, end in kafka_positions(one).items()}
