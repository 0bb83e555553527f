"""Gives a file up: its unread records become a gap, and the query goes on behind them.

First the gap is written into ``ops.gaps``, then the skip into the list of files, both once: an interrupted
command is finished by the same command. There is no way back, and none is needed: the same content under
another name is a new file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from common.config.paths import Layout
from common.declare import Files, Pipeline
from common.delta.lease.job_leases import TableLeases
from common.errors import UsageError, nearest
from common.machine.storage_folder import StorageFolder
from common.streaming.file_list import ITSELF, FileList, ListedFile, SkippedFile, shown
from orchestration.records.audit.accepted_gaps import SKIPPED, Gap, append_gaps, not_accepted
from orchestration.records.source_files.contents import read_up_to, select_files


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that is given up."""

    table: str  # the bronze table of files
    path: str  # path below the declared folder
    topic: str  # the column ``topic`` of its records
    # The first offset that is not read; None if the file never got offsets, or all are read.
    offset: int | None
    records: int  # how many records are not read
    read: int  # how many of its records bronze has, and keeps
    is_new: bool = True  # whether it was not skipped before


def skip_file(  # noqa: PLR0913  # the options of the command
    pipeline: Pipeline,
    layout: Layout,
    path: str,
    why: str,
    *,
    table: str | None = None,
    is_plan: bool = False,
) -> Skip:
    """Account for the unread records of a file as a gap, and read nothing more of it.

    Raises:
        LeaseHeldError: A job reads the files.
        UsageError: No table has such a file, several have, or all of its records are read.
    """
    if not why.strip():
        raise UsageError("--why is empty: say why the file is given up; the audit shows it.")
    files, listed_path, one = _find(layout, select_files(pipeline, table), path)
    layout.require_own((files.table,))
    with TableLeases(layout, (files.table,), "files skip"):
        listed, end = FileList(layout.file_list_path(files.table)), read_up_to(layout, files)
        listed.update(end)
        known = listed.skipped.get(listed_path)
        if known is not None and (one is None or not one.rows or known.first_lost(one) <= end):
            offset = known.offset if known.rows else None
            read = known.first_lost(one) - one.offset if one is not None else 0
            return Skip(
                files.table, shown(listed_path), files.coordinate, offset, known.rows, read, is_new=False
            )
        skip = _skip(files, listed_path, one, end, listed)
        if known is not None and known.rows and skip.offset == known.offset:
            return replace(skip, is_new=False)
        if not is_plan:
            _write(layout, files, listed, skip, SkippedFile(listed_path, skip.offset or 0, skip.records, why))
    return skip


def _find(layout: Layout, tables: tuple[Files, ...], path: str) -> tuple[Files, str, ListedFile | None]:
    """The table, the path as its list has it, and the newest entry of the list, if the file got offsets."""
    found: list[tuple[Files, str, ListedFile | None]] = []
    listed_paths: set[str] = set()
    for files in tables:
        listed = FileList(layout.file_list_path(files.table))
        listed.update(0)
        everything = {one.path: one for one in listed.all_files()}
        listed_paths |= {shown(known) for known in everything}
        entries = {known: one for known, one in everything.items() if shown(known) == path}
        entries |= {known: entries.get(known) for known in listed.skipped if shown(known) == path}  # type: ignore[misc]
        found += [(files, known, one) for known, one in entries.items()]
        if not entries and (there := _in_folder(files, path)) is not None:
            found.append((files, there, None))
    if not found:
        names = ", ".join(files.table for files in tables)
        hint = nearest(path, listed_paths) if listed_paths else "no file was found yet"
        raise UsageError(
            f"{path} is no file of {names}; {hint}. Give the path below the declared "
            "folder, as medallion files list prints it."
        )
    if len(found) > 1:
        names = " and ".join(files.table for files, _, _ in found)
        raise UsageError(f"{names} have a file {path}: name one of them with --table.")
    return found[0]


def _in_folder(files: Files, path: str) -> str | None:
    """The path of a file that the list does not have and that a look would find; None if it is not there."""
    parent, _, name = files.folder.rstrip("/").rpartition("/")
    if path == name and StorageFolder(parent).has_file(name):
        return ITSELF + path
    is_hidden = any(part[:1] in {"", ".", "_"} for part in path.split("/"))
    return path if not is_hidden and StorageFolder(files.folder).has_file(path) else None


def _skip(files: Files, path: str, one: ListedFile | None, end: int, listed: FileList) -> Skip:
    nothing = Skip(files.table, shown(path), files.coordinate, None, 0, 0)
    if one is None or not one.rows:
        return nothing
    read = max(0, min(one.rows, end - one.offset))
    if read < one.rows:
        return replace(nothing, offset=one.offset + read, records=one.rows - read, read=read)
    if path in listed.changed or path in listed.faults:
        return replace(nothing, read=read)
    raise UsageError(
        f"{files.table} has read all records of {shown(path)} ({one.rows:,}): there is nothing to skip. "
        "What is new in it goes into a file of another name."
    )


def _write(layout: Layout, files: Files, listed: FileList, skip: Skip, entry: SkippedFile) -> None:
    if skip.offset is not None:
        bronze, end = files.into or files.table, skip.offset + skip.records - 1
        gap = Gap(bronze, skip.topic, 0, skip.offset, end, f"{SKIPPED} {skip.path}: {entry.why}")
        if gaps := list(not_accepted(layout, bronze, [gap])):
            append_gaps(layout, gaps)
    listed.skip(entry)
