"""Compares the fields of the newest records with the schema that silver reads them with; without Spark.

Under ``unknown_fields="ignore"`` a field that no schema names is skipped, and an optional field that records
lack is null. So a field that was renamed upstream becomes null, and no row is rejected. A sample of bronze's
newest records shows both halves of the rename. It is read beside the queries, never in a micro-batch.
A row of Debezium names every column of its table, so the newest one alone says which the table has lost.

Of a table with a condition ``where`` only its own records count. The condition is evaluated here if it only
compares fields with constants; a table with another condition is not sampled.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from common.config.paths import Layout
from common.declare import Debezium, Json, Pipeline, Silver
from common.declare.declared import folder_of
from common.delta.log import LogReader
from common.errors import MedallionError
from common.machine.storage_folder import StorageFolder
from common.schema.value_fields import Field, fields, paths_in
from orchestration.access.declaration.own_record import OwnRecord, own_record

if TYPE_CHECKING:
    import pyarrow.parquet as pq

RECORDS = 100
"""Records in a sample."""

RECORDS_OF_MANY_TYPES = 1_000
"""Records of all types in the sample of a table with a condition."""

_FEWEST = 10
"""Fewer records prove nothing: an optional field may be missing by chance."""

_COMMITS = 20
_NAMED, _MOST, _LONGEST = 4, 100, 80

_FRAME_BYTES = 5
"""A zero byte and the id of a schema, before a document with a frame of a registry."""


@dataclass(frozen=True, slots=True)
class FieldUse:
    """The fields of a sample of records.

    Attributes:
        records: Number of records.
        unknown: Paths of fields that are not in the schema, with the number of records that have them; most
            records first, and at most a hundred.
        absent: Paths of fields of the schema that no record has; of a database's rows, that the newest lacks.
        is_of_rows: Whether the records are a database's rows, which have each column of their table.
    """

    records: int
    unknown: tuple[tuple[str, int], ...]
    absent: tuple[str, ...]
    is_of_rows: bool = False

    @property
    def is_rename(self) -> bool:
        """Whether a field of the schema was probably renamed: all records lack it, and they have another.

        A column that a database's newest row lacks was renamed or dropped.
        """
        if self.is_of_rows:
            return bool(self.absent)
        return self.records >= _FEWEST and bool(self.unknown) and bool(self.absent)

    def text(self) -> str:
        """Both halves of a rename, as one sentence."""
        if self.is_of_rows:
            return self._text_of_rows()
        present = _listed([f"`{name}` is in {count} of {self.records}" for name, count in self.unknown])
        absent = _listed([f"`{name}`" for name in self.absent])
        verb = "is" if len(self.absent) == 1 else "are"
        return f"{present} records and in no schema; {absent} {verb} in none"

    def _text_of_rows(self) -> str:
        found = f"the newest row has no {_listed([f'`{name}`' for name in self.absent])}: renamed or dropped"
        new = _listed([f"`{name}`" for name, _ in self.unknown])
        return f"{found}; in no schema: {new}" if new else found


class FieldSampler:
    """Samples the records of each silver table repeatedly; reads only a bronze table that has new commits."""

    def __init__(self, pipeline: Pipeline, layout: Layout) -> None:
        self._layout = layout
        self._tables = {one.table: one for one in pipeline.silver if _is_sampled(one)}
        self._known: dict[str, tuple[int, FieldUse | None]] = {}

    def use(self, table: str) -> FieldUse | None:
        """The fields of the newest records that a silver table reads; None if they are not compared.

        None also where bronze has no record yet, or cannot be read.
        """
        silver = self._tables.get(table)
        if silver is None:
            return None
        import pyarrow as pa  # its import takes a third of a second

        # Another reader each time: a reader keeps all commits that it has read.
        log = LogReader(self._layout.table_path(silver.source))
        try:
            version = log.latest_version()
            if version is None:
                return None
            known = self._known.get(table)
            if known is None or known[0] != version:
                known = self._known[table] = (version, _sampled(silver, log, version))
        except (MedallionError, OSError, ValueError, pa.ArrowException):
            return None  # the query itself reports what is wrong with the table or the schema
        return known[1]


def compare(objects: Iterable[dict[str, Any]], known: Sequence[Field]) -> FieldUse:
    """The fields of some JSON objects, compared with a schema.

    Args:
        objects: The objects, one per record.
        known: The fields of the schema.
    """
    unknown, seen = Counter[str](), set[tuple[str, bool]]()
    records = 0
    for each in objects:
        records += 1
        found = set(paths_in(each, known))
        seen |= found
        unknown.update(path for path, is_known in found if not is_known)
    absent = tuple(path for path in _declared(known, "", seen) if (path, True) not in seen)
    ordered = sorted(unknown.items(), key=lambda one: (-one[1], one[0]))
    shown = tuple((_printable(path), count) for path, count in ordered[:_MOST])
    return FieldUse(records, shown, absent)


def _is_sampled(silver: Silver) -> bool:
    is_json = isinstance(silver.value, (Json, Debezium))
    is_sampled = silver.unknown_fields == "ignore" and len(silver.sources) == 1
    return is_sampled and is_json and own_record(silver.where) is not None


def _sampled(silver: Silver, log: LogReader, version: int) -> FieldUse | None:
    is_own = own_record(silver.where)
    if not isinstance(silver.value, (Json, Debezium)) or is_own is None:
        return None
    known: Sequence[Field] = fields(silver.value, folder_of(silver.value))
    is_debezium = isinstance(silver.value, Debezium)
    if is_debezium:
        known = next(field.nested for field in known if field.name == "after")
    count = RECORDS if silver.where is None else RECORDS_OF_MANY_TYPES
    values = _newest_values(log, version, count)
    if silver.value.framing == "registry":
        values = (value[_FRAME_BYTES:] for value in values)
    objects = list(_objects(values, is_own, is_debezium=is_debezium))
    found = compare((each for _, each in objects), known)
    if rows := [each for each in objects if each[0] is not None]:
        newest = max(rows, key=lambda each: each[0] or 0)[1]
        found = replace(found, absent=compare([newest], known).absent, is_of_rows=True)
    return found if found.records else None


def _newest_values(log: LogReader, version: int, count: int) -> Iterator[bytes]:
    """Values of the newest records of bronze, from its newest files; fewer if those have fewer."""
    import pyarrow.parquet as pq

    folder, left = StorageFolder(log.path), count
    for number in range(version, max(-1, version - _COMMITS), -1):
        commit = log.commit(number)
        for file in reversed(commit.added if commit is not None and not commit.is_change else ()):
            with folder.open(file.path) as opened:
                values = _first_values(pq.ParquetFile(opened), left)
            left -= len(values)
            yield from (value for value in values if value is not None)
            if left <= 0:
                return


def _first_values(file: pq.ParquetFile, count: int) -> list[bytes | None]:
    """The first values of a file's last row group: a large file is not read whole."""
    if not file.num_row_groups or "value" not in file.schema_arrow.names:
        return []
    last = [file.num_row_groups - 1]
    batch = next(file.iter_batches(batch_size=count, row_groups=last, columns=["value"]), None)
    return [] if batch is None else list(batch.column(0).to_pylist())


def _objects(
    values: Iterable[bytes], is_own: OwnRecord, *, is_debezium: bool
) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The table's own JSON objects among the values: messages, or rows of Debezium's envelope.

    Each with the time of the envelope whose ``after`` it is, as far as that is known.
    """
    for value in values:
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):  # silver rejects the record, with the reason
            continue
        envelope = parsed.get("payload", parsed) if is_debezium and isinstance(parsed, dict) else parsed
        if not isinstance(envelope, dict) or not is_own(envelope):
            continue
        found = (envelope.get("after") or envelope.get("before")) if is_debezium else envelope
        if isinstance(found, dict):
            at = envelope.get("ts_ms") if is_debezium and envelope.get("after") else None
            yield at if type(at) is int else None, found


def _declared(known: Sequence[Field], place: str, seen: set[tuple[str, bool]]) -> Iterator[str]:
    """Paths of the schema; those inside of a struct only if a record has that struct with a field."""
    for field in known:
        path = f"{place}.{field.name}" if place else field.name
        yield path
        inner, kind = path, field
        while kind.kind == "array":
            inner, kind = f"{inner}[]", kind.nested[0]
        if kind.kind == "struct" and any(each.startswith(f"{inner}.") for each, _ in seen):
            yield from _declared(kind.nested, inner, seen)


def _printable(path: str) -> str:
    """A path from a record, safe to print: without control characters, and not longer than a line."""
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in path[:_LONGEST])
    return text if len(path) <= _LONGEST else f"{text}…"


def _listed(parts: Sequence[str]) -> str:
    more = f", and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return ", ".join(parts[:_NAMED]) + more
