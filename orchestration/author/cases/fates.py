"""What a pipeline's silver tables make of records that no table has read yet: each record's row, or why none.

The records run as a case: over empty tables, so a record is a duplicate only of another one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.config.settings import Settings
from common.declare import Pipeline, Silver
from common.errors import UsageError, nearest
from orchestration.author.cases.read.case import Case, Place, Record
from orchestration.author.cases.run_case import TableRows, run_tables
from orchestration.author.cases.session import CaseSession
from orchestration.author.cases.tables import topic_of, with_json_values

Coordinates = tuple[str, int, int]
"""Topic, partition and offset of a record."""

Fate = Mapping[str, Any]
"""What a table makes of a record: ``table`` and ``verdict``, with ``row``, ``reasons`` or ``field``."""


def fates(
    session: CaseSession, pipeline: Pipeline, settings: Settings, records: Sequence[Record]
) -> dict[Coordinates, list[Fate]]:
    """What each silver table that reads these records makes of them, by the record's coordinates.

    Args:
        pipeline: The pipeline, outside of environments.
        records: Records of one topic, each with its coordinates.

    Raises:
        MedallionError: A query failed, such as by a rule that stops it.
        UsageError: No silver table reads the topic.
    """
    pipeline = with_json_values(pipeline)
    tables = _readers(pipeline, records)
    case = Case("topic tail", Place(Path("tail"), 1), (tuple(records),), {})
    names = [name for silver in tables for name in (silver.table, *silver.side_tables)]
    with session.room() as (spark, folder):
        found = run_tables(spark, case, names, pipeline, settings, folder)
    told: dict[Coordinates, list[Fate]] = {}
    for record in records:
        place = (str(record.topic), record.partition, int(record.offset or 0))
        told[place] = [_fate(silver, place, record, found) for silver in tables]
    return told


def _readers(pipeline: Pipeline, records: Sequence[Record]) -> list[Silver]:
    read = {found[0].table for record in records if (found := topic_of(record, pipeline)) is not None}
    tables = [silver for silver in pipeline.silver if not read.isdisjoint(silver.sources)]
    if not tables:
        known = [name for bronze in pipeline.topics for name in bronze.topic_names]
        name = records[0].topic if records else ""
        raise UsageError(
            f"--judged: no silver table reads topic {name}; {nearest(str(name), known)}. Leave --judged out "
            "to print the records as they were sent."
        )
    return tables


def _fate(silver: Silver, place: Coordinates, record: Record, found: Mapping[str, TableRows]) -> Fate:
    for row in _at(found[silver.quarantine], place, ""):
        verdict = "dropped" if row["verdict"] == "drop" else "quarantined"
        at = {} if row["field"] is None else {"field": row["field"]}
        return {"table": silver.table, "verdict": verdict, "reasons": list(row["reasons"]), **at}
    for row in _at(found[silver.table], place, "_kafka_"):
        own = {name: value for name, value in row.items() if not name.startswith("_")}
        return {"table": silver.table, "verdict": "accepted", "row": own}
    if record.value is None and silver.tombstones != "keep":
        return {"table": silver.table, "verdict": "tombstone"}
    other = "" if silver.where is None else ", or a record of another table"
    return {"table": silver.table, "verdict": f"duplicate of another record here{other}"}


def _at(table: TableRows, place: Coordinates, prefix: str) -> Iterator[Mapping[str, Any]]:
    names = [f"{prefix}{name}" for name in ("topic", "partition", "offset")]
    return (row for row in table.rows if tuple(row[name] for name in names) == place)
