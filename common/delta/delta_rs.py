"""Small tables on a local disk, read and written by delta-rs: no Spark job, no new code, no process.

Part of ``common.delta.table``, which is the only writer of tables. Commits say of themselves what Spark's
say, are
refused where another writer was first, and can be read, merged, compacted and restored by Spark as its own.
What delta-rs does not write as Spark would is left to Spark: deletion vectors, constraints, generated
columns, clustering, tables in an object store, tables of a hundred thousand files, and any write that it
refuses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from common.delta import delta_rs_handles, version_checksum
from common.delta.log import LogReader
from common.machine.storage_folder import Folder
from common.rows.duckdb_query import asked
from common.spark.literals import FEW

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, WriterProperties

    from common.config.driver_limits import DriverLimits
    from common.delta.commit import Commit

ACTION = "__do"
INSERTED, UPDATED, DELETED = "inserted", "updated", "deleted"
"""The column that says what is to be done with a row, and what it says."""

_READER, _WRITER = 1, 4
"""The protocol up to which delta-rs writes all that there is."""

_NAMES = 100_000
"""So many names of files a table's checkpoint may have: each opening reads them all, in half a second."""

_CLEANS_EVERY = 100
"""Commits, of which one has delta-rs look for log files that have expired: it lists all that there are."""

_ATTEMPTS = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeltaRsTable:
    """A small table as it is now."""

    table: DeltaTable
    path: str
    small: DriverLimits

    def rows_with_keys(self, groups: pa.Table, columns: Sequence[str] | None = None) -> pa.Table | None:
        """The rows that have one of the groups, compared null-safe; ``None`` where they are many.

        Args:
            groups: Its columns are columns of the table.
            columns: Those that are read, the groups' among them; unset: all.
        """
        bounds = " AND ".join(_bounds(groups, groups.column_names)) or None
        if self._is_much(bounds):
            return None
        found = self.table.scan(None if columns is None else list(columns), bounds)
        schema = pa.schema(self.table.schema())
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        same = " AND ".join(
            f"t.{_quoted(n)} IS NOT DISTINCT FROM g.{_quoted(n)}" for n in groups.column_names
        )
        query = f"SELECT t.* FROM t SEMI JOIN g ON {same} LIMIT {self.small.rows + 1}"  # noqa: S608
        rows = asked(query, t=pa.RecordBatchReader.from_stream(found), g=groups)
        return None if rows.num_rows > self.small.rows else rows.cast(schema)

    def append(self, rows: pa.Table | None, told: str, *, mode: str = "append") -> None:
        """Append rows, or put them in place of all there are with ``mode="overwrite"``; ``None``: no rows."""
        from deltalake import write_deltalake

        schema = pa.schema(self.table.schema())
        rows = schema.empty_table() if rows is None else rows
        if set(rows.column_names) != set(schema.names):
            raise LookupError(f"rows have {rows.column_names}, the table {schema.names}")
        rows = rows.select(schema.names)
        write_deltalake(
            self.table,
            rows,
            mode=mode,
            commit_properties=_noted(told),
            post_commithook_properties=_afterwards(self.table),
            writer_properties=_compressed(),
        )  # type: ignore[call-overload]

    def change(self, changes: pa.Table, told: str, *, key: Sequence[str]) -> None:
        """Do with the table's rows what the column ``ACTION`` of ``changes`` says.

        Args:
            changes: At most one row per key, with the table's columns beside ``ACTION``.
            told: The commit's metadata.
            key: Columns that name a row; compared null-safe.

        Raises:
            TooMuchError: The files that may hold the keys are large; nothing is written.
        """
        if self._is_much(" AND ".join(_bounds(changes, key)) or None):
            raise TooMuchError
        names = [name for name in changes.column_names if name != ACTION]
        values = {_quoted(name): f"s.{_quoted(name)}" for name in names}
        same = " AND ".join(_same(changes, name) for name in key)
        merge = self.table.merge(
            changes,
            " AND ".join([same, *_bounds(changes, key, "t.")]),
            source_alias="s",
            target_alias="t",
            commit_properties=_noted(told),
            post_commithook_properties=_afterwards(self.table),
            writer_properties=_compressed(),
        )
        merge = merge.when_matched_delete(f"s.{ACTION} = '{DELETED}'").when_matched_update(values)
        merge.when_not_matched_insert(values, f"s.{ACTION} <> '{DELETED}'").execute()

    def files_smaller_than(self, file_bytes: int) -> int:
        """How many live files are smaller than that."""
        return int(pc.sum(pc.less(self._files["size_bytes"], file_bytes)).as_py() or 0)

    @property
    def _files(self) -> pa.Table:
        return delta_rs_handles.files(Folder(self.path).path, self.table)

    def _is_much(self, bounds: str | None) -> bool:
        """Whether the files within some bounds have more than the driver reads, or do not say how much."""
        files = self._files
        rows, sizes = (files[name].cast(pa.int64()) for name in ("num_records", "size_bytes"))
        if not rows.null_count and not self._is_more(rows, sizes):
            return False  # all of them are little, so nobody need know which are read
        names = {_name(uri) for uri in self.table.file_uris(file_pruning_predicate=bounds)}
        read = pa.array([_name(path) in names for path in files["path"].to_pylist()], pa.bool_())
        rows, sizes = rows.filter(read), sizes.filter(read)
        return bool(rows.null_count) or self._is_more(rows, sizes)

    def _is_more(self, rows: pa.ChunkedArray, sizes: pa.ChunkedArray) -> bool:
        many, large = (pc.sum(numbers, min_count=0).as_py() for numbers in (rows, sizes))
        return bool(many > self.small.file_rows or large > self.small.file_bytes)


class TooMuchError(Exception):
    """A write that is Spark's."""


def open_table(path: str, small: DriverLimits) -> DeltaRsTable | None:
    """A table, if it is one that is read and written directly."""
    if not is_for_driver(path, small):
        return None
    table = delta_rs_handles.open_table(Folder(path).path)
    if not _is_plain(table):
        return None
    return DeltaRsTable(table, path, small)


def is_for_driver(path: str, small: DriverLimits) -> bool:
    """Whether a table may be written directly, as far as that is known before it is opened."""
    return bool(small.rows) and Folder(path).is_plain and "%" not in path and not _names_many(path)


def _names_many(path: str) -> bool:
    """Whether opening a table takes longer than Spark, which has it open, takes to write a few rows."""
    hint = Folder(path).read("_delta_log/_last_checkpoint")
    try:
        return hint is not None and int(json.loads(hint)["size"]) > _NAMES
    except (ValueError, TypeError, KeyError):  # half of it; a hint is found anew
        return False


def _is_plain(table: DeltaTable) -> bool:
    """Whether delta-rs writes all that the table wants written."""
    protocol = table.protocol()
    if protocol.min_reader_version > _READER or protocol.min_writer_version > _WRITER:
        return False
    told = table.metadata().configuration
    if any(name.startswith("delta.constraints.") for name in told):
        return False
    if told.get("delta.autoOptimize.autoCompact", "false") != "false":  # Spark compacts as it writes
        return False
    return not any(
        field.metadata for field in table.schema().fields
    )  # generated, invariant, of limited length


def rows_with_keys(
    path: str, groups: pa.Table, small: DriverLimits, columns: Sequence[str] | None = None
) -> pa.Table | None:
    """A table's rows of some groups, if it is small and they are few; errors are left to Spark to tell."""
    import duckdb
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path, small)
        return None if table is None else table.rows_with_keys(groups, columns)
    except (DeltaError, duckdb.Error, OSError, ValueError, LookupError, pa.ArrowException) as error:
        _log.warning("delta-rs cannot read this, Spark does", table=path, error=str(error))
        return None


def try_write(path: str, small: DriverLimits, told: str, write: Callable[[DeltaRsTable], None]) -> bool:
    """Write a small table; whether that is done. Where it is not, nothing is written: Spark may.

    Args:
        path: The table.
        small: What is small.
        told: The metadata of the one commit that the write makes.
        write: Called anew where another writer was first, if that one has changed files and no rows.

    Raises:
        CommitFailedError: Another writer has changed rows meanwhile; nothing is written.
    """
    import duckdb
    from deltalake.exceptions import DeltaError

    for _ in range(_ATTEMPTS):
        try:
            table = open_table(path, small)
        except DeltaError as error:
            _log.warning("delta-rs cannot open this, Spark does", table=path, error=str(error))
            return False
        if table is None:
            return False
        before = table.table.version()
        try:
            write(table)
        except TooMuchError:
            return False
        except (DeltaError, duckdb.Error, OSError, ValueError, LookupError, pa.ArrowException) as error:
            since = tuple(LogReader(path).commits(before + 1))
            if any(commit.user_metadata == told for commit in since):
                break  # its answer got lost, the commit did not
            if not _may_be_done_anew(error, path, since):
                return False
        else:
            break
    else:
        return False
    until = LogReader(path).latest_version() or before
    if small.fsync:
        _flush(path, before, until)
    version_checksum.carry_on(path, before, until)
    return True


def _may_be_done_anew(error: Exception, path: str, since: Sequence[Commit]) -> bool:
    """Whether a write failed because files were moved meanwhile; of any other fault Spark does it.

    Raises:
        CommitFailedError: Rows were changed meanwhile.
    """
    from deltalake.exceptions import CommitFailedError

    if not isinstance(error, CommitFailedError):
        _log.warning("delta-rs cannot write this, Spark does", table=path, error=str(error))
        return False
    if any(commit.added or commit.removed for commit in since):
        # What was worked out from the table is not true any more: the micro-batch is done anew.
        raise error
    return True


def roll_back_torn_commit(path: str, query_id: str | None = None, counted: int | None = None) -> None:
    """Take back a newest commit that a power cut has left without its text or its files.

    delta-rs names a commit before the disk has all of it, and who writes goes on once the disk has: nobody
    has counted on it. To be called by the table's one writer, before anything else looks at the table.

    Args:
        path: The table.
        query_id: The query that writes it, by its checkpoint.
        counted: The newest micro-batch that the checkpoint counts as done: its files must be there.
    """
    if not Folder(path).is_local or (version := LogReader(path).latest_version()) is None:
        return
    log = Path(Folder(path).path) / "_delta_log"
    commit = log / f"{version:020}.json"
    if _is_whole(commit.read_bytes()) and not _lacks_files(path, version, query_id, counted):
        return
    for side in ("checkpoint.parquet", "crc"):
        (log / f"{version:020}.{side}").unlink(missing_ok=True)
    (log / "_last_checkpoint").unlink(missing_ok=True)  # a hint, found anew
    commit.rename(log / f".{commit.name}.cut_off")
    _log.warning("a power cut cut the newest commit off; it is taken back", commit=str(commit))


def _is_whole(content: bytes) -> bool:
    try:
        return bool([json.loads(line) for line in content.splitlines()])
    except ValueError:
        return False


def _lacks_files(path: str, version: int, query_id: str | None, counted: int | None) -> bool:
    """Whether a commit that nobody counts on names files that the disk has not got, or not to their end."""
    commit = LogReader(path).commit(version)
    if commit is None or not (commit.engine or "").startswith("delta-rs"):
        return False
    told = commit.told
    if query_id is None or told.get("query_id") != query_id:
        return False
    if counted is not None and told.get("batch_id", -1) <= counted:
        return False
    for file in commit.added:
        place = Path(file.within(Folder(path).path))
        if not place.exists() or place.stat().st_size < file.bytes:
            return True
    return False


def _noted(told: str) -> CommitProperties:
    from deltalake import CommitProperties

    return CommitProperties(custom_metadata={"userMetadata": told})


def _afterwards(table: DeltaTable) -> PostCommitHookProperties:
    """What follows a commit: a look at the whole log for what has expired, now and then."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(cleanup_expired_logs=(table.version() + 1) % _CLEANS_EVERY == 0)


def _compressed() -> WriterProperties:
    """Files as Spark writes them."""
    from deltalake import WriterProperties

    return WriterProperties(compression="ZSTD")


def _flush(path: str, since: int, until: int) -> None:
    """Have the disk take new commits and their files before anybody counts on them."""
    folder = Folder(path).path
    names: set[str] = set()
    for version in range(since + 1, until + 1):
        name = f"_delta_log/{version:020}.json"
        for line in (Folder(path).read(name) or b"").splitlines():
            action = json.loads(line)
            names |= {unquote(action[kind]["path"]) for kind in ("add", "cdc") if action.get(kind)}
        names |= {name, f"_delta_log/{version:020}.checkpoint.parquet", "_delta_log/_last_checkpoint"}
    folders = {str(each) for name in names for each in Path(name).parents}
    for name in (*names, *folders):
        with suppress(FileNotFoundError):  # cleaned up, or merged into another, by somebody else meanwhile
            _force(f"{folder}/{name}")


def _force(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _same(changes: pa.Table, name: str) -> str:
    """Table and changes have one value; null is one too."""
    how = "IS NOT DISTINCT FROM" if changes[name].null_count else "="
    return f"(t.{_quoted(name)} {how} s.{_quoted(name)})"


def _bounds(rows: pa.Table, key: Sequence[str], table: str = "") -> list[str]:
    """What the table's keys are, or lie between, as SQL text: other files are not read."""
    found = []
    for name in key:
        values = rows[name]
        if not _is_ordered(values.type) or values.null_count == len(values):
            continue
        column, known = f"{table}{_quoted(name)}", pc.unique(values.drop_null())
        if len(known) <= FEW:
            among = " OR ".join(f"{column} = {_literal(value, values.type)}" for value in known)
        else:
            low, high = (_literal(end, values.type) for end in pc.min_max(known).values())
            among = f"{column} >= {low} AND {column} <= {high}"
        found.append(f"({among} OR {column} IS NULL)" if values.null_count else f"({among})")
    return found


def _is_ordered(kind: pa.DataType) -> bool:
    is_one = (pa.types.is_integer, pa.types.is_string, pa.types.is_date32, pa.types.is_timestamp)
    return any(one(kind) for one in is_one)


def _literal(value: pa.Scalar, kind: pa.DataType) -> str:
    if pa.types.is_string(kind):
        return "'{}'".format(value.as_py().replace("'", "''"))
    if pa.types.is_integer(kind):
        return str(value.as_py())
    number = value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()
    return f"arrow_cast({number}, '{_arrow_type(kind)}')"


def _arrow_type(kind: pa.DataType) -> str:
    if pa.types.is_date32(kind):
        return "Date32"
    return "Timestamp(Microsecond, {})".format("None" if kind.tz is None else f'Some("{kind.tz}")')


def _name(path: str) -> str:
    """A file's own name, which is its alone."""
    return unquote(path).rpartition("/")[2]


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))
