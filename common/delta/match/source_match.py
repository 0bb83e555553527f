"""Compares the tables that a query reads with the history of them that it has read.

Each micro-batch notes the last commit that it has read of each source, with the digest of that commit's file:
in the metadata of its own commit, or in its checkpoint if the query writes no table. A source that was
replaced by an older copy has another commit in its place, or none, also after its log has grown past that
version again. A commit that the log's cleanup has deleted cannot be compared, and is not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from common.delta.checkpoint import delta_position_of
from common.delta.log import commit_name, latest_version
from common.delta.micro_batch import SOURCE_COMMITS
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder

_DIGITS = 16


class Source(NamedTuple):
    """A table that a query reads as a stream: its name and its path."""

    table: str
    path: str


def last_commits(positions: Sequence[Any], sources: Sequence[Source]) -> tuple[Any, ...]:
    """The last commit that is read of each source, for metadata: its table, version and digest, or None.

    Args:
        positions: How far the sources are read, in the order of ``sources``.
        sources: The tables that the query reads as streams.
    """
    return commits_at([_last_read(positions, place) for place in range(len(sources))], sources)


def commits_at(versions: Sequence[int | None], sources: Sequence[Source]) -> tuple[Any, ...]:
    """As ``last_commits``, of sources that are read up to versions, None where nothing of one is read."""
    return tuple(_entry(version, source) for version, source in zip(versions, sources, strict=True))


def source_faults(
    positions: Sequence[Any], commits: Sequence[Any], sources: Sequence[Source]
) -> Iterator[str]:
    """What is wrong with the history of a query's sources, in words; nothing where it goes on.

    Args:
        positions: How far the query has read, as its newest commit names it.
        commits: Its ``last_commits``; empty of a commit by an earlier version of the engine. Then only the
            numbers of versions are compared.
        sources: The tables that it reads as streams, in the order of its checkpoint. A declaration that
            names others than those that were read has no fault here: it is refused as a declaration.
    """
    if reads_others(commits, sources):
        return
    for place, source in enumerate(sources):
        entry = commits[place] if place < len(commits) else None
        version = _last_read(positions, place) if entry is None else int(entry["version"])
        if version is None:
            continue
        found = commit_digest(source.path, version)
        if found is not None and (entry is None or found == entry["sha256"]):
            continue
        latest = latest_version(source.path)
        if latest is None:
            continue  # the table is gone: that is found elsewhere
        if version > latest:
            yield (
                f"it has read {source.table} up to version {version}, and the table at {source.path} ends "
                f"with version {latest}: an older copy of it was restored"
            )
        elif found is not None and entry is not None:
            yield (
                f"it has read another version {version} of {source.table} than the table at {source.path} "
                f"has (commit {found}, it has read {entry['sha256']}): an older copy of it was restored, and "
                "other commits followed"
            )


def refuse_other_history(
    query: str, positions: Sequence[Any], commits: Sequence[Any], sources: Sequence[Source]
) -> None:
    """Refuse to read on in a source whose history is not the one that the query has read.

    Raises:
        CheckpointMismatchError: Names the source, and the version that differs; nothing is written.
    """
    for fault in source_faults(positions, commits, sources):
        way = (
            f"or declare the source under another name than {query}, to read it from its beginning"
            if query.startswith("bronze.")
            else f"or have {query} filled again: medallion recover {query}"
        )
        raise CheckpointMismatchError(
            f"{query}: {fault}. Going on would leave out rows, or read them a second time. Nothing was "
            f"written. Restore the newest copy, {way}"
        )


class SourceNote:
    """What a query that writes no table has read: the file ``source_commits`` of its checkpoint."""

    def __init__(self, checkpoint_path: str) -> None:
        """Take the checkpoint; nothing is read."""
        self._folder = StorageFolder(checkpoint_path)

    def write(self, positions: Sequence[Any], commits: Sequence[Any]) -> None:
        """Note the end of a micro-batch."""
        note = {"positions": list(positions), SOURCE_COMMITS: list(commits)}
        self._folder.write(SOURCE_COMMITS, json.dumps(note).encode())

    def read(self) -> Mapping[str, Any]:
        """The newest note; empty where there is none, as of an earlier version of the engine."""
        try:
            found = json.loads(self._folder.read(SOURCE_COMMITS) or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def reads_others(commits: Sequence[Any], sources: Sequence[Source]) -> bool:
    """Whether the declaration names other sources than those that were read: their histories tell nothing."""
    pairs = zip(commits, sources, strict=False)
    return any(entry is not None and entry.get("table", one.table) != one.table for entry, one in pairs)


def _entry(version: int | None, source: Source) -> dict[str, Any] | None:
    found = None if version is None else commit_digest(source.path, version)
    return None if found is None else {"table": source.table, "version": version, "sha256": found}


def _last_read(positions: Sequence[Any], place: int) -> int | None:
    """The newest version of a source of which at least one row is read; None where there is none."""
    position = delta_position_of(positions, place)
    if position is None:
        return None
    version = position.version if position.in_snapshot or position.index >= 0 else position.version - 1
    return version if version >= 0 else None


def commit_digest(path: str, version: int) -> str | None:
    """The digest of a commit's file; None where the log does not have it, or no longer."""
    content = (StorageFolder(path) / "_delta_log").read(commit_name(version))
    return hashlib.sha256(content).hexdigest()[:_DIGITS] if content else None
