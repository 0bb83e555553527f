"""Digests of the data files that the driver writes by delta-rs: their pages have no checksums, Spark's have.

One file per table, ``_delta_log/.file_digests``, with a line of JSON per data file: ``file`` is its name and
``sha256`` the beginning of its digest. It is written after the commit and not flushed: a power cut, a kill in
between or a copy without it costs the comparison of some files, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from common.delta.commit import DataFile
from common.machine.storage_folder import StorageFolder

_NAME = ".file_digests"
_DIGITS = 16

_WRITING = threading.Lock()
"""The query of a table and its maintenance write in two threads of one process."""

_log = structlog.get_logger(__name__)


def note_files(path: str, paths: Iterable[str]) -> None:
    """Note the digests of data files that were just written.

    Args:
        path: The table, on a local disk.
        paths: Their paths below the table.
    """
    folder = StorageFolder(path).path
    try:
        lines = [json.dumps({"file": _name(one), "sha256": _digest(f"{folder}/{one}")}) for one in paths]
        if lines:
            with _WRITING, Path(folder, "_delta_log", _NAME).open("a", encoding="utf-8") as out:
                out.write("".join(f"{line}\n" for line in lines))
    except OSError as error:  # the commit is valid without
        _log.warning("no digest of a data file is noted", table=path, error=str(error))


def noted(path: str) -> Mapping[str, str]:
    """The digest of each data file that has one, by the file's name; empty for a table in an object store."""
    if not StorageFolder(path).is_local:
        return {}
    content = (StorageFolder(path) / "_delta_log").read(_NAME) or b""
    return dict(_entries(content.splitlines()))


def file_fault(path: str, file: DataFile, digests: Mapping[str, str], *, is_deep: bool = False) -> str | None:
    """What is wrong with a data file, in words; None if nothing is, or if nothing tells.

    Args:
        file: The file, with its size if that is to be compared; 0: it is not.
        digests: Those of the table (``noted``).
        is_deep: A file without a digest is read whole, and its pages are compared with their checksums.
    """
    place = file.path_in(path)
    name = place.removeprefix(f"{path}/")
    if not StorageFolder(path).is_local:
        folder, _, last = place.rpartition("/")
        return None if StorageFolder(folder).exists(last) else f"the file {name} is gone"
    place = StorageFolder(place).path
    try:
        found = os.stat(place).st_size  # noqa: PTH116  # called once per file of a table
        if file.bytes and found != file.bytes:
            return f"the file {name} has {found} bytes instead of {file.bytes}"
        wanted = digests.get(_name(file.path))
        is_whole = (_digest(place) == wanted) if wanted else (not is_deep or _has_whole_pages(place))
        if not is_whole:
            return f"bytes of the file {name} have changed since it was written"
    except FileNotFoundError:
        return f"the file {name} is gone"
    return None


def has_digest(file: DataFile, digests: Mapping[str, str]) -> bool:
    """Whether the bytes of a file can be compared."""
    return _name(file.path) in digests


def forget_others(path: str, kept: Collection[DataFile]) -> None:
    """Forget the digests of files that were deleted: all but those of some files and of those still there.

    Call it after old files were deleted, by the table's one writer.
    """
    with _WRITING:
        digests = noted(path)
        names = {_name(one.path) for one in kept}
        if digests.keys() <= names:
            return
        names |= {one.name for one in Path(StorageFolder(path).path).rglob("*.parquet")}
        left = {name: digest for name, digest in digests.items() if name in names}
        if len(left) < len(digests):
            lines = (json.dumps({"file": name, "sha256": digest}) + "\n" for name, digest in left.items())
            (StorageFolder(path) / "_delta_log").write(_NAME, "".join(lines).encode())


def _entries(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    for line in lines:
        try:
            one = json.loads(line)
            yield one["file"], one["sha256"]
        except (ValueError, KeyError, TypeError):  # the last line, of a write that was cut off
            continue


def _has_whole_pages(place: str) -> bool:
    """Whether a file can be read, and its pages have their checksums."""
    try:
        with pq.ParquetFile(place, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
    except (pa.ArrowException, OSError):
        return False
    return True


def _digest(place: str) -> str:
    with Path(place).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]


def _name(path: str) -> str:
    """A file's name without its folder; it is unique."""
    return unquote(path).rpartition("/")[2]
