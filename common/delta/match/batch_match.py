"""Compares a checkpoint with the commits of its query, micro-batch by micro-batch, before a query starts.

A commit repeats the positions of its micro-batch word by word, and names the newest micro-batch that wrote
each side table. So an edited position, an older copy of a side table and a half-written micro-batch are
refused. ``common.delta.match.checkpoint_match`` compares the numbers of the micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

from common.delta.checkpoint import Checkpoint, PlannedBatch
from common.delta.match.checkpoint_match import (
    commits_metadata,
    is_log_cleaned,
    is_out_of_sight,
    last_commit_metadata,
)
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError

BESIDE = "beside"
"""The entry of a commit's metadata with the newest micro-batch of each step that writes a side table."""
REBUILT = "rebuilt"
"""The entry in the metadata of a commit that has put the rows of another query into the table: ``counted``
says whether its counts are those of all rows that this query has read."""

_COMPARED = 20
"""How many of the newest micro-batches are compared: a query starts from the newest, and replays at most "
"one."""


@dataclass(frozen=True, slots=True)
class SideStep:
    """A step of a query's micro-batches that not every micro-batch has."""

    step: str  # the step, such as ``quarantine``
    table: str  # the table that the step writes
    path: str  # the table's path
    counts: tuple[str, ...] = ()  # names of counts; a micro-batch has the step if one of them is above zero


class StepHistory:
    """Remembers the newest micro-batch of each step that writes a side table, for the metadata of commits."""

    def __init__(self, table_path: str, side_paths: Mapping[str, str]) -> None:
        """Take the path of the query's table and, by step, the path of the side table."""
        self._path, self._side_paths = table_path, side_paths
        self._newest: dict[str, int] | None = None

    def with_steps(self, batch: MicroBatch, written: Mapping[str, bool]) -> MicroBatch:
        """The micro-batch, its commits naming the newest micro-batch of each step.

        Args:
            written: Whether the micro-batch has each step.
        """
        if self._newest is None:
            self._newest = self._before(batch)
        self._newest |= {step: batch.batch_id for step, is_written in written.items() if is_written}
        return replace(batch, facts={**batch.facts, BESIDE: dict(self._newest)})

    def _before(self, batch: MicroBatch) -> dict[str, int]:
        for metadata in commits_metadata(self._path, batch.query):
            if metadata["query_id"] != batch.query_id:
                break
            if metadata["batch_id"] < batch.batch_id:
                found = metadata.get(BESIDE)
                return self._in_side_tables(batch) if found is None else dict(found)
        return {}

    def _in_side_tables(self, batch: MicroBatch) -> dict[str, int]:
        """The newest micro-batches that the side tables have: earlier versions of the engine named none."""
        last = {step: last_commit_metadata(path, batch.query) for step, path in self._side_paths.items()}
        return {
            step: int(one["batch_id"])
            for step, one in last.items()
            if one is not None and one["query_id"] == batch.query_id and one["batch_id"] < batch.batch_id
        }


def check_positions(table: str, table_path: str, checkpoint_path: str) -> None:
    """Refuse a checkpoint whose positions are not those that the table's commits name.

    The newest micro-batches that both have are compared, and the one that is planned with the one before. A
    micro-batch that neither has, before a later one that is planned, is refused too: Spark runs the newest.
    So is one that the table lacks between others: an older copy was put back, and the query wrote on.

    Raises:
        CheckpointMismatchError: Names the micro-batch, and both positions of the first source that differs.
    """
    checkpoint = Checkpoint(checkpoint_path)
    query_id, planned = checkpoint.query_id(), checkpoint.last_planned()
    if planned is None:
        return
    newest, after = -1, None
    batches = list(own_batches(table_path, table, query_id))
    if (first := _lacked_before(table_path, batches)) is not None:
        raise CheckpointMismatchError(_lacking(table, table_path, -1, first))
    for batch_id, commits in batches:
        if after is not None and batch_id < after - 1:
            raise CheckpointMismatchError(_lacking(table, table_path, batch_id, after))
        newest, after = max(newest, batch_id), batch_id
        positions = commits[0].get("positions")
        entry = checkpoint.planned_batch(batch_id)
        if entry is None:
            if batch_id != newest or not positions:
                break  # Spark deletes the oldest entries
            raise CheckpointMismatchError(_empty_entry(table, checkpoint_path, f"offsets/{batch_id}"))
        if positions and list(entry.sources) != list(positions):
            raise CheckpointMismatchError(
                _other_positions(table, table_path, checkpoint_path, entry, tuple(positions))
            )
    committed = checkpoint.last_committed()
    done = max(newest, -1 if committed is None else committed)
    if planned > done + 1 and not (newest < 0 and is_out_of_sight(table_path)):
        raise CheckpointMismatchError(_skipped(table, table_path, checkpoint_path, done + 1, planned))
    _check_planned(table, checkpoint, planned, newest, committed)


def _lacked_before(table_path: str, batches: Sequence[_Batch]) -> int | None:
    """The first micro-batch of a table whose whole log lacks those before; None where it lacks none.

    A rebuild begins with the last micro-batch of its shadow, which wrote those before.
    """
    if not batches or len(batches) == _COMPARED or is_out_of_sight(table_path):
        return None
    first, commits = batches[-1]
    return None if first == 0 or any(REBUILT in one for one in commits) else first


def _check_planned(
    table: str, checkpoint: Checkpoint, planned: int, newest: int, committed: int | None
) -> None:
    """Refuse entries of the newest micro-batches that are empty, or that go back."""
    if committed is not None and not checkpoint.is_committed(committed):
        raise CheckpointMismatchError(_empty_entry(table, checkpoint.path, f"commits/{committed}"))
    if planned <= newest:
        return
    entry, before = checkpoint.planned_batch(planned), checkpoint.planned_batch(planned - 1)
    if entry is None:
        raise CheckpointMismatchError(_empty_entry(table, checkpoint.path, f"offsets/{planned}"))
    if before is not None and (where := goes_back(entry, before)) is not None:
        raise CheckpointMismatchError(
            f"{table}: {checkpoint.path}/offsets/{planned} ends before offsets/{planned - 1} does: {where}. "
            "The entry was edited or damaged. Going on would read rows a second time. Nothing was written. "
            f"Take the entry out, so that micro-batch {planned} is planned again: medallion recover {table}"
        )


def goes_back(entry: PlannedBatch, before: PlannedBatch) -> str | None:
    """The partitions where a micro-batch ends below its predecessor, in words; None if there are none."""
    for place, end, start in _differences(entry.sources, before.sources):
        if end < start:
            return f"{place} at {_text(end)}, before at {_text(start)}"
    return None


def check_steps(table: str, table_path: str, checkpoint_path: str, steps: Sequence[SideStep]) -> None:
    """Refuse a table of a query that lacks a step of a micro-batch which the checkpoint has committed.

    Raises:
        CheckpointMismatchError: Names the table, the step, and the micro-batch that has written it.
    """
    checkpoint = Checkpoint(checkpoint_path)
    query_id, committed = checkpoint.query_id(), checkpoint.last_committed()
    if committed is None or not steps:
        return
    batches = [one for one in own_batches(table_path, table, query_id) if one[0] <= committed]
    for side in steps:
        expected = _newest_with(side, batches)
        if side.path != table_path and (lost := _lost_between(side, table, query_id, batches)) is not None:
            raise CheckpointMismatchError(_lacking_side(side, table, lost, checkpoint_path))
        if side.path == table_path:
            lacking = next((b for b, commits in batches if _lacks(side, commits)), None)
            if lacking is not None:
                raise CheckpointMismatchError(_half(side, table, lacking, checkpoint_path))
        elif expected is not None and (found := _newest_in(side, table, query_id)) < expected:
            raise CheckpointMismatchError(_older(side, table, found, expected, checkpoint_path))


_Batch = tuple[int, list[dict[str, Any]]]


def own_batches(table_path: str, query: str, query_id: str | None) -> Iterator[_Batch]:
    """The newest micro-batches of a query in its table, newest first, each with its commits' metadata."""
    own = (one for one in commits_metadata(table_path, query) if one["query_id"] == query_id)
    for batch_id, commits in islice(groupby(own, key=lambda one: int(one["batch_id"])), _COMPARED):
        yield batch_id, list(commits)


def _has(side: SideStep, metadata: Mapping[str, Any]) -> bool:
    counts = metadata.get("counts") or {}
    return any(int(counts.get(name) or 0) > 0 for name in side.counts)


def _lacks(side: SideStep, commits: Sequence[Mapping[str, Any]]) -> bool:
    return any(_has(side, one) for one in commits) and all(one.get("step") != side.step for one in commits)


def _newest_with(side: SideStep, batches: Sequence[_Batch]) -> int | None:
    """The newest committed micro-batch that has written a step, as far as the query's commits say."""
    found = [batch_id for batch_id, commits in batches if any(_has(side, one) for one in commits)]
    if batches:
        named = batches[0][1][0].get(BESIDE) or {}
        found += [int(named[side.step])] if side.step in named else []
    return max(found, default=None)


def _newest_in(side: SideStep, query: str, query_id: str | None) -> int:
    """The newest micro-batch of a query in a side table; -1 where there is none."""
    last = last_commit_metadata(side.path, query)
    if last is None and is_log_cleaned(side.path):
        return 2**63  # the log no longer says
    return int(last["batch_id"]) if last is not None and last["query_id"] == query_id else -1


def _lost_between(side: SideStep, query: str, query_id: str | None, batches: Sequence[_Batch]) -> int | None:
    """A micro-batch of which a side table lacks the rows, between others that it has; None if there is none.

    An older copy of the side table was put back, and the query wrote on.
    """
    there = [batch_id for batch_id, _ in own_batches(side.path, query, query_id)]
    is_whole = len(there) < _COMPARED and not is_out_of_sight(side.path)
    oldest, newest = 0 if is_whole else min(there, default=0), max(there, default=-1)
    with_rows = (batch_id for batch_id, commits in batches if any(_has(side, one) for one in commits))
    return next((one for one in with_rows if oldest <= one < newest and one not in there), None)


def _differences(
    ours: Sequence[Any], theirs: Sequence[Any]
) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Positions that differ, where both have one: the place in the source, and both as comparable numbers."""
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if isinstance(one, int) and isinstance(other, int) and one != other:
            yield f"source {number}", (one,), (other,)
        if not isinstance(one, Mapping) or not isinstance(other, Mapping) or one == other:
            continue
        if "reservoirVersion" in one and "reservoirVersion" in other:
            mine, its = _delta(one), _delta(other)
            if mine != its:
                yield f"source {number}", mine, its
            continue
        for topic, partitions in one.items():
            if not isinstance(partitions, Mapping) or not isinstance(other.get(topic), Mapping):
                continue
            for partition, end in partitions.items():
                before = other[topic].get(partition)
                if before is not None and before != end:
                    yield f"{topic}/{partition}", (int(end),), (int(before),)


def _delta(position: Mapping[str, Any]) -> tuple[int, ...]:
    in_commits = not position.get("isStartingVersion")
    return int(position["reservoirVersion"]), int(in_commits), int(position.get("index", -1))


def _text(position: tuple[int, ...]) -> str:
    """A position for a message: an offset, or a version of a table with the index of a file."""
    if len(position) == 1:
        return f"offset {position[0]}"
    return f"version {position[0]}" + (f", file {position[2]}" if position[2] >= 0 else "")


def _other_positions(
    table: str, table_path: str, checkpoint_path: str, entry: PlannedBatch, positions: tuple[Any, ...]
) -> str:
    found = next(_differences(entry.sources, positions), None)
    what, effect = "the sources differ", "leave rows out or read them a second time"
    if found is not None:
        place, mine, its = found
        what = f"{place} ends at {_text(mine)} in the checkpoint, at {_text(its)} in the table"
        ways = ("read again", "leave out")
        effect = f"{ways[mine > its]} what lies between them"
    return (
        f"{table}: {checkpoint_path}/offsets/{entry.batch_id} has other positions than the commit of "
        f"micro-batch {entry.batch_id} in the table at {table_path}: {what}. The checkpoint was edited or "
        f"damaged. Going on would {effect}. Nothing was written. Write the table's positions into the "
        f"checkpoint: medallion recover {table}"
    )


def _skipped(table: str, table_path: str, checkpoint_path: str, lost: int, planned: int) -> str:
    return (
        f"{table}: the checkpoint {checkpoint_path} has planned micro-batch {planned}, but neither its "
        f"folder commits nor the table at {table_path} has micro-batch {lost}: both were lost, as in a power "
        f"cut. Spark would go on with {planned} and leave the rows before it out. Nothing was written. Have "
        f"micro-batch {lost} run: medallion recover {table}"
    )


def _lacking(table: str, table_path: str, before: int, after: int) -> str:
    lost = (
        f"micro-batch {before + 1}" if after == before + 2 else f"micro-batches {before + 1} to {after - 1}"
    )
    way = (
        f"or have it filled again: medallion recover {table}"
        if not table.startswith("bronze.")
        else f"or see what can be done without one: medallion recover {table} --plan"
    )
    return (
        f"{table}: the table at {table_path} has no commit of {lost}, and has one of micro-batch {after}: an "
        "older copy of it was put back while the query was running. Going on would leave out the rows in "
        f"between. Nothing was written. Restore the table's newest copy, {way}"
    )


def _lacking_side(side: SideStep, query: str, lost: int, checkpoint_path: str) -> str:
    return (
        f"{side.table}: micro-batch {lost} of {query} has written rows into the table, but the table at "
        f"{side.path} has none of it, and has later ones: an older copy of it was put back while the query "
        f"was running. The checkpoint {checkpoint_path} counts the rows as written. Nothing was written. "
        "Restore the table's newest copy, or have the tables of the query filled again: medallion recover "
        f"{query}"
    )


def _empty_entry(table: str, checkpoint_path: str, name: str) -> str:
    return (
        f"{table}: {checkpoint_path}/{name} is gone or empty: the checkpoint was damaged, or the disk was "
        f"full. Nothing was written. Repair the checkpoint by the table's commits: medallion recover {table}"
    )


def _half(side: SideStep, query: str, batch_id: int, checkpoint_path: str) -> str:
    return (
        f"{side.table}: the checkpoint {checkpoint_path} has committed micro-batch {batch_id}, but the table "
        f"at {side.path} lacks the step {side.step!r} of it: an older copy of the table was restored. Going "
        "on would leave out the rows of that step. Nothing was written. Restore the table's newest copy, or "
        f"have the tables of the query filled again: medallion recover {query}"
    )


def _older(side: SideStep, query: str, found: int, expected: int, checkpoint_path: str) -> str:
    ends = f"ends with micro-batch {found}" if found >= 0 else "has no micro-batch"
    rebuild = f"fill both again: medallion rebuild {query}" if query.startswith("gold.") else (
        f"have the tables of the query filled again: medallion recover {query}"
    )  # fmt: skip
    return (
        f"{side.table}: micro-batch {expected} of {query} has written rows into the table, but the table at "
        f"{side.path} {ends} of {query}: an older copy of it was restored. The checkpoint {checkpoint_path} "
        "counts the rows in between as written. Nothing was written. Restore the table's newest copy, or "
        f"{rebuild}."
    )
