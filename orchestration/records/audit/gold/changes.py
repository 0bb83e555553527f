"""Finds changes of gold tables by other programs, in the tables' logs: a micro-batch does not undo them. And
tables whose source has gone back, and published versions from before an erasure.

A gold table has no offsets of its own to account for: it equals a computation over silver, as long as only
its query writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from common.config.paths import Layout
from common.declare import Custom, FileSink, Gold, Pipeline, Publish, Silver
from common.delta.checkpoint import Checkpoint
from common.delta.commit import Commit
from common.delta.foreign_commits import is_own
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata, lost_commits
from common.delta.match.source_match import SourceNote, source_faults
from common.delta.micro_batch import SOURCE_COMMITS
from common.delta.published_pointer import SUFFIX, read_published
from common.delta.table import ERASED
from gold.publish import published as published_files
from orchestration.access.progress.rows_read import streamed_tables
from orchestration.records.audit.gold.blame import read_for
from orchestration.records.audit.result import Fault
from orchestration.records.audit.table_log import taken_back, utc_text


def gold_faults(
    tables: Sequence[Gold], layout: Layout, *, after: Mapping[str, int], accepted: Collection[str]
) -> tuple[tuple[Fault, ...], Mapping[str, int]]:
    """Changes by others in gold tables.

    Args:
        after: Per table, the version at which an earlier audit found no such change.
        accepted: Commits that the operator has accepted, as ``gold.latest@9``.

    Returns:
        The faults, and the version of each table up to which its log was read.
    """
    faults: list[Fault] = []
    versions: dict[str, int] = {}
    for gold in tables:
        for table in (gold.table, *gold.side_tables):
            log = LogReader(layout.table_path(table))
            latest, oldest = log.latest_version(), log.oldest_version()
            if latest is None or oldest is None:
                continue
            versions[table] = latest
            begin = max(oldest, after.get(table, -1) + 1)
            changes = _changes(log, begin, latest, gold)
            found = [one for one in changes if not is_declared(gold, table, one)]
            faults += [_fault(gold, table, one) for one in found if f"{table}@{one.version}" not in accepted]
    return tuple(faults), versions


def is_declared(gold: Gold, table: str, commit: Commit) -> bool:
    """Whether a commit of another program in a gold table is one that the declaration says there are."""
    foreign = gold.storage.foreign if table == gold.table else None
    return foreign == "changes" or (foreign == "appends" and not commit.is_change)


def history_faults(silver: Silver, tables: Sequence[Gold], layout: Layout) -> Iterator[Fault]:
    """Tables without their newest commits, and those whose query has read another history of its source.

    Such a table may lack rows, or have them twice, although every offset has its place.

    Args:
        silver: The silver table, which is asked itself.
    """
    for gold in tables:
        path, checkpoint = layout.table_path(gold.table), layout.checkpoint_path(gold.table)
        if (lost := lost_commits(gold.table, path, checkpoint)) is not None:
            yield Fault("lost commit", lost, table=gold.table, command=lost.rpartition(". ")[2])
    for declared in (silver, *tables):
        last = last_commit_metadata(layout.table_path(declared.table), declared.table) or {}
        positions, commits = last.get("positions") or (), last.get(SOURCE_COMMITS) or ()
        for fault in source_faults(positions, commits, streamed_tables(layout, declared)):
            command = f"Have it filled again: medallion recover {declared.table}"
            text = f"{declared.table}: {fault}. {command}"
            yield Fault("history", text, table=declared.table, command=command)


def publication_faults(publications: Sequence[Publish], layout: Layout) -> Iterator[Fault]:
    """Publications that are not what they have read.

    Files are compared with their manifests, those with the checkpoint and the commits of the source. What was
    sent elsewhere cannot be read here: of such a publication the history of its source is compared.
    """
    for publish in publications:
        for text in _published_texts(layout, publish):
            command = f"Go on with: medallion recover {publish.table}"
            told = f"{publish.table}: {text}. {command}"
            yield Fault("publication", told, table=publish.table, command=command)


def published(pipeline: Pipeline, silver: Silver, tables: Sequence[Gold]) -> tuple[Publish, ...]:
    """The publications of a silver table, of tables beside it, and of these gold tables."""
    names = {name for one in (silver, *tables) for name in (one.table, *one.side_tables)}
    return tuple(one for one in pipeline.publish if one.reads in names)


def _published_texts(layout: Layout, declared: Publish) -> Iterator[str]:
    """What is wrong with what a publication has written, in words."""
    checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
    sources = streamed_tables(layout, declared)
    if isinstance(declared.to, FileSink):
        yield from published_files.publication_faults(declared, checkpoint, sources)
        yield from published_files.PublishedFiles(declared.to.folder).file_faults()
    else:
        note = SourceNote(checkpoint.path).read()
        yield from source_faults(note.get("positions") or (), note.get(SOURCE_COMMITS) or (), sources)


def made_of(pipeline: Pipeline, silver: Silver, covered: Collection[str] = ()) -> tuple[Gold, ...]:
    """The gold tables that are made of a silver table or of a table beside it, directly or not.

    Args:
        covered: Other silver tables; what is made of these is left out.
    """
    found = ((gold, read_for(pipeline, gold.table)) for gold in pipeline.gold)
    return tuple(gold for gold, read in found if silver.table in read and read.isdisjoint(covered))


def published_faults(pipeline: Pipeline, silver: Silver, layout: Layout) -> Iterator[Fault]:
    """Published versions of gold tables that are older than the last erasure, or not the table's any more."""
    erased_at = LogReader(layout.table_path(silver.table)).properties().get(ERASED)
    made = {gold.table for gold in made_of(pipeline, silver)}
    for suite in pipeline.quality:
        path = layout.table_path(suite.table)
        is_made = suite.gate == "publish" and suite.table in made
        if not is_made or (pointer := read_published(path)) is None:
            continue
        if why := pointer.fault(path):
            text = f"{suite.table}{SUFFIX}: {why}: an older copy of the table was restored"
            yield Fault("published", text)
            continue
        commit = LogReader(path).commit(pointer.version)
        if erased_at and (commit is None or commit.timestamp < datetime.fromisoformat(erased_at)):
            yield Fault(
                "erased",
                f"readers of {suite.table}{SUFFIX} get version {pointer.version}, which is older than the "
                f"erasure of {erased_at} in {silver.table}. A newer version is published once it passes its "
                f"suite; see: medallion quality run {suite.table}",
            )


def _changes(log: LogReader, begin: int, latest: int, gold: Gold) -> tuple[Commit, ...]:
    """Changes by others that the newest version still has.

    The first micro-batch of a query replaces all rows, and a RESTORE brings back the state of its version.
    """
    found = (log.commit(version) for version in range(begin, latest + 1))
    commits = [one for one in found if one is not None]  # the log's cleanup may delete some meanwhile
    gone, now = taken_back(commits), list[Commit]()
    for commit in commits:
        if commit.version in gone:
            continue
        if not is_own(commit, gold.table):
            now += [commit] if commit.added or commit.removed else []
        elif commit.metadata.get("batch_id") == 0 and not isinstance(gold, Custom):
            now = []
    return tuple(now)


def _fault(gold: Gold, table: str, commit: Commit) -> Fault:
    who = ", ".join(text for text in (commit.user, commit.engine) if text) or "an unnamed writer"
    return Fault(
        "changed",
        f"{table} version {commit.version} ({commit.operation}, {utc_text(commit.timestamp)}, by {who}) "
        "changed rows, and the table's own query has not written it. To take it as it is: "
        f"gold.accept_commits='[\"{table}@{commit.version}\"]'",
        table=gold.table,
    )
