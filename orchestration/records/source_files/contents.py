"""The files of a bronze table of files, as its list has them, with what has become of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from common.config.paths import Layout
from common.declare import Files, Pipeline
from common.delta.checkpoint import Checkpoint, kafka_position
from common.delta.match.checkpoint_match import last_commit_metadata
from common.errors import UsageError
from common.streaming.file_list import FileList, shown
from common.streaming.topic_identity import read_ends


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file."""

    table: str  # the bronze table of files, such as ``bronze.history``
    path: str  # path below the declared folder
    offset: int | None  # offset of its first record; None if it never got offsets
    records: int  # its records
    read: int  # how many of them bronze has
    # ``read``, ``archived``, ``deleted``, ``waiting``, ``unreadable``, ``changed``, ``skipped`` or ``left
    # out``.
    state: str
    why: str = ""  # the reason of ``unreadable``, ``skipped`` and ``left out``, and where an archived file is


def select_files(pipeline: Pipeline, table: str | None) -> tuple[Files, ...]:
    """The bronze tables of files: all, or the named one.

    Raises:
        UsageError: There is none, or the named table is not one.
    """
    names = ", ".join(one.table for one in pipeline.files)
    if not names:
        raise UsageError(f"pipeline {pipeline.name} has no bronze table of files.")
    found = tuple(one for one in pipeline.files if table in (None, one.table, one.name))
    if not found:
        raise UsageError(f"{table} is no bronze table of files; those of {pipeline.name} are: {names}.")
    return found


def read_up_to(layout: Layout, files: Files) -> int:
    """The first offset that bronze has not committed.

    In a table that a busy topic shares, the files' newest commit may be too old to be found: the checkpoint
    has counted it then.
    """
    last = last_commit_metadata(layout.table_path(files.table), files.table)
    ends = read_ends(last)
    if last is None:
        checkpoint = Checkpoint(layout.checkpoint_path(files.table))
        batch = checkpoint.planned_batch(checkpoint.last_committed())
        ends = {} if batch is None else kafka_position(batch)
    return ends.get(files.coordinate, {}).get(0, 0)


def source_files(layout: Layout, files: Files) -> Iterator[SourceFile]:
    """The files of one table in the order in which they were found; then those that never got offsets.

    A file that had no records, or could not be read, and is another one now is there again.
    """
    listed, end = FileList(layout.file_list_path(files.table)), read_up_to(layout, files)
    listed.update(end)
    without_offsets = dict(listed.skipped)
    for one in listed.all_files():
        read = max(0, min(one.rows, end - one.offset))
        skipped, why = listed.skipped.get(one.path), one.fault
        state = "unreadable" if why else "read" if read == one.rows else "waiting"
        if skipped is not None and skipped.is_of(one):
            read, state, why = min(read, skipped.first_lost(one) - one.offset), "skipped", skipped.why
        elif one.path in listed.changed and not why:
            state = "changed"
        elif state == "read" and (to := listed.cleaned.get(one.path)) is not None:
            state, why = ("archived", to) if to else ("deleted", "")
        without_offsets.pop(one.path, None)
        yield SourceFile(files.table, shown(one.path), one.offset, one.rows, read, state, why)
    for path, skipped in without_offsets.items():
        yield SourceFile(files.table, shown(path), None, 0, 0, "skipped", skipped.why)
    for path, why in listed.left_out.items():
        yield SourceFile(files.table, shown(path), None, 0, 0, "left out", why)
