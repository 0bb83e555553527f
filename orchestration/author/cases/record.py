"""Makes a case of records that bronze or a quarantine table has; what is expected is today's result."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline
from common.delta.log import latest_version
from common.errors import TableMissingError, UsageError
from orchestration.access.query.duckdb_views import Database
from orchestration.author.cases.read.case import Case, Place, Record
from orchestration.author.cases.read.cells import cell_text
from orchestration.author.cases.read.load import YAML_SUFFIXES
from orchestration.author.cases.read.text_table import format_table
from orchestration.author.cases.run_case import TableRows, run_tables
from orchestration.author.cases.session import CaseSession, open_cases
from orchestration.author.cases.tables import query_of, topic_of, unknown_table
from orchestration.records.quarantine.contents import rows as quarantined
from orchestration.records.quarantine.contents import select_silver_tables

_PLACE = re.compile(r"(?P<topic>.+)/(?P<partition>\d+)/(?P<first>\d+)(?:-(?P<last>\d+))?")

_CASES = re.compile(r"^cases:", re.MULTILINE)
"""The heading of the cases; a file may have a pipeline or shared values and no case yet."""

_MOST_RECORDS = 1_000
"""Most records of a case: it is to be read by people."""

_OF_QUARANTINE = ("offset", "reasons", "field")
_TEXT = re.compile(r"[^\x00-\x1f\x7f-\xa0\ud800-\udfff\u2028-\u202e]*")
"""Texts that YAML takes in single quotes, in one line."""


@dataclass(frozen=True, slots=True)
class Source:
    """The records of a case that is recorded."""

    name: str  # the name of the case
    records: tuple[Record, ...]  # the records, by offset


def record_case(  # noqa: PLR0913
    pipeline: Pipeline,
    plain: Pipeline,
    settings: Settings,
    source: str,
    *,
    where: str | None,
    tables: Sequence[str],
    file: Path,
) -> str:
    """Write a case of records at the end of a YAML file; what it expects is the result of a run now.

    Args:
        pipeline: The pipeline in the environment of the settings.
        plain: The pipeline outside of environments.
        settings: The settings, which say where its tables are.
        source: ``TOPIC/PARTITION/OFFSET``, ``TOPIC/PARTITION/FIRST-LAST``, or a silver table or its
            quarantine table, whose newest record is taken.
        where: Condition over the quarantine table; only its rows are taken.
        tables: Tables whose rows are expected besides those of silver.
        file: The file; created where it does not exist.

    Returns:
        The text of the case.

    Raises:
        TableMissingError: The table of the records does not exist.
        UsageError: There is no such record, a table is not declared, or the file is not a YAML file of cases.
    """
    if not file.name.endswith(YAML_SUFFIXES):
        raise UsageError(f"{file}: a case is recorded into a file *{YAML_SUFFIXES[0]}.")
    for name in tables:
        if query_of(pipeline, name) is None:
            raise UsageError(f"--table {name}: {unknown_table(pipeline, name)}.")
    layout = Layout.of(pipeline, settings)
    found = _of_offsets(pipeline, layout, source) or _of_quarantine(pipeline, layout, source, where)
    # Cases run outside of environments, on topics without a prefix.
    prefix = settings.topic_prefix
    records = [replace(each, topic=(each.topic or "").removeprefix(prefix)) for each in found.records]
    with open_cases(settings) as session:
        return write_case(session, plain, settings, found.name, records, tables, file)


def write_case(  # noqa: PLR0913, PLR0917
    session: CaseSession,
    pipeline: Pipeline,
    settings: Settings,
    name: str,
    records: Sequence[Record],
    tables: Sequence[str],
    file: Path,
) -> str:
    """Run records, and write them with the result as a case at the end of a file; returns the case's text.

    Args:
        records: The records, which become one micro-batch.
        tables: Tables whose rows are expected besides those of silver.

    Raises:
        MedallionError: A query failed.
    """
    case = Case(name, Place(file, 1), (tuple(records),), {})
    expected = [*_silver_tables(pipeline, case.batches[0]), *tables]
    with session.room() as (spark, folder):
        rows = run_tables(spark, case, expected, pipeline, settings, folder)
    text = "\n".join(_lines(case, rows)) + "\n"
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    gap = "" if not before.strip() else "\n" if before.endswith("\n") else "\n\n"
    with file.open("a", encoding="utf-8") as written:
        written.write(gap + ("" if _CASES.search(before) else "cases:\n") + text)
    return text


def _of_offsets(pipeline: Pipeline, layout: Layout, source: str) -> Source | None:
    """The records of a range of offsets; None for a source that is no such range."""
    found = _PLACE.fullmatch(source)
    if found is None:
        return None
    first = int(found["first"])
    last = int(found["last"] or first)
    if not first <= last < first + _MOST_RECORDS:
        raise UsageError(f"--record {source}: a case has at least one record and at most {_MOST_RECORDS:,}.")
    reads = topic_of(Record(None, topic=found["topic"]), pipeline)
    if reads is None:
        raise UsageError(f"--record {source}: no bronze table reads topic {found['topic']!r}.")
    path = layout.table_path(reads[0].table)
    version = latest_version(path)
    if version is None:
        raise TableMissingError(reads[0].table, path)
    database = Database()
    rows = database.connection.execute(
        'SELECT topic, "partition", "offset", kafka_timestamp, key, value, headers '  # noqa: S608  # our own path, quoted
        f'FROM {database.source(path, version)} WHERE topic = ? AND "partition" = ? '
        'AND "offset" BETWEEN ? AND ? ORDER BY "offset"',
        [reads[1], int(found["partition"]), first, last],
    ).fetchall()
    if not rows:
        raise UsageError(f"--record {source}: {reads[0].table} has no such record.")
    return Source(source, tuple(_record(*row) for row in rows))


def _of_quarantine(pipeline: Pipeline, layout: Layout, source: str, where: str | None) -> Source:
    """The newest record of a quarantine table that has its payload."""
    try:
        (silver,) = select_silver_tables(pipeline, source)
    except UsageError as error:
        raise UsageError(
            f"--record {source}: write TOPIC/PARTITION/OFFSET, TOPIC/PARTITION/FIRST-LAST, or a quarantine "
            f"table. {error}"
        ) from None
    kept = "verdict <> 'drop'" + (f" AND ({where})" if where else "")
    for row in quarantined(Database(), layout, silver, where=kept, limit=1):
        place = row.place
        name = f"{place} is quarantined: {', '.join(row.reasons)}"
        if silver.each is not None:  # an element's bytes are not a record
            whole = _of_offsets(pipeline, layout, str(place))
            return Source(name, () if whole is None else whole.records)
        record = Record(
            row.value, row.key, row.headers, place.topic, place.partition, place.offset, _utc(row.timestamp)
        )
        return Source(name, (record,))
    raise UsageError(f"--record {source}: {silver.quarantine} has no such row with its payload.")


def _record(  # noqa: PLR0913, PLR0917  # the columns of bronze
    topic: str,
    partition: int,
    offset: int,
    timestamp: datetime,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Mapping[str, Any]] | None,
) -> Record:
    pairs = tuple((each["key"], each["value"]) for each in headers or ())
    return Record(value, key, pairs, topic, partition, offset, _utc(timestamp))


def _utc(timestamp: datetime) -> datetime:
    return timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def _silver_tables(pipeline: Pipeline, records: Sequence[Record]) -> Iterator[str]:
    """The silver tables that read the records, with their side tables."""
    read = {found[0].table for record in records if (found := topic_of(record, pipeline)) is not None}
    for silver in pipeline.silver:
        if not read.isdisjoint(silver.sources):
            yield from (silver.table, silver.quarantine, silver.late_table)


def _lines(case: Case, tables: Mapping[str, TableRows]) -> Iterator[str]:
    """The case in YAML."""
    yield f"- name: {_quoted(case.name)}"
    yield "  messages:"
    for record in case.records:
        for number, (name, text) in enumerate(_parts(record)):
            yield f"  {'-' if number == 0 else ' '} {name}: {text}"
    yield "  expect:"
    for name, found in tables.items():
        text = _table(name, found)
        if "\n" not in text:
            yield f"    {name}: {text}"
            continue
        yield f"    {name}: |"
        yield from (f"      {line}" for line in text.splitlines())


def _parts(record: Record) -> Iterator[tuple[str, str]]:
    yield "topic", _quoted(record.topic or "")
    yield "partition", str(record.partition)
    yield "offset", str(record.offset)
    yield "timestamp", record.timestamp.isoformat().replace("+00:00", "Z")
    if record.key is not None:
        yield _bytes("key", record.key)
    if record.headers:
        texts = [f"{{{_quoted(name)}: {_header(value)}}}" for name, value in record.headers]
        yield "headers", f"[{', '.join(texts)}]"
    yield ("value", "null") if record.value is None else _bytes("value", record.value)


def _header(value: bytes | None) -> str:
    return "null" if value is None else _quoted(value.decode("utf-8", "replace"))


def _bytes(name: str, data: bytes) -> tuple[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _TEXT.fullmatch(text):
        return name, _quoted(text)
    return f"{name}_base64", base64.b64encode(data).decode()


def _quoted(text: str) -> str:
    if _TEXT.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)


def _table(name: str, found: TableRows) -> str:
    """The rows of a table as text: the declared columns, of a quarantine table what tells why."""
    own = [field for field in found.fields if not field.name.startswith("_")]
    if name.endswith("__quarantine"):
        own = [field for field in found.fields if field.name in _OF_QUARANTINE]
    rows = [[cell_text(row.get(field.name), field) for field in own] for row in found.rows]
    return format_table([field.name for field in own], sorted(rows))
