"""Does this checkpoint belong to this table? Asked at every start, before anything is written.

Spark and Delta accept a checkpoint that is new, old or another table's, and then lose rows or write
them twice without a word. Each of our commits names the query and the batch that wrote it, so the
answer is in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from common.delta.checkpoint import Checkpoint
from common.delta.commit import RESTORE, Commit
from common.delta.log import LogReader
from common.errors import CheckpointMismatchError

_LOOK_BACK = 1000
"""How many commits are searched for our own: maintenance may stand between."""


def check_identity(
    table: str, table_path: str, checkpoint_path: str, *, may_begin_anew: bool = False, query: str = ""
) -> Mapping[str, Any] | None:
    """Refuse to go on where the table was written by another checkpoint, or by a later state of this one.

    ``may_begin_anew`` says that a first micro-batch takes the place of all that the table has, so that it
    may lose its checkpoint; one that has not done that yet may do it. ``query`` writes it, if not the one of
    its own name.

    Of a table without a row for longer than its log reaches back, whose commits were those of upkeep since,
    nobody can say who wrote it: it is taken to be the checkpoint's.

    Returns:
        What the table's newest commit by the query says of itself; ``None`` where there is none, or where the
        next one takes the place of all there is.

    Raises:
        CheckpointMismatchError: Says which of the two is amiss and what to do; also where a RESTORE has taken
            rows out of the table that the checkpoint counts as written.
    """
    checkpoint = Checkpoint(checkpoint_path)
    query_id, planned, committed = (
        checkpoint.query_id(),
        checkpoint.last_planned(),
        checkpoint.last_committed(),
    )
    if may_begin_anew and committed is None:
        return None
    last = last_own_commit(table_path, query or table)
    if last is None:
        is_cleaned = _is_cleaned(table_path)
        if committed is not None and not is_cleaned:
            raise CheckpointMismatchError(
                f"{table}: the checkpoint {checkpoint_path} has done micro-batches up to {committed}, but "
                f"the table at {table_path} holds none of them: it was deleted or made anew. Going on would "
                "leave its rows out. Restore the table, or move the checkpoint away too and fill both anew."
            )
        if query_id is None and is_cleaned:
            raise CheckpointMismatchError(
                f"{table}: the table at {table_path} is there, but its checkpoint {checkpoint_path} is gone, "
                "and so are the commits that say who wrote it. Starting anew would write its rows again. "
                "Restore the checkpoint, or move the table away too and fill both anew."
            )
        return None
    if query_id is None:
        raise CheckpointMismatchError(
            f"{table}: the table at {table_path} holds rows, but its checkpoint {checkpoint_path} is gone. "
            "Starting anew would write them again. Restore the checkpoint, or move the table away too and "
            "fill both anew."
        )
    if query_id != last["query_id"]:
        raise CheckpointMismatchError(
            f"{table}: the table at {table_path} was written by query {last['query_id']}, but the "
            f"checkpoint {checkpoint_path} is that of query {query_id}. Restore the checkpoint that belongs "
            "to the table."
        )
    if planned is None or last["batch_id"] > planned:
        raise CheckpointMismatchError(
            f"{table}: the table holds micro-batch {last['batch_id']}, but the checkpoint {checkpoint_path} "
            f"knows only {planned}: an older copy of it was restored. Going on would skip new rows. "
            "Restore the newest copy."
        )
    if committed is not None and last["batch_id"] < committed:
        raise CheckpointMismatchError(
            f"{table}: the checkpoint {checkpoint_path} has done micro-batches up to {committed}, but the "
            f"table at {table_path} ends with {last['batch_id']}: an older copy of it was restored. Going on "
            "would leave the rows in between out. Restore the table's newest copy, or its checkpoint of then."
        )
    if (restore := _undone_by(table_path, query or table)) is not None:
        anew = f"fill it anew with: medallion rebuild {table}, or " if may_begin_anew else ""
        raise CheckpointMismatchError(
            f"{table}: version {restore} of the table at {table_path} is a RESTORE to an older one, without "
            f"micro-batches that the checkpoint {checkpoint_path} has done. Going on would leave their rows "
            f"out. To have them back, {anew}RESTORE it to version {restore - 1}."
        )
    return last


def check_side_table(table: str, table_path: str, checkpoint_path: str, query: str) -> None:
    """Refuse to go on where the table beside a query's own is gone, or as it was before: its rows come once.

    Raises:
        CheckpointMismatchError: The checkpoint has done micro-batches, and there is no such table, or it
            was restored to a version without some of them.
    """
    committed = Checkpoint(checkpoint_path).last_committed()
    if committed is not None and (undone := _undone_by(table_path, query)) is not None:
        raise CheckpointMismatchError(
            f"{table}: version {undone} of the table at {table_path} restored it to an older version: rows "
            f"that {query} has written there are not in it, and do not come again. Restore it to version "
            f"{undone - 1}, or move the checkpoint {checkpoint_path} and its tables away and fill them anew."
        )
    if committed is not None and LogReader(table_path).latest_version() is None:
        raise CheckpointMismatchError(
            f"{table}: the checkpoint {checkpoint_path} has done micro-batches up to {committed}, but "
            f"there is no table at {table_path}: it was deleted. What it held would not come back. Restore "
            "it, or move the checkpoint and its tables away and fill them anew."
        )


def last_own_commit(table_path: str, query: str) -> dict[str, Any] | None:
    """What the newest commit of a query says of itself: query_id, batch_id, step, positions, counts.

    ``None`` where the table does not exist, or none of its newest thousand commits is the query's.
    """
    return next(own_commits(table_path, query), None)


def own_commits(table_path: str, query: str) -> Iterator[dict[str, Any]]:
    """What the commits of a query say of themselves, newest first, among the newest thousand."""
    yield from (commit.told for commit in _newest(table_path) if _is_own(commit, query))


def _undone_by(table_path: str, query: str) -> int | None:
    """The version of a RESTORE that took the query's newest commit out of the table again, if one did."""
    restores: list[Commit] = []
    last: Commit | None = None
    for commit in _newest(table_path):
        if _is_own(commit, query):
            last = commit
            break
        if commit.operation == RESTORE:
            restores.append(commit)
    if last is None or not restores:
        return None
    top = restores[0].version
    for restore in restores:
        if restore.version > top:
            continue  # undone by a later one itself
        if restore.restored_to is None or restore.restored_to < last.version:
            return restore.version
        top = restore.restored_to
    return None


def _is_cleaned(table_path: str) -> bool:
    """Whether a table is there whose log does not reach back to its first commit."""
    log = LogReader(table_path)
    return log.latest_version() is not None and log.commit(0) is None


def _is_own(commit: Commit, query: str) -> bool:
    return commit.told.get("query") == query and "query_id" in commit.told


def _newest(table_path: str) -> Iterator[Commit]:
    """The newest thousand commits, newest first."""
    log = LogReader(table_path)
    latest = log.latest_version()
    if latest is None:
        return
    for version in range(latest, max(-1, latest - _LOOK_BACK), -1):
        commit = log.commit(version)
        if commit is None:
            return
        yield commit
