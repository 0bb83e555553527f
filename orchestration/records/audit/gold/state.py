"""The versions of a gold table and of its sources that belong together: audit and script compare these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

from common.config.paths import Layout
from common.config.settings import GoldSettings
from common.declare import Aggregate, Gold, History, Join, View
from common.delta.checkpoint import DeltaPosition
from common.delta.foreign_commits import is_own
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.delta.table import FEED
from common.errors import TableError
from gold.source.left_out import LeftOut, by_the_logs, removing, told
from gold.table.declaration_marks import changed_attributes, meaning

_MOST_COMMITS = 1_000
"""Commits of a gold table that are searched for one whose micro-batch read its sources to a commit's end."""
_VERSIONS, _COVERS = "versions", "covers"


@dataclass(frozen=True, slots=True)
class GoldState:
    """A version of a gold table after a micro-batch that read each source to a commit's end."""

    version: int  # the version; what others have changed since is in it
    newest: int  # the table's newest version; a later one where a micro-batch after it ends inside a commit
    batch: MicroBatch  # the micro-batch
    metadata: Mapping[str, Any]  # the metadata of its commit
    # Per table that the query reads, in the order of its positions, the version whose rows the gold table
    # has; None: it has none.
    sources: Mapping[str, int | None]

    @property
    def left_out(self) -> str:
        """Which newer versions cannot be compared yet, in words; empty where there are none."""
        if self.newest == self.version:
            return ""
        return (
            f"version {self.version} was compared; the micro-batches of versions {self.version + 1} to "
            f"{self.newest} end inside a commit of a source, whose other rows follow"
        )


def newest_state(gold: Gold, layout: Layout) -> GoldState:
    """The newest version of a gold table whose rows follow from whole commits of its sources.

    Raises:
        TableError: There is none.
    """
    newest = LogReader(layout.table_path(gold.table)).latest_version()
    if newest is None:
        raise TableError(f"{gold.table} is not written yet")
    version = newest
    for own, metadata in own_commits(gold, layout, gold.table, newest):
        positions = tuple(metadata.get("positions") or ())
        batch = MicroBatch("", gold.table, metadata["query_id"], metadata["batch_id"], positions)
        if _is_whole(gold, layout, batch, metadata):
            return GoldState(version, newest, batch, metadata, _read_to(gold, batch, metadata))
        version = own - 1
    raise TableError(f"no commit of {gold.table} ends with a commit of its source")


def version_of(gold: Gold, layout: Layout, table: str, state: GoldState) -> int:
    """The version of one of a query's tables after the micro-batch of a state."""
    if table == gold.table:
        return state.version
    version = newest = LogReader(layout.table_path(table)).latest_version() or 0
    for own, metadata in own_commits(gold, layout, table, newest):
        if metadata["query_id"] == state.batch.query_id and metadata["batch_id"] <= state.batch.batch_id:
            break
        version = own - 1
    return version


def own_commits(
    gold: Gold, layout: Layout, table: str, last: int, most: int | None = _MOST_COMMITS
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The commits of a query's micro-batches in one of its tables up to a version, newest first."""
    log = LogReader(layout.table_path(table))
    for version in range(last, -1, -1)[:most]:
        if (commit := log.commit(version)) is None:
            return
        metadata = commit.metadata
        if metadata.get("query") == gold.table and "query_id" in metadata and "batch_id" in metadata:
            yield version, metadata


def declared_anew(gold: Gold, state: GoldState) -> str:
    """Whether a table was written by another declaration than today's, in words; empty where it was not."""
    before = state.metadata.get("declared")
    found = changed_attributes(before, meaning(gold)) if before else ()
    return f"its declaration has changed since: {', '.join(found)}" if found else ""


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why a table may rightly differ from its definition."""

    why: str  # in words
    # Per table that it reads, the versions that took rows away or changed them, which it does not follow;
    # None: rows may differ that nobody can name.
    removals: Mapping[str, Sequence[int]] | None = None
    late_until_ms: int | None = None  # the latest watermark by which rows came too late; None: none did


def excuse_of(gold: Gold, layout: Layout, state: GoldState, settings: GoldSettings) -> Excuse | None:
    """Why a table may rightly differ from its definition; None where it may not."""
    accepted = settings.accept_commits
    if taken := [one for one in accepted if one.partition("@")[0] in {gold.table, *gold.side_tables}]:
        return Excuse(f"gold.accept_commits takes {', '.join(taken)} as it is")
    if why := _of_others(gold, layout, state) or _why_kept(gold, layout, state, settings):
        return Excuse(why)
    if isinstance(gold, View):
        return None  # it follows its sources by versions, whatever they took away
    log = LogReader(layout.table_path(gold.reads))
    if gold.takes_rows_back and gold.reading.changes != "appends" and log.properties().get(FEED) == "true":
        return None
    tables = gold.streamed
    if (found := told(state.metadata)) is None:
        own = _own_of_query(gold, layout, state)
        found = by_the_logs(gold, own, [layout.table_path(table) for table in tables])
    if found is None:
        return Excuse(f"the first commits of {' or '.join((gold.table, *tables))} were cleaned away")
    return _of_left_out(layout, tables, state, found)


def _of_others(gold: Gold, layout: Layout, state: GoldState) -> str:
    """The newest version of another program in a table that is declared to have such, in words."""
    if gold.storage.foreign is None:
        return ""
    log = LogReader(layout.table_path(gold.table))
    for commit in reversed([*log.commits(log.oldest_version() or 0, state.version)]):
        if is_own(commit, gold.table):
            if commit.metadata.get("batch_id") == 0:
                break  # the first micro-batch of a query replaces all rows
        elif commit.added or commit.removed:
            return f"version {commit.version} is by another program (foreign={gold.storage.foreign!r})"
    return ""


def _of_left_out(layout: Layout, tables: Sequence[str], state: GoldState, found: LeftOut) -> Excuse | None:
    """The excuse for what a table lacks; None where it lacks nothing."""
    words, versions, are_known = [], {}, True
    for place, (table, count) in enumerate(zip(tables, found.removals, strict=True)):
        if not count:
            continue
        path, last = layout.table_path(table), state.batch.end(place)
        first = max(found.begins[place] or 0, LogReader(path).oldest_version() or 0)
        known = islice(removing(path, first, last.version if last else 0), min(count, _MOST_COMMITS))
        versions[table] = list(known)
        are_known = are_known and len(versions[table]) == count
        named = f"version {versions[table][0]}" if versions[table] else f"{count:,} versions"
        words.append(f"{named} of {table} took rows away, which it does not follow")
    if found.late:
        words.append(f"{found.late:,} rows came too late for it")
        are_known = are_known and found.late_until_ms is not None
    if not words:
        return None
    return Excuse(" and ".join(words), versions if are_known else None, found.late_until_ms)


def _own_of_query(gold: Gold, layout: Layout, state: GoldState) -> Iterator[Mapping[str, Any]]:
    """The metadata of the commits of the query that has written a state, newest first."""
    own = (each for _, each in own_commits(gold, layout, gold.table, state.version, most=None))
    return takewhile(lambda each: each["query_id"] == state.batch.query_id, own)


def _why_kept(gold: Gold, layout: Layout, state: GoldState, settings: GoldSettings) -> str:
    """Whether the table keeps rows of an earlier declaration, in words."""
    if gold.table in settings.accept_changed:
        return "gold.accept_changed keeps rows of an earlier declaration"
    for version, metadata in own_commits(gold, layout, gold.table, state.version, most=None):
        if metadata["query_id"] != state.batch.query_id:
            break  # the first micro-batch of a query replaces all rows
        before = metadata.get("declared")
        if before and (found := changed_attributes(before, meaning(gold))):
            return f"version {version} and those before are of another declaration: {', '.join(found)}"
    return ""


def _is_whole(gold: Gold, layout: Layout, batch: MicroBatch, metadata: Mapping[str, Any]) -> bool:
    """Whether a micro-batch has read each source to the end of a commit."""
    if isinstance(gold, View):
        return _VERSIONS in metadata.get("counts", {})
    for place, table in enumerate(gold.streamed):
        end = batch.end(place)
        if batch.in_commit(place):
            return False
        if end is None or not end.in_snapshot or _writes_first_state(gold, metadata, end.version):
            continue
        after = DeltaPosition(end.version + 1, -1, end.table_id, in_snapshot=False)
        if LogReader(layout.table_path(table)).backlog_between(end, after).files:
            return False
    return True


def _read_to(gold: Gold, batch: MicroBatch, metadata: Mapping[str, Any]) -> Mapping[str, int | None]:
    counts = metadata.get("counts", {})
    if isinstance(gold, View):
        return {table: counts[_VERSIONS].get(table) for table in gold.sources}
    found = {table: batch.source_version(place) for place, table in enumerate(gold.streamed)}
    if isinstance(gold, Aggregate) and counts.get(_COVERS) is not None:
        return {gold.reads: counts[_COVERS]}
    return found


def _writes_first_state(gold: Gold, metadata: Mapping[str, Any], version: int) -> bool:
    """Whether the first micro-batch of a table writes what its source has at a version, whatever it reads."""
    if isinstance(gold, History) or (isinstance(gold, Aggregate | Join) and gold.mode == "recompute"):
        return True
    return bool(metadata.get("counts", {}).get(_COVERS) == version)
