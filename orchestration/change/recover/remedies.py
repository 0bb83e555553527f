"""Plans the recovery of a pipeline: what is gone or damaged, what is left, and how it is made again.

========================================  ========================  ==========================================
gone or damaged                           left                      made again
========================================  ========================  ==========================================
bronze: checkpoint, or entries of it      its table                 ``repair``: the positions of its commits
bronze of files: the list of files        the table's rows          ``repair``: the files and offsets of the
                                                                    rows; the last file is counted again
bronze: newest commits of the table       the topic, older commits  ``repair``: the checkpoint goes back to
                                                                    the table's newest micro-batch, and
                                                                    Kafka's records are read again from there
silver, gold: positions in the            the table, the state      ``repair``: the positions of its commits
checkpoint, empty entries
silver with ``dedupe="exact"``:           its table (no state)      ``repair``
checkpoint
silver: checkpoint or state               bronze                    ``refill``: the state has keys that silver
                                                                    alone does not show; where records have
                                                                    expired in bronze, refused: a rebuild
                                                                    keeps their rows
silver, its quarantine or its late rows   bronze                    ``refill``: all three by one judging, so
                                                                    that each offset is in one place
gold: checkpoint or state                 silver                    ``rebuild``: the first micro-batch of a
                                                                    new checkpoint replaces all rows
gold: the table or a side table           silver                    ``refill``
a source that is filled again             that source               ``refill`` or ``rebuild``: the reader's
                                                                    positions name commits that are gone
publication to files: its checkpoint or   the folder, that source   ``repair``: the checkpoint goes to the
its folder is an older copy                                         newest micro-batch of the folder
publication: its source is filled again,  that source               ``publish again``: every row once more, a
or a file of it is gone or cut off, and                             folder of files is moved aside
the publication is named
========================================  ========================  ==========================================

``refill`` moves the tables and the checkpoint of a query aside, under ``<path>__before_<time>``, and the next
start of the job fills them from the source. ``rebuild`` moves only the checkpoint aside. Nothing is deleted.

Each step leaves a pipeline that a start refuses or that is right, and is found again by the next plan: a
recovery that was killed is finished by the same command. Readers come first, their sources last, so that no
reader can go on with a source that was renewed without it.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from common.config.paths import Layout
from common.declare import (
    Bronze,
    Custom,
    DeltaTable,
    Files,
    FileSink,
    Pipeline,
    Publish,
    Silver,
    Stream,
    Table,
)
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_text, expired_topics
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.checkpoint_repair import Change, plan_repair, repair
from common.errors import CheckpointMismatchError, MedallionError, UsageError
from common.machine.storage_folder import StorageFolder
from common.streaming.topic_identity import coordinate_ends
from orchestration.access.declaration.lineage import in_data_order, sources
from orchestration.access.history.effort import Effort, effort_of
from orchestration.change.recover.damage import (
    SparkSource,
    damage,
    needs_positions_only,
    other_history,
    refuse_lost_source,
    table_damage,
)
from orchestration.change.recover.file_list import written_again
from orchestration.change.recover.lost_records import Ask, require_records
from orchestration.records.rejudge.stage import record_paths
from orchestration.run.start_checks import list_fault, publication_repair

Kind = Literal["repair", "refill", "rebuild", "publish again"]


@dataclass(frozen=True, slots=True)
class Step:
    """What is done for one query."""

    query: str  # the table that the query writes, or its publication
    kind: Kind  # see above
    reasons: tuple[str, ...]  # why, in words; at least one
    reads: tuple[str, ...] = ()  # the tables from which the rows come again; empty for a repair
    changes: tuple[Change, ...] = ()  # the files of the checkpoint that a repair writes or takes out
    moves: tuple[str, ...] = ()  # the folders that are moved aside, in this order
    folder: str = ""  # the folder of the changes; empty: the checkpoint
    effort: Effort = field(default_factory=Effort)  # what the next start reads


def plan(
    pipeline: Pipeline,
    layout: Layout,
    spark: SparkSource | None,
    *,
    only: str | None = None,
    ask: Ask | None = None,
) -> tuple[Step, ...]:
    """The steps that make a pipeline right again, in data order; none where nothing is damaged.

    Args:
        spark: Gives a session, if a state is to be read; None: no state is.
        only: A query to look at; others are included only if they read what is filled again, or have read
            what a repaired table has lost.
        ask: Asks the broker for what it still has; None: it is not asked.

    Raises:
        BrokerError: The broker does not say whether silver, filled again, would lose rows.
        CheckpointMismatchError: A bronze table cannot be made again; or silver, filled again, would lose rows
            whose records are nowhere else.
        UsageError: A checkpoint or a table that must be moved is in an object store.
    """
    steps: list[Step] = []
    renewed: set[str] = set()
    repaired: set[str] = set()
    for declared in (*pipeline.bronze, *pipeline.silver, *in_data_order(pipeline.gold), *pipeline.publish):
        if layout.bronze is not None and isinstance(declared, Bronze):
            continue  # the sandbox only reads it
        reasons = tuple(
            f"{source}, which it reads, is filled again"
            for source in (() if isinstance(declared, Bronze) else sources(declared))
            if source in renewed
        )
        if not reasons and only in {None, declared.table}:
            if isinstance(declared, Files) and (again := tuple(_list_again(layout, declared, spark))):
                steps += again
                continue
            is_deep = only == declared.table
            reasons = damage(layout, declared, spark, is_deep=is_deep)
            repaired_by = functools.partial(_sufficient_repair, layout, declared, reasons, spark)
            if reasons and (changes := repaired_by(is_deep=is_deep)) is not None:
                steps.append(Step(declared.table, "repair", reasons, changes=tuple(changes)))
                repaired |= {declared.table, *getattr(declared, "side_tables", ())}
                continue
        elif not reasons and not isinstance(declared, Bronze) and not repaired.isdisjoint(sources(declared)):
            reasons = tuple(other_history(layout, declared))
        if reasons and isinstance(declared, Silver):
            reasons += require_records(layout, declared, pipeline.topics, ask, "medallion recover")
        if reasons and (step := _filled_again(layout, declared, reasons)) is not None:
            steps.append(step)
            if step.kind == "refill" and not isinstance(declared, Publish):
                renewed |= {declared.table, *declared.side_tables}
    return tuple(steps)


def _list_again(layout: Layout, files: Files, spark: SparkSource | None) -> Iterator[Step]:
    """The steps that write a list of files again; none where nothing is wrong with it.

    A micro-batch that is planned and not written is planned again: only the list named its files.
    """
    last = last_commit_metadata(layout.table_path(files.table), files.table)
    if last is None or (fault := list_fault(layout, files, last)) is None:
        return
    end = coordinate_ends(last).get((files.coordinate, 0), 0)
    changes = () if spark is None else tuple(written_again(spark(), layout, files, end))
    reasons, folder = (f"{files.table}: {fault}",), layout.file_list_path(files.table)
    yield Step(files.table, "repair", reasons, changes=changes, folder=folder)
    planned = Checkpoint(layout.checkpoint_path(files.table)).last_planned()
    if planned is not None and planned > last["batch_id"]:
        why = "the table does not have it, and the list that named its files is written again"
        yield Step(files.table, "repair", reasons, changes=(Change(f"offsets/{planned}", None, why),))


def _sufficient_repair(
    layout: Layout,
    declared: Table | Publish,
    reasons: Sequence[str],
    spark: SparkSource | None,
    *,
    is_deep: bool,
) -> list[Change] | None:
    """The changes of a checkpoint after which nothing is damaged any more; None if there are none."""
    if isinstance(declared, Publish):
        return publication_repair(layout, declared, is_deep=is_deep)
    refuse_lost_source(layout, declared)
    try:
        changes = plan_repair(
            declared.table,
            layout.table_path(declared.table),
            layout.checkpoint_path(declared.table),
            has_state=not needs_positions_only(declared),
            side_tables={name: layout.table_path(name) for name in declared.side_tables},
        )
    except MedallionError as error:
        if isinstance(declared, Bronze):
            raise _beyond_repair(layout, declared, (*reasons, str(error))) from error
        return None
    rest: Sequence[str] = reasons
    if changes:
        with _repaired_copy(layout, declared, changes) as copy:
            found, mine = copy.checkpoint_path(declared.table), layout.checkpoint_path(declared.table)
            rest = [one.replace(found, mine) for one in damage(copy, declared, spark, is_deep=is_deep)]
    if rest and isinstance(declared, Bronze):
        raise _beyond_repair(layout, declared, rest)
    return None if rest else changes


def _beyond_repair(layout: Layout, declared: Bronze, reasons: Sequence[str]) -> CheckpointMismatchError:
    kept, again = "Kafka still has all records", "the topics from their first record"
    if isinstance(declared, Files):
        listed = layout.file_list_path(declared.table)
        kept, again = f"{declared.path} still has all files", "the files again, with the same offsets"
        again += f", as long as the list of files stays where it is ({listed})"
    elif isinstance(declared, DeltaTable | Stream):
        kept, again = "the source still has all rows", "the source from its beginning"
    checkpoint = layout.checkpoint_path(declared.table)
    why = "; ".join(one.removeprefix(f"{declared.table}: ").rstrip(".") for one in reasons)
    return CheckpointMismatchError(
        f"{declared.table}: {why}. Bronze is the last resort of all other tables, and its own "
        "commits are not enough to go on. Nothing was changed. Restore the table's newest copy; or, if "
        f"{kept}, move the table and its checkpoint ({checkpoint}) away: the next start reads {again}. Then: "
        "medallion recover"
    )


@contextmanager
def _repaired_copy(layout: Layout, declared: Table, changes: Sequence[Change]) -> Iterator[Layout]:
    """The layout with a repaired copy of the checkpoint in a temporary folder; its state is the same one."""
    path = layout.checkpoint_path(declared.table)
    source = StorageFolder(path)
    with tempfile.TemporaryDirectory(prefix="medallion-recover-") as folder:
        copy = StorageFolder(f"{folder}/{declared.table}")
        for name in ("", "offsets", "commits"):
            part = source / name if name else source
            for file in part.names():
                content = None if (not name and file in _FOLDERS) else part.read(file)
                if content is not None:
                    (copy / name if name else copy).write(file, content)
        repair(copy.path, changes, "copy")
        if source.is_local and Path(source.path, "state").is_dir():
            Path(copy.path, "state").symlink_to(Path(source.path, "state"))
        yield replace(layout, copies={declared.table: copy.path})


_FOLDERS = {"offsets", "commits", "state", "sources"}


def _filled_again(layout: Layout, declared: Table | Publish, reasons: tuple[str, ...]) -> Step | None:
    """The step that lets the next start fill a query's tables again; None if it does so anyway."""
    if isinstance(declared, Bronze):
        raise _beyond_repair(layout, declared, reasons)
    checkpoint = layout.checkpoint_path(declared.table)
    tables = () if isinstance(declared, Publish) else (*declared.side_tables, declared.table)
    paths = [layout.table_path(table) for table in tables]
    if isinstance(declared, Publish) and isinstance(declared.to, FileSink):
        paths = [declared.to.folder]
    kind: Kind = "publish again" if isinstance(declared, Publish) else "refill"
    if not isinstance(declared, Publish | Silver | Custom) and _are_whole(layout, declared):
        kind, paths = "rebuild", []
    if isinstance(declared, Silver):
        # What they say of versions and checkpoints is not true of the new tables.
        paths = [*record_paths(layout, declared.table), *paths]
    # The checkpoint goes last: while it is there, a table that is gone is found by every start.
    moves = tuple(path for path in (*paths, checkpoint) if _is_there(path))
    if not moves:
        return None
    reads = sources(declared)
    if isinstance(declared, Silver) and (lacking := tuple(_not_again(layout, declared))):
        if _are_whole(layout, declared):
            why = "; ".join(reasons).removeprefix(f"{declared.table}: ").rstrip(".")
            raise CheckpointMismatchError(
                f"{declared.table}: {why}. It may have rows of records that retention has "
                f"deleted from {declared.read_text}, and they would not come again. Nothing was changed. A "
                f"rebuild keeps these rows: medallion rebuild {declared.table}; then: medallion recover"
            )
        reasons += lacking
    effort = effort_of(layout, declared.table, reads)
    return Step(declared.table, kind, reasons, reads, moves=moves, effort=effort)


def _not_again(layout: Layout, silver: Silver) -> Iterator[str]:
    """What a silver table that is filled again will lack, in words."""
    for source in silver.sources:
        if expired := expired_topics(LogReader(layout.table_path(source)).properties()):
            yield (
                f"records that retention has deleted from {source} do not come again, and are only in the "
                f"folders that are moved aside: {expired_text(expired)}"
            )


def _are_whole(layout: Layout, declared: Table) -> bool:
    """Whether all tables of a query are there and can be read."""
    for table in (declared.table, *declared.side_tables):
        path = layout.table_path(table)
        if LogReader(path).latest_version() is None or any(table_damage(table, path)):
            return False
    return True


def _is_there(path: str) -> bool:
    folder = StorageFolder(path)
    if folder.is_local:
        return Path(folder.path).exists()
    if folder.names():
        raise UsageError(
            f"{path} is in an object store, which cannot rename a folder. Stop the jobs, move everything "
            "under it elsewhere, and run medallion recover again for what is left to do."
        )
    return False
