"""Compares the fields of the newest records with the schema that silver reads them with; without Spark.

Under ``unknown_fields="ignore"`` a field that no schema names is skipped, and an optional field that records
lack is null. So a field that was renamed upstream becomes null, and no row is rejected. Samples of bronze's
newest and of earlier records show both halves of the rename: a field that earlier records had, too often for
its absence to be chance, and one that they did not have. An optional field that is rare, and a field that
never was in the schema, are no rename. Samples are read beside the queries, never in a micro-batch.
A row of Debezium names every column of its table, so the newest one alone says which the table has lost.

Of a table with a condition ``where`` only its own records count. The condition is evaluated here if it only
compares fields with constants; a table with another condition is not sampled.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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

_CHANCE = 0.001
"""So improbable it has to be that the newest records lack a field by chance, for it to be called lost."""

_EARLIER = 8
"""Earlier samples, spread evenly over the versions of bronze that are left."""

_COMMITS = 20
_NAMED, _MOST, _LONGEST = 4, 100, 80

_ROWS_OF_FILE = 10_000
"""Rows at the end of a file among which the newest of each partition are looked for."""

_FRAME_BYTES = 5
"""A zero byte and the id of a schema, before a document with a frame of a registry."""


@dataclass(frozen=True, slots=True)
class FieldUse:
    """The fields of a sample of records."""

    records: int  # number of records
    # Paths of fields that are not in the schema, with the number of records that have them; most records
    # first, and at most a hundred.
    unknown: tuple[tuple[str, int], ...]
    # Paths of fields of the schema that no record has; of a database's rows, that the newest lacks.
    absent: tuple[str, ...]
    # Whether the records are a database's rows, which have each column of their table.
    is_of_rows: bool = False
    # Paths of ``absent`` that earlier records had, while they lacked one of ``new``.
    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()  # paths of ``unknown`` that those earlier records lacked

    @property
    def is_rename(self) -> bool:
        """Whether a field of the schema was probably renamed: earlier records had it, and lacked another.

        A column that a database's newest row lacks was renamed or dropped.
        """
        return bool(self.absent) if self.is_of_rows else bool(self.lost)

    @property
    def is_suspect(self) -> bool:
        """Whether a rename is possible, so that earlier records are worth a look."""
        return not self.is_of_rows and self.records >= _FEWEST and bool(self.unknown) and bool(self.absent)

    def text(self) -> str:
        """Both halves of a rename, as one sentence."""
        if self.is_of_rows:
            return self._text_of_rows()
        counts = dict(self.unknown)
        new = _listed([f"`{name}` in {counts[name]}" for name in self.new])
        lost = _listed([f"`{name}`" for name in self.lost])
        return f"earlier records had {lost}; of the last {self.records} none has, but {new}, in no schema"

    def seen(self) -> str:
        """What the sample has that no schema names, and what it lacks; empty if the two agree."""
        shown = _listed([f"{name} {count}" for name, count in self.unknown])
        unknown = f"fields in no schema: {shown} (of {self.records} records)" if shown else ""
        lacks = _listed(list(self.absent)) if self.records >= _FEWEST else ""
        return "; ".join(filter(None, (unknown, lacks and f"not seen in the last {self.records}: {lacks}")))

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
        self._earlier: dict[str, tuple[int, tuple[_Sample, ...]]] = {}

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
                found = _sampled(silver, log, version)
                if found is not None and found.is_suspect:
                    found = _judged(found, self._earlier_samples(silver, log, version))
                known = self._known[table] = (version, found)
        except (MedallionError, OSError, ValueError, pa.ArrowException):
            return None  # the query itself reports what is wrong with the table or the schema
        return known[1]

    def _earlier_samples(self, silver: Silver, log: LogReader, version: int) -> tuple[_Sample, ...]:
        """Samples of earlier records; taken again only when the table has many more versions."""
        at, found = self._earlier.get(silver.table, (-1, ()))
        if at < 0 or version - at >= max(_COMMITS, at // 4):
            found = tuple(_earlier(silver, log, version))
            self._earlier[silver.table] = (version, found)
        return found


@dataclass(frozen=True, slots=True)
class _Sample:
    """How many of some records have each field; by path, and whether the schema names it."""

    records: int
    having: Mapping[tuple[str, bool], int]


def _counted(objects: Iterable[dict[str, Any]], known: Sequence[Field]) -> _Sample:
    having, records = Counter[tuple[str, bool]](), 0
    for each in objects:
        records += 1
        having.update(set(paths_in(each, known)))
    return _Sample(records, having)


def compare(objects: Iterable[dict[str, Any]], known: Sequence[Field]) -> FieldUse:
    """The fields of some JSON objects, compared with a schema."""
    sample = _counted(objects, known)
    absent = tuple(path for path in _declared(known, "", sample.having) if (path, True) not in sample.having)
    unknown = ((path, count) for (path, is_known), count in sample.having.items() if not is_known)
    ordered = sorted(unknown, key=lambda one: (-one[1], one[0]))
    shown = tuple((_printable(path), count) for path, count in ordered[:_MOST])
    return FieldUse(sample.records, shown, absent)


def _judged(use: FieldUse, earlier: Iterable[_Sample]) -> FieldUse:
    """The use with what earlier records had that the newest lack, and what came in its place.

    A field is lost if the newest records lack it by less than a chance of ``_CHANCE``, were it as frequent as
    in an earlier sample. What came in its place is about as frequent, and is in no record of that sample.
    """
    lost, new = dict[str, None](), dict[str, None]()
    for sample in earlier:
        if sample.records < _FEWEST:
            continue
        before = {_printable(path) for path, is_known in sample.having if not is_known}
        for path in use.absent:
            share = sample.having.get((path, True), 0) / sample.records
            came = [
                name for name, count in use.unknown if name not in before and count / use.records >= share / 2
            ]
            if came and (1 - share) ** use.records < _CHANCE:
                lost[path] = None
                new |= dict.fromkeys(came)
    return replace(use, lost=tuple(lost), new=tuple(new))


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


def _earlier(silver: Silver, log: LogReader, version: int) -> Iterator[_Sample]:
    """Samples of the records of some versions before the newest, spread evenly over those that are left."""
    is_own = own_record(silver.where)
    if not isinstance(silver.value, Json) or is_own is None:
        return
    known, first = fields(silver.value, folder_of(silver.value)), log.oldest_version() or 0
    count = RECORDS if silver.where is None else RECORDS_OF_MANY_TYPES
    steps = range(_EARLIER)
    for number in sorted({first + (version - 1 - first) * step // max(1, _EARLIER - 1) for step in steps}):
        values = _newest_values(log, number, count, most_commits=3)
        if silver.value.framing == "registry":
            values = (value[_FRAME_BYTES:] for value in values)
        yield _counted((each for _, each in _objects(values, is_own, is_debezium=False)), known)


def _newest_values(log: LogReader, version: int, count: int, most_commits: int = _COMMITS) -> Iterator[bytes]:
    """Values of the newest records of bronze, from its newest files; fewer if those have fewer."""
    import pyarrow.parquet as pq

    folder, left = StorageFolder(log.path), count
    for number in range(version, max(-1, version - most_commits), -1):
        commit = log.commit(number)
        added = commit.added if commit is not None and not commit.is_change else ()
        for place, file in enumerate(reversed(added)):
            with folder.open(file.path) as opened:
                values = _last_values(pq.ParquetFile(opened), -(-left // (len(added) - place)))
            left -= len(values)
            yield from (value for value in values if value is not None)
            if left <= 0:
                return


def _last_values(file: pq.ParquetFile, count: int) -> list[bytes | None]:
    """The last values of each partition among the last rows of a file: a large file is not read whole."""
    found: dict[Any, list[bytes | None]] = {}
    columns = [name for name in ("partition", "value") if name in file.schema_arrow.names]
    if not file.num_row_groups or "value" not in columns:
        return []
    last = [file.num_row_groups - 1]
    for batch in deque(file.iter_batches(_ROWS_OF_FILE, row_groups=last, columns=columns), maxlen=2):
        for row in batch.to_pylist():
            found.setdefault(row.get("partition"), []).append(row["value"])
    share = -(-count // max(1, len(found)))
    return [value for values in found.values() for value in values[-share:]][:count]


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


def _declared(known: Sequence[Field], place: str, seen: Collection[tuple[str, bool]]) -> Iterator[str]:
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
    more = f", and {len(parts) - _NAMED} more fields" if len(parts) > _NAMED else ""
    return ", ".join(parts[:_NAMED]) + more
