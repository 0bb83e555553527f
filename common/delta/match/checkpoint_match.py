"""Checks at every start, before anything is written, that a checkpoint and a table belong together.

Spark and Delta accept a checkpoint that is new, old or another table's, and then lose rows or write them
twice without an error. Each commit of the engine records its query's id and micro-batch, so the table itself
says which checkpoint has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from common.delta.checkpoint import Checkpoint
from common.delta.commit import RESTORE, Commit
from common.delta.log import LogReader, commit_name
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder

_RESTORE = RESTORE.encode()
_MOST_COMMITS = 1000
"""How many commits are searched for one by the query; commits of maintenance may come after it."""


def check_checkpoint(  # noqa: PLR0913
    table: str,
    table_path: str,
    checkpoint_path: str,
    *,
    may_begin_anew: bool = False,
    query: str = "",
    is_shared: bool = False,
) -> Mapping[str, Any] | None:
    """Refuse a table that another checkpoint has written, or a later state of this checkpoint.

    If the log no longer holds any commit by a query (only commits of maintenance remain), ownership cannot be
    checked and is assumed.

    Args:
        may_begin_anew: The query's first micro-batch replaces all rows of the table, so that a query which
            has not committed one may start without its checkpoint.
        query: The query that writes the table; empty: the query of the table's own name.
        is_shared: Another query writes the table too.

    Returns:
        The metadata of the query's newest commit; ``None`` where there is none, or where the next
        micro-batch replaces all rows.

    Raises:
        CheckpointMismatchError: Names the table or the checkpoint as the wrong one, and what to do; also
            where a RESTORE has removed rows that the checkpoint counts as written.
    """
    found = _start(table, table_path, checkpoint_path, query or table, may_begin_anew=may_begin_anew)
    last = found.last
    if may_begin_anew and found.committed is None and not found.has_lost_entries:
        _refuse_foreign_rows(found)
        return None
    if last is None and is_shared and is_out_of_sight(table_path):
        return None
    refusals = _WITHOUT_OWN_COMMIT if last is None else _WITH_OWN_COMMIT
    for applies, message in refusals:
        if applies(found):
            raise CheckpointMismatchError(f"{table}: {message.format(start=found)}")
    return last


def lost_commits(table: str, table_path: str, checkpoint_path: str) -> str | None:
    """The refusal of a table that ends before micro-batches which its checkpoint has committed; else None.

    A job may write meanwhile: the checkpoint is read before the table.
    """
    found = _start(table, table_path, checkpoint_path, table, may_begin_anew=False)
    if found.last is None or found.query_id != found.last_id or not _ends_early(found):
        return None
    return f"{table}: {_ENDS_EARLY.format(start=found)}"


def _start(table: str, table_path: str, checkpoint_path: str, query: str, *, may_begin_anew: bool) -> _Start:
    checkpoint = Checkpoint(checkpoint_path)
    found = _Start(
        table=table,
        table_path=table_path,
        checkpoint_path=checkpoint_path,
        query=query,
        query_id=checkpoint.query_id(),
        planned=checkpoint.last_planned(),
        committed=checkpoint.last_committed(),
        may_begin_anew=may_begin_anew,
        last=None,
    )
    return replace(found, last=last_commit_metadata(table_path, query))


@dataclass(frozen=True, slots=True)
class _Start:
    """What is known when a query starts."""

    table: str  # the table's full name
    table_path: str
    checkpoint_path: str  # the checkpoint's path
    query: str  # the query that writes the table
    query_id: str | None  # the id in the checkpoint; None where there is no checkpoint
    planned: int | None  # the newest micro-batch that the checkpoint has planned
    committed: int | None  # the newest micro-batch that the checkpoint has committed
    may_begin_anew: bool  # whether the query's first micro-batch replaces all rows
    last: Mapping[str, Any] | None  # metadata of the query's newest commit

    @property
    def last_id(self) -> str:
        """Query id in the newest commit."""
        return str(self.last["query_id"]) if self.last else ""

    @property
    def last_batch(self) -> int:
        """Micro-batch of the newest commit."""
        return int(self.last["batch_id"]) if self.last else -1

    @property
    def has_lost_entries(self) -> bool:
        """Whether the table has micro-batches of this very query that the checkpoint does not know.

        The query would number other rows like them, and leave those out as written.
        """
        return self.last_id == self.query_id and self.last_batch > (
            -1 if self.planned is None else self.planned
        )

    @property
    def planned_text(self) -> str:
        """The newest micro-batch that the checkpoint has planned, in words."""
        return "none" if self.planned is None else f"only {self.planned}"

    @property
    def restore(self) -> int | None:
        """Version of a RESTORE that has removed micro-batches which the checkpoint has committed."""
        return _undoing_restore(self.table_path, self.query)

    @property
    def recovery(self) -> str:
        """The command that makes a checkpoint again, or the table with it."""
        if self.table.startswith("bronze."):
            return f", or write it again: medallion recover {self.table}"
        return f", or have the table filled again: medallion recover {self.table}"

    @property
    def way_back(self) -> str:
        """Commands that bring back the rows that a RESTORE has removed, for an error message."""
        if self.table.startswith("silver."):  # a RESTORE back would bring rows twice to what reads appends
            return f"have it filled again: medallion recover {self.table}"
        rebuild = f"rebuild it with: medallion rebuild {self.table}, or " if self.may_begin_anew else ""
        if _has_written_since(self.table_path, self.query, self.restore or 0):
            return rebuild.removesuffix(", or ") or f"have it filled again: medallion recover {self.table}"
        return f"{rebuild}RESTORE it to version {(self.restore or 0) - 1}"


_Refusals = tuple[tuple[Callable[[_Start], bool], str], ...]
"""Conditions, the first that applies counts, each with the message of the error."""


def _ends_early(start: _Start) -> bool:
    return start.committed is not None and start.last_batch < start.committed


_ENDS_EARLY = (
    "the checkpoint {start.checkpoint_path} has committed micro-batches up to {start.committed}, but the "
    "table at {start.table_path} ends with {start.last_batch}: an older copy of it was restored. Going on "
    "would leave out the rows in between. Restore the table's newest copy{start.recovery}"
)

_WITHOUT_OWN_COMMIT: _Refusals = (
    (
        lambda start: start.committed is not None and not is_log_cleaned(start.table_path),
        (
            "the checkpoint {start.checkpoint_path} has committed micro-batches up to "
            "{start.committed}, but the table at {start.table_path} holds none of them: it was "
            "deleted or created again. Going on would leave its rows out. Restore the table, or have it "
            "filled again: medallion recover {start.table}"
        ),
    ),
    (
        lambda start: start.query_id is None and is_log_cleaned(start.table_path),
        (
            "there is a table at {start.table_path}, but its checkpoint {start.checkpoint_path} is "
            "gone, and so are the commits that say who wrote it. Starting without it would write the "
            "table's rows again. Restore the checkpoint{start.recovery}"
        ),
    ),
)

_WITH_OWN_COMMIT: _Refusals = (
    (
        lambda start: start.query_id is None and start.planned is not None,
        (
            "the checkpoint {start.checkpoint_path} lacks its file metadata with the query's id, "
            "{start.last_id}. Restore the file, or write it again by the table's commits: medallion recover "
            "{start.table}"
        ),
    ),
    (
        lambda start: start.query_id is None,
        (
            "the table at {start.table_path} holds rows, but its checkpoint {start.checkpoint_path} "
            "is gone. Starting without it would write the rows again. Restore the "
            "checkpoint{start.recovery}"
        ),
    ),
    (
        lambda start: start.query_id != start.last_id,
        (
            "the table at {start.table_path} was written by query {start.last_id}, but the checkpoint"
            " {start.checkpoint_path} is that of query {start.query_id}. Restore the checkpoint that "
            "belongs to the table."
        ),
    ),
    (
        lambda start: start.planned is None or start.last_batch > start.planned,
        (
            "the table holds micro-batch {start.last_batch}, but the checkpoint "
            "{start.checkpoint_path} has planned {start.planned_text}: an older copy of it was restored, or "
            "its entries were deleted. Going on would skip new rows. Restore the newest copy{start.recovery}."
        ),
    ),
    (_ends_early, _ENDS_EARLY),
    (
        lambda start: start.restore is not None,
        (
            "version {start.restore} of the table at {start.table_path} is a RESTORE to an older one,"
            " without micro-batches that the checkpoint {start.checkpoint_path} has committed. Going "
            "on would leave out their rows. To have the rows back, {start.way_back}."
        ),
    ),
)


def _refuse_foreign_rows(start: _Start) -> None:
    """Refuse to replace rows that the query has not written."""
    if start.last is not None or is_out_of_sight(start.table_path):
        return
    found = LogReader(start.table_path).snapshot()
    if found is not None and found.rows != 0:
        raise CheckpointMismatchError(
            f"{start.table}: the table at {start.table_path} holds rows that no query of this name has "
            "written, and the first micro-batch would replace them. Nothing was written. Give the table of "
            "the pipeline another name, or move the other table away."
        )


def check_side_table(table: str, table_path: str, checkpoint_path: str, query: str) -> None:
    """Refuse to start a query whose side table is gone or restored: its rows are written only once.

    Raises:
        CheckpointMismatchError: The checkpoint has committed micro-batches, and there is no such table, or
            it was restored to a version without some of them.
    """
    committed = Checkpoint(checkpoint_path).last_committed()
    if committed is None:
        return
    if (restore := _undoing_restore(table_path, query)) is not None:
        has_more = _has_written_since(table_path, query, restore)
        back = "H" if has_more else f"Restore it to version {restore - 1}, or h"
        raise CheckpointMismatchError(
            f"{table}: version {restore} of the table at {table_path} is a RESTORE to an older one: rows "
            f"that {query} has written there are not in it, and are not written again. {back}ave all tables "
            f"of the query filled again: medallion recover {query}"
        )
    if LogReader(table_path).latest_version() is None:
        raise CheckpointMismatchError(
            f"{table}: the checkpoint {checkpoint_path} has committed micro-batches up to {committed}, but "
            f"there is no table at {table_path}: it was deleted, and its rows are not written again. Restore "
            f"it, or have all tables of the query filled again: medallion recover {query}"
        )


def last_commit_metadata(table_path: str, query: str) -> dict[str, Any] | None:
    """Metadata of a query's newest commit: query_id, batch_id, step, positions, counts.

    ``None`` where the table does not exist, or none of its newest thousand commits is the query's.
    """
    return next(commits_metadata(table_path, query), None)


def commits_metadata(table_path: str, query: str) -> Iterator[dict[str, Any]]:
    """Metadata of a query's commits, newest first, among the newest thousand."""
    yield from (commit.metadata for commit in _newest_commits(table_path) if _is_by(commit, query))


def _undoing_restore(table_path: str, query: str) -> int | None:
    """The version of a RESTORE that removed a micro-batch of a query, if one did.

    All micro-batches of the query are looked at: those of the newest may have been written after the RESTORE.
    A commit whose step was written again since is not looked at.
    """
    restores: list[Commit] = []
    seen: set[tuple[Any, Any]] = set()
    newest: Mapping[str, Any] | None = None
    for commit in _newest_commits(table_path) if _has_restore(table_path) else ():
        if commit.operation == RESTORE:
            restores.append(commit)
        if not _is_by(commit, query):
            continue
        metadata = commit.metadata
        newest = newest or metadata
        if metadata["query_id"] != newest["query_id"]:
            break
        step = metadata["batch_id"], metadata.get("step")
        if step not in seen and (found := _removing(restores, commit.version)) is not None:
            return found
        seen.add(step)
    return None


def _has_restore(table_path: str) -> bool:
    """Whether one of a table's newest commits may be a RESTORE; most tables have none, and none is parsed."""
    latest = LogReader(table_path).latest_version()
    log = StorageFolder(table_path) / "_delta_log"
    for version in () if latest is None else range(latest, max(-1, latest - _MOST_COMMITS), -1):
        content = log.read(commit_name(version))
        if content is None:
            break
        if _RESTORE in content:
            return True
    return False


def _removing(restores: Sequence[Commit], version: int) -> int | None:
    """The version of the RESTORE, of those after a commit, newest first, that has removed the commit."""
    top = restores[0].version if restores else 0
    for restore in restores:
        if restore.version > top:
            continue  # a later RESTORE has undone this one
        if restore.restored_to is None or restore.restored_to < version:
            return restore.version
        top = restore.restored_to
    return None


def _has_written_since(table_path: str, query: str, version: int) -> bool:
    """Whether a query has written a table since a version, so that a RESTORE would take those rows away."""
    newest = next((commit for commit in _newest_commits(table_path) if _is_by(commit, query)), None)
    return newest is not None and newest.version > version


def is_log_cleaned(table_path: str) -> bool:
    """Whether there is a table whose log no longer reaches back to its first commit."""
    log = LogReader(table_path)
    return log.latest_version() is not None and log.commit(0) is None


def is_out_of_sight(table_path: str) -> bool:
    """Whether a table has so many commits, or so few left, that one by a query may not be found."""
    latest = LogReader(table_path).latest_version()
    return latest is not None and (latest >= _MOST_COMMITS or is_log_cleaned(table_path))


def _is_by(commit: Commit, query: str) -> bool:
    return commit.metadata.get("query") == query and "query_id" in commit.metadata


def _newest_commits(table_path: str) -> Iterator[Commit]:
    """The newest thousand commits, newest first."""
    log = LogReader(table_path)
    latest = log.latest_version()
    if latest is None:
        return
    for version in range(latest, max(-1, latest - _MOST_COMMITS), -1):
        commit = log.commit(version)
        if commit is None:
            return
        yield commit
