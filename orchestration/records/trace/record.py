"""The way of one record, from Kafka's offset to the silver tables, from tables and logs, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from common.declare import Silver
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.errors import UsageError
from orchestration.access.query.record_place import Place
from orchestration.access.query.shown_values import iso, part
from orchestration.records.audit.accepted_gaps import lost_without_offsets, read_gaps
from orchestration.records.audit.table_log import TableCommit
from orchestration.records.proof.value_columns import READ_OTHERWISE
from orchestration.records.trace.lookups import Lookups, read_to
from orchestration.records.trace.row_history import RowChange, row_changes
from orchestration.records.trace.tables import Tables, commit_document


@dataclass
class Record:
    """What is known of one record."""

    tables: Tables
    place: Place  # the record
    bronze: str  # the bronze table of its topic
    looked: Lookups  # what the tables have of it, and of others that are traced with it

    @property
    def row(self) -> dict[str, Any] | None:
        """The record's row in bronze, without key, value and headers; None where bronze does not have it."""
        return self.looked.rows.get(self.place)

    @property
    def read_by(self) -> TableCommit | None:
        """The micro-batch of bronze that has read the record."""
        return self.looked.read_by(self.place)

    def document(self) -> dict[str, Any]:
        """The record in bronze, or where it is if bronze does not have it."""
        row = self.row
        where = self._held() if row is not None else self._absent()
        return {
            "table": self.bronze,
            "place": where,
            "kafka_timestamp": iso(row["kafka_timestamp"]) if row else None,
            "ingested_at": iso(row["ingested_at"]) if row else None,
            "file": _file_name(row["file"]) if row else None,
            **commit_document(self.read_by),
        }

    def _held(self) -> str:
        """That bronze has it, and what was lost right before it."""
        gaps = read_gaps(self.tables.layout, self.bronze)
        here = (one for one in gaps if (one.topic, one.first_offset) == (self.place.topic, self.place.offset))
        lost = next((text for one in here if (text := lost_without_offsets(one))), "")
        return f"held; {lost}" if lost else "held"

    def _absent(self) -> str:
        place = self.place
        if place in self.looked.erased:
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
        known = {number for topic, number in self.looked.read_to if topic == place.topic}
        if place.partition not in known:
            read = ", ".join(map(str, sorted(known))) or "none"
            return f"unknown: bronze has read no such partition; of this topic it has read: {read}"
        end = self.looked.read_to[place.topic, place.partition]
        read = f"this partition up to offset {end - 1:,}" if end else "no record of this partition"
        return f"not read yet, or not in Kafka: bronze has read {read}"

    def silvers(self) -> Iterator[Silver]:
        """The silver tables that read the record's bronze table."""
        return (one for one in self.tables.pipeline.silver if self.bronze in one.sources)

    def in_silver(
        self, silver: Silver, *, is_alone: bool = True
    ) -> tuple[dict[str, Any], RowChange | None, list[RowChange]]:
        """What a silver table has made of the record.

        Args:
            is_alone: Whether the commits that changed its rows, and its elements, are looked for.

        Returns:
            The verdict; the commit by which the rows that are there came, None where there are none or the
            log no longer says; the other commits that changed the record's rows, oldest first.
        """
        batch = self.looked.judged_by(silver, self.place)
        columns = f"{self.tables.file_of(silver.table)} AS file"
        held = self.looked.held(silver.table, columns, "_kafka_").get(self.place, [])
        file, rows = (_file_name(held[0]["file"]) if held else None), len(held)
        changes, came = self._changes(silver, is_there=rows > 0) if is_alone else [], None
        if rows:
            came = next((one for one in reversed(changes) if one.change == "inserted"), None)
            how = "" if came is None else came.how
            how = f"put into silver {how}" if how.startswith("by ") else how
            found: dict[str, Any] = {"place": "silver", "rows": rows, "how": how, "file": file}
        else:
            found = self._late(silver) or self._aside(silver) or self._rest(silver, batch)
        if silver.each is not None and is_alone:
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

    def _changes(self, silver: Silver, *, is_there: bool) -> list[RowChange]:
        if self.tables.source(silver.table) is None:
            return []
        version = None if self.read_by is None else self.read_by.version
        return row_changes(self.tables, silver.table, self.place, version, is_there=is_there)

    def _late(self, silver: Silver) -> dict[str, Any] | None:
        rows = self.looked.held(silver.late_table, "_watermark", "_kafka_").get(self.place)
        return {"place": "late", "watermark": iso(rows[0]["_watermark"])} if rows else None

    def _aside(self, silver: Silver) -> dict[str, Any] | None:
        rows = self.looked.held(silver.quarantine, "verdict, reasons").get(self.place)
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
        return self._of_key(silver)

    def _of_key(self, silver: Silver) -> dict[str, Any]:
        """What a record is whose place its key tells: a duplicate, another table's, or missing."""
        values = self.looked.values(silver)
        witness = None if values.why_not else self.looked.witness(silver, self.place)
        if witness is None or not witness.is_alike:
            what = "duplicate" if silver.where is None else "duplicate, or another table's record"
            why = "; ".join(dict.fromkeys(values.why_not.values())) or READ_OTHERWISE
            return {"place": what, "witness": None, "why": why}
        if not witness.is_own:
            return {"place": "another table's record"}
        if witness.place is None:
            return {"place": "missing", "why": f"no row of {silver.table} has its key: see medallion audit"}
        kept = {"how": "the newest row of a key is kept"} if silver.keep == "newest" else {}
        return {"place": "duplicate", "witness": part(witness.place), **kept}


def _file_name(path: str | None) -> str | None:
    return None if path is None else path.rsplit("/", 1)[-1]


def bronze_of(tables: Tables, topic: str) -> str:
    """The bronze table that has read a topic.

    Raises:
        UsageError: None has.
    """
    topics: dict[str, str] = {}
    for one in tables.pipeline.bronze:
        topics |= {read: one.table for read, _ in read_to(tables, one.table)}
    if topic not in topics:
        known = ", ".join(sorted(topics)) or "none"
        raise UsageError(f"no bronze table has read the topic {topic}; those that were read: {known}")
    return topics[topic]
