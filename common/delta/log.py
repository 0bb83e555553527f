"""Reads a Delta table's log without Spark; writes nothing.

Commits are read from their JSON files one by one, from the version that a reader asks for, so a table with a
hundred thousand commits costs no more than its new ones. A table's current rows and files come from delta-rs,
which reads the log's checkpoints. Row counts come from file statistics, as in ``common.delta.commit``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from common.delta.checkpoint import DeltaPosition
from common.delta.commit import Commit, DataFile, count_rows, from_epoch_ms, parse_commit
from common.errors import HistoryGoneError, TableError, first_line
from common.machine.object_store import storage_options
from common.machine.storage_folder import StorageFolder

_COMMIT = re.compile(r"^(\d{20})\.json$")
_DRAFT = re.compile(r"\..+\.(tmp|crc|part|cut_off|damaged)")
"""Names of a file before it gets its own, of Hadoop's checksum beside a file, of a commit that was torn."""
_FEW_COMMITS = 2_000
"""Up to this version a backlog from the start is summed commit by commit; beyond, the snapshot is faster."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a stream has not read yet; ``versions`` counts commits that have files to read."""

    versions: int = 0
    files: int = 0
    bytes: int = 0
    rows: int | None = 0

    def __add__(self, files: tuple[DataFile, ...]) -> Backlog:
        rows = count_rows(files)
        return Backlog(
            self.versions + bool(files),
            self.files + len(files),
            self.bytes + sum(file.bytes for file in files),
            None if rows is None or self.rows is None else self.rows + rows,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The current state of a table; ``timestamp`` is the time of its newest commit, UTC."""

    version: int
    table_id: str
    rows: int | None
    files: int
    bytes: int
    timestamp: datetime
    columns: tuple[str, ...]


class LogReader:
    """One table's log, by path or URI. Keeps the commits it has read; a second call reads only new ones.

    Args:
        bounds_of: A column whose bounds in each file are read from the statistics of commits; empty: none.

    Attributes:
        generation: Grows when the table was deleted and created again.
    """

    def __init__(self, path: str, bounds_of: str = "") -> None:
        self.path = path
        self._bounds_of = bounds_of
        self._log = StorageFolder(path) / "_delta_log"
        self._created_ms: int | None = None
        self.generation = 0
        self._latest: int | None = None
        self._commits: dict[int, Commit] = {}
        self._snapshot: Snapshot | None = None
        self._files_at: tuple[int, tuple[DataFile, ...]] | None = None
        self._is_files_at_used = False
        self._table: Any = None

    def latest_version(self) -> int | None:
        """The newest version; None when there is no table."""
        created_ms = self._log.modified_ms(commit_name(0))
        if created_ms != self._created_ms:  # the table was deleted and created again
            self._forget(created_ms)
        version = self._latest if self._latest is not None else self._checkpoint_version()
        if version is None or not self._log.has_file(commit_name(version)):
            version = max(self._listed_versions(), default=None)
        if version is not None:
            version = self._newest_from(version)
        self._latest = version
        return version

    def oldest_version(self) -> int | None:
        """The oldest version that the log still has; None when there is no table."""
        return min(self._listed_versions(), default=None)

    def commit(self, version: int) -> Commit | None:
        """The commit of a version; None where the log does not have it, or no longer."""
        if version not in self._commits:
            content = self._log.read(commit_name(version))
            if not content:
                return None
            self._commits[version] = self._parse(version, content)
        return self._commits[version]

    def forget_before(self, version: int, keep: Collection[range] = ()) -> None:
        """Release the commits below a version; a later request for one of them reads it again.

        Args:
            version: Commits from it on stay.
            keep: Versions below it that stay too.
        """
        if not self._is_files_at_used:
            self._files_at = None
        self._is_files_at_used = False
        for old in [known for known in self._commits if known < version]:
            if not any(old in kept for kept in keep):
                del self._commits[old]

    def require(self, version: int) -> None:
        """Refuse a log whose cleanup has deleted a commit, also one that was read before.

        Raises:
            HistoryGoneError: The commit is gone.
        """
        if not self._log.exists(commit_name(version)):
            self._refuse_gap(version)

    def commits(self, start: int = 0, end: int | None = None) -> Iterator[Commit]:
        """Commits in order, from ``start`` to ``end``, both included; without an end, to the newest.

        Raises:
            HistoryGoneError: The log's cleanup has deleted a commit of that range.
        """
        version = start
        while end is None or version <= end:
            commit = self.commit(version)
            if commit is None:
                self._refuse_gap(version)
                return
            yield commit
            version += 1

    def backlog(self, position: DeltaPosition | None) -> Backlog:
        """What a stream at a position has not read yet; None is the position before its first micro-batch.

        Commits without data do not count, nor do those that ``skipChangeCommits`` skips.

        Raises:
            HistoryGoneError: The log's cleanup has deleted commits that the stream has not read.
        """
        latest = self.latest_version()
        if latest is None:
            return Backlog()
        if position is None and (latest >= _FEW_COMMITS or self.commit(0) is None):
            now = self.snapshot()
            return Backlog(now.version + 1, now.files, now.bytes, now.rows) if now else Backlog()
        return self.backlog_between(position, None)

    def backlog_between(
        self, start: DeltaPosition | None, end: DeltaPosition | None, total: Backlog | None = None
    ) -> Backlog:
        """What a stream reads between two positions; no start is version 0, no end the newest commit.

        Args:
            total: What it is added to, such as that of another table.

        Raises:
            HistoryGoneError: The log's cleanup has deleted some of those commits.
        """
        total = total or Backlog()
        for files in self._files_by_commit(start, end):
            total += files
        return total

    def files_between(self, start: DeltaPosition | None, end: DeltaPosition | None) -> tuple[DataFile, ...]:
        """The files that a stream reads between two positions, in that order; as ``backlog_between``."""
        return tuple(file for files in self._files_by_commit(start, end) for file in files)

    def _files_by_commit(
        self, start: DeltaPosition | None, end: DeltaPosition | None
    ) -> Iterator[tuple[DataFile, ...]]:
        """The files that a stream reads between two positions, commit by commit."""
        first, skip = 0, 0
        if start is not None:
            first, skip = start.version, max(0, start.index + 1)
        snapshot = start if start is not None and start.in_snapshot else None
        if start is None and end is not None and end.in_snapshot:
            snapshot = end
        if snapshot is not None:
            stop = end.index + 1 if end is not None and end.in_snapshot else None
            yield self._snapshot_files(snapshot.version)[skip:stop]
            first, skip = snapshot.version + 1, 0
        last = None if end is None else end.version if end.index >= 0 else end.version - 1
        if last is not None and last < first:
            return
        for commit in self.commits(first, last):
            if not commit.is_change:
                stop = end.index + 1 if end is not None and commit.version == end.version else None
                yield commit.added[skip:stop]
            skip = 0

    def snapshot(self) -> Snapshot | None:
        """The current state of the table; None when there is no table."""
        latest = self.latest_version()
        if latest is None:
            return None
        if self._snapshot is None or self._snapshot.version != latest:
            self._snapshot = self._read_snapshot()
        return self._snapshot

    def file_sizes(self) -> list[int]:
        """Sizes of the live files, in bytes; empty where there is no table."""
        return [] if self.latest_version() is None else [f.bytes for f in _live_files(_open(self.path, None))]

    def live_files(self, version: int | None = None) -> tuple[DataFile, ...]:
        """The data files of a version, unset: of the current state; empty when there is no table.

        Raises:
            HistoryGoneError: The log cannot be read.
        """
        at = self.latest_version() if version is None else version
        return () if at is None else self._snapshot_files(at)

    def live_files_up_to(self, column: str, moment: datetime) -> tuple[DataFile, ...]:
        """Live files whose values of a timestamp column are all at most a moment; oldest first, then by path.

        A file without statistics of that column is left out.

        Raises:
            HistoryGoneError: The log cannot be read.
        """
        if self.latest_version() is None:
            return ()
        files = _open(self.path, None).get_add_actions(flatten=True)
        if f"max.{column}" not in files.schema.names:
            return ()
        columns = (f"max.{column}", "path", "size_bytes", "num_records")
        rows = zip(*(files.column(name).to_pylist() for name in columns), strict=True)
        old = sorted(row for row in rows if row[0] is not None and row[0] <= moment)
        return tuple(DataFile(int(size), count, unquote(path)) for _, path, size, count in old)

    def matching(self, condition: Any) -> tuple[int, int]:
        """Rows of the newest version that match a condition, and the bytes of the files that may hold them.

        Only the columns of the condition are read, of the files that statistics do not rule out.

        Args:
            condition: An expression of PyArrow.

        Raises:
            HistoryGoneError: The log cannot be read.
        """
        table = _open(self.path, None)
        rows = table.to_pyarrow_dataset()
        names = {unquote(one.path).rpartition("/")[2] for one in rows.get_fragments(filter=condition)}
        size = sum(one.bytes for one in _live_files(table) if one.path.rpartition("/")[2] in names)
        return int(rows.count_rows(filter=condition)), size

    def missing_versions(self) -> list[int]:
        """Versions between the oldest and the newest commit of the log whose commit is gone."""
        there = sorted(self._listed_versions())
        return sorted(set(range(there[0], there[-1])) - set(there)) if there else []

    def properties(self) -> dict[str, str]:
        """The table's properties; empty where there is no table."""
        latest = self.latest_version()
        if latest is None:
            return {}
        is_open = self._snapshot is not None and self._snapshot.version == latest
        table = self._table if is_open else _open(self.path, None)
        return dict(table.metadata().configuration)

    def column_types(self) -> dict[str, str]:
        """The columns of the newest version with their types as Spark's ``simpleString``; empty: no table.

        Raises:
            HistoryGoneError: The log cannot be read.
        """
        latest = self.latest_version()
        if latest is None:
            return {}
        if found := self.column_types_by_checksum():
            return found
        return _types(json.loads(_open(self.path, latest).schema().to_json()), _SIMPLE_NAMES)

    def definition(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The protocol and the metadata of the newest version, as a log's actions ``protocol``, ``metaData``.

        Raises:
            HistoryGoneError: The log cannot be read, or there is no table.
        """
        try:
            checksum = json.loads(self._log.read(f"{self.latest_version():020}.crc") or b"{}")
            return checksum["protocol"], {"configuration": {}, **checksum["metadata"]}
        except (ValueError, KeyError, TypeError):
            table = _open(self.path, None)
        told, found = table.metadata(), table.protocol()
        protocol = {
            "minReaderVersion": found.min_reader_version,
            "minWriterVersion": found.min_writer_version,
            "readerFeatures": found.reader_features,
            "writerFeatures": found.writer_features,
        }
        return {name: value for name, value in protocol.items() if value is not None}, {
            "id": str(told.id),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": table.schema().to_json(),
            "partitionColumns": list(told.partition_columns),
            "configuration": dict(told.configuration),
        }

    def schema(self) -> str:
        """The schema of the newest version as Delta's JSON text, which is Spark's; empty: no table.

        Raises:
            HistoryGoneError: The log cannot be read.
        """
        latest = self.latest_version()
        if latest is None:
            return ""
        try:
            checksum = json.loads(self._log.read(f"{latest:020}.crc") or b"{}")
            return str(checksum["metadata"]["schemaString"])
        except (ValueError, KeyError, TypeError):
            return str(_open(self.path, latest).schema().to_json())

    def column_types_by_checksum(self) -> dict[str, str]:
        """As ``column_types``, by the one small file beside the newest commit; empty where it is missing."""
        latest = self.latest_version()
        try:
            checksum = json.loads(self._log.read(f"{latest:020}.crc") or b"{}")
            schema = json.loads(checksum["metadata"]["schemaString"])
            return _types(schema, _SIMPLE_NAMES)
        except (ValueError, KeyError, TypeError):
            return {}

    def _read_snapshot(self) -> Snapshot:
        if self._table is None:
            self._table = _open(self.path, None)
        else:
            self._update()
        version = int(self._table.version())
        commit = self.commit(version)
        files, size, rows = _totals(self._table)
        return Snapshot(
            version=version,
            table_id=str(self._table.metadata().id),
            rows=rows,
            files=files,
            bytes=size,
            timestamp=commit.timestamp if commit else self._newest_time(version),
            columns=tuple(field.name for field in self._table.schema().fields),
        )

    def _newest_time(self, version: int) -> datetime:
        """The time of the newest commit by delta-rs, where the log has no JSON file of it with content."""
        known = self._table.history(1)
        if not known:
            self._table = None  # opened again once the log is mended
            raise HistoryGoneError(f"{self.path} cannot be read: _delta_log/{commit_name(version)} is empty")
        return from_epoch_ms(known[0]["timestamp"])

    def _update(self) -> None:
        from deltalake.exceptions import DeltaError

        try:
            self._table.update_incremental()
        except DeltaError as error:
            self._table = None  # opened again once the log is mended
            raise HistoryGoneError(f"{self.path} cannot be read: {_cause(self.path, error)}") from error

    def _snapshot_files(self, version: int) -> tuple[DataFile, ...]:
        """The files at a version; a stream's first load is looked at again and again, for minutes."""
        if self._files_at is None or self._files_at[0] != version:
            self._files_at = version, _live_files(_open(self.path, version))
        self._is_files_at_used = True
        return self._files_at[1]

    def _forget(self, created_ms: int | None) -> None:
        self._created_ms = created_ms
        self.generation += 1
        self._latest = self._snapshot = self._table = self._files_at = None
        self._commits.clear()

    def _checkpoint_version(self) -> int | None:
        content = self._log.read("_last_checkpoint")
        try:
            return 0 if content is None else int(json.loads(content)["version"])
        except (ValueError, KeyError, TypeError):
            return None

    def _listed_versions(self) -> Iterator[int]:
        return (int(match[1]) for name in self._log.names() if (match := _COMMIT.match(name)))

    def _newest_from(self, version: int) -> int:
        """The newest version, searched upwards from an existing one; above it the log has no gaps."""
        step = 1
        while self._log.has_file(commit_name(version + step)):
            version += step
            step *= 2
        while step > 1:
            step //= 2
            if self._log.has_file(commit_name(version + step)):
                version += step
        return version

    def _refuse_gap(self, version: int) -> None:
        latest = self.latest_version()
        if latest is not None and version <= latest:
            oldest = min(self._listed_versions())
            raise HistoryGoneError(
                f"{self.path}: commit {version} is gone from the log; the oldest one left is {oldest}. "
                "A query that reads this table commit by commit cannot continue from there: rebuild the "
                "table that it writes."
            )

    def _parse(self, version: int, content: bytes) -> Commit:
        name = commit_name(version)
        try:
            return parse_commit(version, content, lambda: self._log.modified_ms(name), self._bounds_of)
        except ValueError as error:
            raise TableError(
                f"{self.path}/_delta_log/{name} is no Delta commit. "
                "If the disk was full or the file was edited, restore it from a copy."
            ) from error


def latest_version(path: str) -> int | None:
    """The newest version of a table; None when there is no table."""
    return LogReader(path).latest_version()


def is_creation_cut_off(path: str) -> bool:
    """Whether a local table was being created by a process that ended before the first commit.

    Delta takes a folder ``_delta_log`` for a table, also an empty one, and refuses to create or to read it.
    Such a log has folders and drafts of commits, and no file of another kind.
    """
    log = Path(StorageFolder(path).path, "_delta_log")
    if not StorageFolder(path).is_local or not log.is_dir():
        return False
    return all(entry.is_dir() or _DRAFT.fullmatch(entry.name) for entry in log.rglob("*"))


def snapshot(path: str) -> Snapshot | None:
    """The current state of a table; None when there is no table."""
    return LogReader(path).snapshot()


def commit_name(version: int) -> str:
    return f"{version:020}.json"


def _open(path: str, version: int | None) -> Any:
    from deltalake import DeltaTable  # imported only when there is a table to read
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(path, version=version, storage_options=storage_options(path))
    except DeltaError as error:
        at = "" if version is None else f" at version {version}"
        raise HistoryGoneError(f"{path} cannot be read{at}: {_cause(path, error)}") from error


def _cause(path: str, error: Exception) -> str:
    """Why delta-rs cannot open a table: a gap in the log, which it prints as objects, or its own words."""
    if missing := LogReader(path).missing_versions():
        return (
            f"commit {missing[0]} is gone from its log, which has earlier and later ones. Restore "
            f"_delta_log/{commit_name(missing[0])} from a copy; what can be done without one: medallion "
            "recover --plan"
        )
    return first_line(error)


def _live_files(table: Any) -> tuple[DataFile, ...]:
    """Live files in the order in which a stream reads an initial snapshot: oldest first, then by path."""
    files = table.get_add_actions()
    columns = ("modification_time", "path", "size_bytes", "num_records")
    order = sorted(zip(*(files.column(name).to_pylist() for name in columns), strict=True))
    return tuple(DataFile(int(size), rows, unquote(path)) for _, path, size, rows in order)


def _totals(table: Any) -> tuple[int, int, int | None]:
    """Number, bytes and rows of the live files; rows are None where a file has no statistics.

    Summed in Arrow: as Python's objects, 100,000 files take half a second of CPU after each commit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    files = table.get_add_actions()
    sizes, rows = (pa.chunked_array(files.column(name)) for name in ("size_bytes", "num_records"))
    counted = None if rows.null_count else int(pc.sum(rows).as_py() or 0)
    return len(sizes), int(pc.sum(sizes).as_py() or 0), counted


def column_types(path: str) -> dict[str, str]:
    """The columns of a table as it is now, with their types as Delta writes them; empty without a table."""
    if latest_version(path) is None:
        return {}
    return _types(json.loads(_open(path, None).schema().to_json()), {})


_SIMPLE_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""Delta's names of the types that Spark's ``simpleString`` names otherwise."""


def _types(schema: Any, names: Mapping[str, str]) -> dict[str, str]:
    """The types of a schema's columns; ``names`` has other names for some of Delta's types."""
    return {field["name"]: _type_text(field["type"], names) for field in schema["fields"]}


def _type_text(described: Any, names: Mapping[str, str]) -> str:
    if isinstance(described, str):
        return names.get(described, described)
    if described["type"] == "array":
        return f"array<{_type_text(described['elementType'], names)}>"
    if described["type"] == "map":
        ends = (_type_text(described[part], names) for part in ("keyType", "valueType"))
        return f"map<{','.join(ends)}>"
    inner = (f"{each['name']}:{_type_text(each['type'], names)}" for each in described["fields"])
    return f"struct<{','.join(inner)}>"
