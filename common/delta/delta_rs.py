"""Small reads and writes of tables on a local disk by delta-rs: without a Spark job.

The fast way of ``common.delta.table`` and ``common.delta.merge``. Commits have the same metadata as Spark's,
are refused where another writer was first, and Spark reads, merges, compacts and restores them as its own.
What delta-rs does not write as Spark would is left to Spark: deletion vectors, constraints, generated
columns, clustering, tables in an object store, tables of a hundred thousand files, and any write that it
refuses.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from common.delta import delta_rs_handles
from common.delta.checksums import file_digests, version_checksum
from common.delta.log import LogReader, commit_name
from common.machine.console import say
from common.machine.storage_folder import StorageFolder
from common.rows.latest_in_driver import rows_with_keys_of
from common.spark.literals import MOST_LISTED
from common.sql.quoting import double_quoted, standard_text

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, WriterProperties

    from common.config.driver_limits import DriverLimits
    from common.delta.commit import Commit

ACTION = "__action"
INSERTED, UPDATED, DELETED = "inserted", "updated", "deleted"
"""The column that says how a change is applied to the table, and its values."""

_READER, _WRITER = 1, 4
"""The highest protocol versions whose features delta-rs writes completely."""

_MAX_ACTIONS = 100_000
"""Upper bound of actions in a table's checkpoint: each opening reads them all, in half a second."""

_MAX_FOLDER_BYTES = 255
"""Upper bound of a folder's name on the usual file systems."""

_PARQUET = b"PAR1"
"""The first and the last bytes of a Parquet file."""

_CHECKPOINT = re.compile(r"\d{20}\.checkpoint(?:\.[0-9a-f.-]+)?\.(?:parquet|json)")
"""A checkpoint of the log, or a part of one."""

_SIDECAR = "sidecar"
"""The action of a checkpoint that names a further file of it."""

_READ_WHOLE = 1 << 20
"""Bytes of a checkpoint of the log up to which a start reads all of its rows."""

_CLEANUP_INTERVAL = 100
"""Commits between two searches of delta-rs for expired log files: each lists the whole log."""

_ATTEMPTS = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeltaRsTable:
    """A table that is open."""

    table: DeltaTable  # the table at its newest version
    path: str
    limits: DriverLimits  # what may be read in the driver

    def rows_with_keys(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table | None:
        """The rows that have one of the keys, compared null-safe; ``None`` where they exceed the limits.

        Args:
            keys: All columns are columns of the table.
            columns: Those that are read, the keys' among them; unset: all.
        """
        bounds = " AND ".join(_bounds(keys, keys.column_names)) or None
        if self._exceeds_limits(bounds):
            return None
        stream = self.table.scan(None if columns is None else list(columns), bounds)
        schema = pa.schema(self.table.schema())
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        rows = rows_with_keys_of(pa.RecordBatchReader.from_stream(stream), keys, self.limits.rows + 1)
        return None if rows.num_rows > self.limits.rows else rows.cast(schema)

    def append(self, rows: pa.Table | None, metadata: str, *, mode: str = "append") -> None:
        """Append rows, or replace all rows with ``mode="overwrite"``; ``None``: no rows.

        Raises:
            LimitExceededError: No folder can be named after a row's partition; nothing is written.
            LookupError: The rows have other columns than the table.
        """
        from deltalake import write_deltalake

        schema = pa.schema(self.table.schema())
        rows = schema.empty_table() if rows is None else rows
        if set(rows.column_names) != set(schema.names):
            raise LookupError(f"rows have {rows.column_names}, the table {schema.names}")
        rows = rows.select(schema.names)
        self._refuse_long_folders(rows)
        write_deltalake(
            self.table,
            rows,
            mode=mode,
            commit_properties=_commit_properties(metadata),
            post_commithook_properties=_after_commit(self.table),
            writer_properties=_file_properties(),
        )  # type: ignore[call-overload]

    def change(self, changes: pa.Table, metadata: str, *, key: Sequence[str]) -> None:
        """Insert, update or delete rows as the column ``ACTION`` of each change says.

        Args:
            changes: At most one row per key, with the table's columns beside ``ACTION``.
            key: Columns that identify a row; compared null-safe.

        Raises:
            LimitExceededError: The files that may hold the keys are large, or no folder can be named after a
                row's partition; nothing is written.
        """
        self._refuse_long_folders(changes)
        if self._exceeds_limits(" AND ".join(_bounds(changes, key)) or None):
            raise LimitExceededError
        names = [name for name in changes.column_names if name != ACTION]
        values = {double_quoted(name): f"s.{double_quoted(name)}" for name in names}
        same = " AND ".join(_same(changes, name) for name in key)
        merge = self.table.merge(
            changes,
            " AND ".join([same, *_bounds(changes, key, "t.")]),
            source_alias="s",
            target_alias="t",
            commit_properties=_commit_properties(metadata),
            post_commithook_properties=_after_commit(self.table),
            writer_properties=_file_properties(),
        )
        merge = merge.when_matched_delete(f"s.{ACTION} = '{DELETED}'").when_matched_update(values)
        merge.when_not_matched_insert(values, f"s.{ACTION} <> '{DELETED}'").execute()

    def compact(self, metadata: str, file_bytes: int) -> None:
        """Write files that are smaller than a size together into files of about that size; no row changes."""
        self.table.optimize.compact(
            target_size=file_bytes,
            max_concurrent_tasks=1,
            commit_properties=_commit_properties(metadata),
            post_commithook_properties=_after_commit(self.table),
            writer_properties=_file_properties(),
        )

    def file_sizes(self) -> list[int]:
        """Sizes of the live files, in bytes."""
        return [int(size) for size in self._files["size_bytes"].to_pylist()]

    def files_smaller_than(self, file_bytes: int) -> int:
        """How many live files have fewer bytes."""
        return int(pc.sum(pc.less(self._files["size_bytes"], file_bytes)).as_py() or 0)

    @property
    def _files(self) -> pa.Table:
        return delta_rs_handles.files(StorageFolder(self.path).path, self.table)

    def _refuse_long_folders(self, rows: pa.Table) -> None:
        """Refuse a partition value whose folder would have too long a name: delta-rs names it so always."""
        for name in self.table.metadata().partition_columns:
            if pa.types.is_string(rows[name].type) or pa.types.is_large_string(rows[name].type):
                folders = (
                    quote(f"{name}={value}") for value in pc.unique(rows[name].drop_null()).to_pylist()
                )
                if any(len(folder) > _MAX_FOLDER_BYTES for folder in folders):
                    raise LimitExceededError

    def _exceeds_limits(self, bounds: str | None) -> bool:
        """Whether the files within some bounds have more than the driver reads, or lack row counts."""
        files = self._files
        rows, sizes = (files[name].cast(pa.int64()) for name in ("num_records", "size_bytes"))
        if not rows.null_count and not self._are_more(rows, sizes):
            return False  # all files together are within the limits, whichever of them are read
        names = {_name(uri) for uri in self.table.file_uris(file_pruning_predicate=bounds)}
        read = pa.array([_name(path) in names for path in files["path"].to_pylist()], pa.bool_())
        rows, sizes = rows.filter(read), sizes.filter(read)
        return bool(rows.null_count) or self._are_more(rows, sizes)

    def _are_more(self, rows: pa.ChunkedArray, sizes: pa.ChunkedArray) -> bool:
        total_rows, total_bytes = (pc.sum(numbers, min_count=0).as_py() for numbers in (rows, sizes))
        return bool(total_rows > self.limits.file_rows or total_bytes > self.limits.file_bytes)


class LimitExceededError(Exception):
    """Spark does the write: it reads more than the driver may, or a partition cannot name a folder."""


def open_table(path: str, limits: DriverLimits) -> DeltaRsTable | None:
    """Open a table; ``None`` where Spark has to read and write it."""
    if not is_for_driver(path, limits):
        return None
    table = delta_rs_handles.open_table(StorageFolder(path).path)
    if not _is_plain(table):
        return None
    return DeltaRsTable(table, path, limits)


def is_for_driver(path: str, limits: DriverLimits) -> bool:
    """Whether delta-rs may write a table, as far as that is known before the table is opened."""
    is_plain_path = StorageFolder(path).is_plain and "%" not in path
    return bool(limits.rows) and is_plain_path and not _has_many_files(path)


def _has_many_files(path: str) -> bool:
    """Whether opening a table takes longer than Spark, which has it open, takes to write a few rows."""
    hint = StorageFolder(path).read("_delta_log/_last_checkpoint")
    try:
        return hint is not None and int(json.loads(hint)["size"]) > _MAX_ACTIONS
    except (ValueError, TypeError, KeyError):  # a torn hint; it is written again
        return False


def _is_plain(table: DeltaTable) -> bool:
    """Whether delta-rs writes everything that the table's features require."""
    protocol = table.protocol()
    if protocol.min_reader_version > _READER or protocol.min_writer_version > _WRITER:
        return False
    properties = table.metadata().configuration
    if any(name.startswith("delta.constraints.") for name in properties):
        return False
    if properties.get("delta.autoOptimize.autoCompact", "false") != "false":  # Spark compacts as it writes
        return False
    return not any(
        field.metadata for field in table.schema().fields
    )  # generated columns, invariants, char and varchar


def rows_with_keys(
    path: str, keys: pa.Table, limits: DriverLimits, columns: Sequence[str] | None = None
) -> pa.Table | None:
    """A table's rows that have one of some keys; ``None`` where Spark has to read them, also on any error."""
    import duckdb
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path, limits)
        return None if table is None else table.rows_with_keys(keys, columns)
    except (DeltaError, duckdb.Error, OSError, ValueError, LookupError, pa.ArrowException) as error:
        _log.warning("delta-rs cannot read this, Spark does", table=path, error=str(error))
        return None


def try_write(path: str, limits: DriverLimits, metadata: str, write: Callable[[DeltaRsTable], None]) -> bool:
    """Write a table by delta-rs; whether that succeeded. Otherwise nothing is written, and Spark may write.

    Args:
        limits: What may be read and written in the driver.
        metadata: The metadata of the one commit that ``write`` makes.
        write: Called again where another writer was first and has only moved rows to other files.

    Raises:
        CommitFailedError: Another writer has changed rows meanwhile; nothing is written.
    """
    from deltalake.exceptions import DeltaError

    for _ in range(_ATTEMPTS):
        try:
            table = open_table(path, limits)
        except DeltaError as error:
            _log.warning("delta-rs cannot open this, Spark does", table=path, error=str(error))
            return False
        if table is None:
            return False
        before = table.table.version()
        outcome = _attempt(table, metadata, write)
        if outcome == "refused":
            return False
        if outcome == "written":
            break
    else:
        return False
    until = LogReader(path).latest_version() or before
    written = _files_of(path, before, until)
    if limits.fsync:
        _flush(path, before, until, (*written["add"], *written["cdc"]))
    version_checksum.write_checksums(path, before, until)
    file_digests.note_files(path, written["add"])
    return True


def _attempt(
    table: DeltaRsTable, metadata: str, write: Callable[[DeltaRsTable], None]
) -> Literal["written", "refused", "retry"]:
    """Write once."""
    import duckdb
    from deltalake.exceptions import DeltaError

    before = table.table.version()
    try:
        write(table)
    except LimitExceededError:
        return "refused"
    except (DeltaError, duckdb.Error, OSError, ValueError, LookupError, pa.ArrowException) as error:
        since = tuple(LogReader(table.path).commits(before + 1))
        if any(commit.user_metadata == metadata for commit in since):
            return "written"  # the commit succeeded, its answer was lost
        return "retry" if _may_be_retried(error, table.path, since) else "refused"
    return "written"


def _may_be_retried(error: Exception, path: str, since: Sequence[Commit]) -> bool:
    """Whether a write failed only because another writer has moved rows; after other errors Spark writes."""
    from deltalake.exceptions import CommitFailedError

    if not isinstance(error, CommitFailedError):
        _log.warning("delta-rs cannot write this, Spark does", table=path, error=str(error))
        return False
    if any(commit.added or commit.removed for commit in since):
        # What was computed from the table is outdated: the micro-batch is replayed.
        raise error
    return True


def roll_back_torn_commit(
    path: str, query_id: str | None = None, committed: int | None = None
) -> Callable[[], object]:
    """Roll back the newest commit where a power cut has left it without its text or its files.

    delta-rs links a commit to its name before the disk has all of it, and the query goes on once the disk has
    it: no checkpoint counts on such a commit. To be called by the table's one writer, before anything else
    reads the table.

    Args:
        query_id: The query that writes it, by its checkpoint.
        committed: The newest micro-batch that the checkpoint has as done: its files must exist.

    Returns:
        Puts the commit back as it was, for a start that is refused; does nothing where none was rolled back.
    """
    if not StorageFolder(path).is_local or (version := LogReader(path).latest_version()) is None:
        return lambda: None
    log = Path(StorageFolder(path).path) / "_delta_log"
    commit = log / f"{version:020}.json"
    if _is_whole(commit.read_bytes()) and not _lacks_files(path, version, query_id, committed):
        return lambda: None
    for side in ("checkpoint.parquet", "crc"):
        (log / f"{version:020}.{side}").unlink(missing_ok=True)
    (log / "_last_checkpoint").unlink(missing_ok=True)  # a hint, which is written again
    cut_off = commit.rename(log / f".{commit.name}.cut_off")
    _log.warning("a power cut tore the newest commit; it is rolled back", commit=str(commit))
    return lambda: cut_off.rename(commit)


def delete_dangling_hint(path: str) -> None:
    """Delete ``_last_checkpoint`` where it names a checkpoint of the log that is gone: only a hint is lost.

    Delta refuses to read a table with such a hint, and finds the newest checkpoint itself without one. A
    checkpoint that is damaged is set aside first, where the commits say all that it says.
    """
    log = StorageFolder(path) / "_delta_log"
    _set_damaged_checkpoints_aside(log)
    try:
        version = int(json.loads(log.read("_last_checkpoint") or b"")["version"])
    except (ValueError, KeyError, TypeError):
        return
    name = f"{version:020}.checkpoint"
    if log.exists(f"{name}.parquet") or any(one.startswith(name) for one in log.names()):
        return
    log.delete("_last_checkpoint")
    log.delete("._last_checkpoint.crc")
    _log.warning("the log's hint named a checkpoint that is gone; the hint is deleted", table=path)


def _set_damaged_checkpoints_aside(log: StorageFolder) -> None:
    """Set files aside that only speed reading up and are cut off; Delta writes new ones.

    Only where the log has all of its commits, from its beginning or from a whole checkpoint: otherwise the
    damaged one is all that there is.
    """
    names = set(log.names()) if log.is_local else set()
    files = [one for one in names if _CHECKPOINT.fullmatch(one)]
    damaged = [one for one in files if not _has_both_ends(log, one)]
    for newest in sorted({*files} - {*damaged}, reverse=True):
        if _can_be_read(log, newest):
            break  # readers take it, and look at no other
        damaged.append(newest)
    if not damaged:
        return
    commits = {int(one[:-5]) for one in names if one.endswith(".json") and one[:-5].isdigit()}
    lost = {one.partition(".")[0] for one in damaged}  # a checkpoint may be of several files
    begins = {-1, *(int(one.partition(".")[0]) for one in files if one.partition(".")[0] not in lost)}
    latest = max(commits, default=-1)
    if not any(commits >= {*range(begin + 1, latest + 1)} for begin in begins):
        return
    for name in damaged:
        Path(log.path, name).rename(Path(log.path, f".{name}.damaged"))
        log.delete(f".{name}.crc")
        say(
            f"{log.path}/{name} is damaged; it only speeds reading up, so it is set aside as "
            f".{name}.damaged, and a new one follows",
            level="warning",
        )


def _has_both_ends(log: StorageFolder, name: str) -> bool:
    if name.endswith(".json"):
        return _is_whole(log.read(name) or b"")
    with log.open(name) as file:
        begins = file.read(len(_PARQUET))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_PARQUET)))
        return size > 2 * len(_PARQUET) and begins == file.read() == _PARQUET


def _can_be_read(log: StorageFolder, name: str) -> bool:
    """Whether a checkpoint's footer is whole, of a small one its rows too, and the files that it names."""
    from pyarrow import parquet

    try:
        if name.endswith(".json"):
            found = [json.loads(line).get(_SIDECAR) for line in (log.read(name) or b"").splitlines()]
        else:
            with parquet.ParquetFile(f"{log.path}/{name}", page_checksum_verification=True) as file:
                own = [_SIDECAR] if _SIDECAR in file.schema_arrow.names else []
                rows = file.read(None if (log.size(name) or 0) < _READ_WHOLE else own)
                found = rows[_SIDECAR].to_pylist() if own else []
        for part in found:
            if part is not None:
                parquet.read_metadata(f"{log.path}/_sidecars/{unquote(part['path'])}")
    except PermissionError:
        raise
    except FileNotFoundError:
        return not log.exists(name)  # the log's cleanup has deleted it meanwhile
    except (pa.ArrowException, OSError):
        return False
    return True


def _is_whole(content: bytes) -> bool:
    try:
        return bool([json.loads(line) for line in content.splitlines()])
    except ValueError:
        return False


def _lacks_files(path: str, version: int, query_id: str | None, committed: int | None) -> bool:
    """Whether a commit that no checkpoint counts on names files that are missing or too short."""
    commit = LogReader(path).commit(version)
    if commit is None or not (commit.engine or "").startswith("delta-rs"):
        return False
    metadata = commit.metadata
    if query_id is None or metadata.get("query_id") != query_id:
        return False
    if committed is not None and metadata.get("batch_id", -1) <= committed:
        return False
    for file in commit.added:
        place = Path(file.path_in(StorageFolder(path).path))
        if not place.exists() or place.stat().st_size < file.bytes:
            return True
    return False


def _commit_properties(metadata: str) -> CommitProperties:
    from deltalake import CommitProperties

    return CommitProperties(custom_metadata={"userMetadata": metadata})


def _after_commit(table: DeltaTable) -> PostCommitHookProperties:
    """After every hundredth commit delta-rs deletes expired log files."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(cleanup_expired_logs=(table.version() + 1) % _CLEANUP_INTERVAL == 0)


def _file_properties() -> WriterProperties:
    """Compression as in the files that Spark writes."""
    from deltalake import WriterProperties

    return WriterProperties(compression="ZSTD")


def _files_of(path: str, since: int, until: int) -> Mapping[str, list[str]]:
    """The files of new commits: those with rows (``add``) and those of the change feed (``cdc``)."""
    found: dict[str, list[str]] = {"add": [], "cdc": []}
    for version in range(since + 1, until + 1):
        for line in (StorageFolder(path).read(f"_delta_log/{commit_name(version)}") or b"").splitlines():
            action = json.loads(line)
            for kind in found.keys() & action.keys():
                found[kind].append(unquote(action[kind]["path"]))
    return found


def _flush(path: str, since: int, until: int, files: Iterable[str]) -> None:
    """Flush new commits and their files to the disk before a checkpoint counts on them."""
    folder = StorageFolder(path).path
    names = {*files, "_delta_log/_last_checkpoint"}
    for version in range(since + 1, until + 1):
        names |= {f"_delta_log/{commit_name(version)}", f"_delta_log/{version:020}.checkpoint.parquet"}
    folders = {str(each) for name in names for each in Path(name).parents}
    for name in (*names, *folders):
        with suppress(FileNotFoundError):  # deleted or compacted by another process meanwhile
            _force(f"{folder}/{name}")


def _force(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _same(changes: pa.Table, name: str) -> str:
    """Table and changes have the same value; null equals null."""
    how = "IS NOT DISTINCT FROM" if changes[name].null_count else "="
    return f"(t.{double_quoted(name)} {how} s.{double_quoted(name)})"


def _bounds(rows: pa.Table, key: Sequence[str], table: str = "") -> list[str]:
    """Literal bounds of the keys as SQL text; files outside of them are skipped."""
    found = []
    for name in key:
        values = rows[name]
        if not _is_ordered(values.type) or values.null_count == len(values):
            continue
        column, known = f"{table}{double_quoted(name)}", pc.unique(values.drop_null())
        if len(known) <= MOST_LISTED:
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
        return standard_text(value.as_py())
    if pa.types.is_integer(kind):
        return str(value.as_py())
    number = value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()
    return f"arrow_cast({number}, '{_arrow_type(kind)}')"


def _arrow_type(kind: pa.DataType) -> str:
    if pa.types.is_date32(kind):
        return "Date32"
    return "Timestamp(Microsecond, {})".format("None" if kind.tz is None else f'Some("{kind.tz}")')


def _name(path: str) -> str:
    """A file's name without its folder; it is unique."""
    return unquote(path).rpartition("/")[2]
