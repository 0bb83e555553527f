"""What is checked before a query starts: its checkpoint, its tables and its declaration.

``Wiring`` runs these checks for every table of a job before it creates or changes any table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from common.config.paths import Layout
from common.declare import Bronze, Custom, Files, FileSink, Gold, Publish, Silver, Stateful, Table
from common.declare.declared import is_outside, source_of
from common.delta import delta_rs
from common.delta.checkpoint import Checkpoint, delete_interrupted_first_writes, follow_move
from common.delta.match.batch_match import SideStep, check_positions, check_steps
from common.delta.match.checkpoint_match import (
    check_checkpoint,
    check_side_table,
    is_out_of_sight,
)
from common.delta.match.checkpoint_repair import Change
from common.delta.match.source_match import SourceNote, reads_others, refuse_other_history
from common.delta.micro_batch import SOURCE_COMMITS
from common.errors import CheckpointMismatchError, MedallionError, PipelineError, Problem, TableError
from common.machine.console import say
from common.spark.session_conf import SHUFFLE_PARTITIONS
from common.streaming.file_list import FileList
from common.streaming.table_watch import Beginning, ReadUpTo
from common.streaming.topic_identity import coordinate_ends
from gold.publish.published import PublishedFiles, lock_folders, plan_files_repair, refuse_other_publication
from gold.query import former_side_tables, missing_feed_warning
from gold.query import side_steps as gold_side_steps
from gold.table.context import Context
from gold.table.declaration_marks import changed_attributes, meaning
from orchestration.access.declaration import last_declaration
from orchestration.access.declaration.last_declaration import OWN_CODE, changed_code
from orchestration.access.progress.erased import erased_again, newest_erased
from orchestration.access.progress.rows_read import streamed_tables
from orchestration.access.progress.state_partitions import other_partitions
from orchestration.records.rejudge import stage
from silver.query import rule_change_notice, rule_changes, unfinished_batch_refusal
from silver.write.writer import side_steps as silver_side_steps

LastCommit = Mapping[str, Any]
"""The metadata of a table's newest commit by its query."""


class Judged(NamedTuple):
    """A query whose start is not refused."""

    # The metadata of the newest commit by the query; None if there is none or the query starts afresh.
    last: LastCommit | None
    beginning: Beginning  # what was judged: the watches of the query begin there


@contextmanager
def nothing_changed_if_refused() -> Iterator[TornCommits]:
    """Put the torn commits back that checks in the block have taken away, if one of them refuses."""
    torn = TornCommits()
    try:
        yield torn
    except MedallionError:
        torn.put_back()
        raise


@dataclass
class TornCommits:
    """The newest commits that a power cut left without their text or their files, and that are taken away."""

    _put_back: list[Callable[[], object]] = field(default_factory=list)

    def take_away(self, layout: Layout, declared: Table) -> None:
        """Take away those of the tables of a query, and the hints of logs that lead nowhere."""
        checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
        query_id, committed = checkpoint.query_id(), checkpoint.last_committed()
        for source in streamed_tables(layout, declared):
            # Another program writes a table outside, and one that is named by its path.
            if source.table not in layout.outside and not is_outside(source.table):
                delta_rs.delete_dangling_hint(source.path)
        for table in (declared.table, *declared.side_tables):
            path = layout.table_path(table)
            delta_rs.delete_dangling_hint(path)
            self._put_back.append(delta_rs.roll_back_torn_commit(path, query_id, committed))

    def put_back(self) -> None:
        """Have the commits there again as they were, newest first."""
        while self._put_back:
            self._put_back.pop()()


def check_all(
    context: Context, tables: Sequence[Table], publish: Sequence[Publish], torn: TornCommits
) -> dict[str, Judged]:
    """``check_table`` of tables and ``check_publication`` of publications; each table as it was judged.

    Raises:
        CheckpointMismatchError: One of them cannot go on; where several cannot, it names all of them.
    """
    judged: dict[str, Judged] = {}
    refusals: list[CheckpointMismatchError] = []
    for declared in (*tables, *publish):
        try:
            if isinstance(declared, Publish):
                check_publication(context, declared)
            else:
                judged[declared.table] = check_table(context, declared, torn)
        except CheckpointMismatchError as error:
            refusals.append(error)
    if refusals:
        raise _one_refusal(refusals) from refusals[0]
    return judged


def _one_refusal(refusals: Sequence[CheckpointMismatchError]) -> CheckpointMismatchError:
    """The refusal that tells of all: what happened to each, and one command for those that have one."""
    if len(refusals) == 1:
        return refusals[0]
    by_command = [str(one) for one in refusals if "medallion recover" in str(one)]
    others = [str(one) for one in refusals if str(one) not in by_command]
    lines = [
        f"{len(refusals)} queries cannot go on as their tables and checkpoints are. Nothing was written."
    ]
    lines += [f"- {what_happened(text)}" for text in by_command] + [f"- {text}" for text in others]
    if by_command:
        lines.append(
            "Restore the newest copies; or have all of it made right again, with the jobs stopped: "
            "medallion recover. What it would do: medallion recover --plan"
        )
    return CheckpointMismatchError("\n".join(lines))


def what_happened(text: str) -> str:
    """The sentences of a refusal before those that say what to do."""
    for words in (" Nothing was", " Restore ", " Going on", " Starting without", " To have the rows"):
        text = text.partition(words)[0]
    return text


def check_table(context: Context, declared: Table, torn: TornCommits) -> Judged:
    """Prepare a table for its query: repair what a kill left, refuse a wrong checkpoint, print warnings.

    Args:
        torn: Takes away what a power cut left; of ``nothing_changed_if_refused``.

    Raises:
        CheckpointMismatchError: The checkpoint does not belong to the tables.
    """
    make_checkpoint_startable(context, declared)
    torn.take_away(context.layout, declared)
    judged = check_beginning(context.layout, declared)
    if isinstance(declared, Bronze | Silver):
        _warn_of_erased_records(context, declared)
    if isinstance(declared, Bronze):
        return judged
    if not isinstance(declared, Silver) and (warning := missing_feed_warning(context, declared)) is not None:
        say(warning, level="warning")
    _warn_of_other_partitions(context, declared)
    return judged


def _warn_of_erased_records(context: Context, declared: Bronze | Silver) -> None:
    """Say which tables have records again that were erased: an older copy was put back."""
    sources = declared.sources if isinstance(declared, Silver) else (declared.table,)
    readers = [one.table for one in context.pipeline.silver if not {*sources}.isdisjoint(one.sources)]
    try:
        known = newest_erased(context.layout, sources) if readers else None
    except TableError as error:
        say(
            f"{declared.table}: whether erased records are there again cannot be told: {error}. Restore that "
            "table from a copy: it names what was erased",
            level="warning",
        )
        return
    for table in () if known is None else (declared.table, *declared.side_tables):
        if again := erased_again(context.layout, known, table):
            say(
                f"{table} has {again:,} records again that were erased: an older copy was put back. Once "
                f"silver has read all of bronze: medallion erase {readers[0]} --where false",
                level="warning",
            )


def check_publication(context: Context, declared: Publish) -> Judged:
    """As ``check_table``, for a query that writes no table.

    Raises:
        CheckpointMismatchError: The history of the table that it reads is another one than it has published.
    """
    make_checkpoint_startable(context, declared)
    return check_beginning(context.layout, declared)


def check_beginning(layout: Layout, declared: Table | Publish) -> Judged:
    """Judge where a query begins, at a start or once more in a job that runs; nothing is changed.

    Raises:
        CheckpointMismatchError: The checkpoint does not belong to the tables, or a source is another one.
    """
    tables = () if isinstance(declared, Publish) else (declared.table, *declared.side_tables)
    checkpoint = layout.checkpoint_path(declared.table)
    beginning = Beginning.of((layout.table_path(table) for table in tables), checkpoint)
    if isinstance(declared, Publish):
        read = check_sources(layout, declared, None)
        refuse_other_publication(declared, Checkpoint(checkpoint), streamed_tables(layout, declared))
        return Judged(None, replace(beginning, read=read))
    last = check_checkpoint_and_tables(layout, declared)
    return Judged(last, replace(beginning, read=check_sources(layout, declared, last)))


def publication_repair(layout: Layout, declared: Publish, *, is_deep: bool = False) -> list[Change] | None:
    """What brings a publication's checkpoint to the files that it has written; None: positions do not.

    With ``is_deep`` all of these files must be there.
    """
    checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
    return plan_files_repair(declared, checkpoint, streamed_tables(layout, declared), is_deep=is_deep)


def published_locks(publications: Sequence[Publish]) -> dict[str, Path]:
    """By publication to files on a local disk, the folder of its lock file; only folders that are there."""
    return {name: folder for name, folder in lock_folders(publications).items() if folder.is_dir()}


def published_file_faults(declared: Publish) -> Iterator[str]:
    """What is wrong with the files that a publication has written, in words."""
    if isinstance(declared.to, FileSink):
        yield from PublishedFiles(declared.to.folder).file_faults()


def check_sources(layout: Layout, declared: Table | Publish, last: LastCommit | None) -> ReadUpTo:
    """Refuse to read on in a source that an older copy has replaced.

    Args:
        last: The metadata of the newest commit by the query; of a publication its checkpoint is asked.

    Returns:
        How far the query has read, as far as a later look can compare it.

    Raises:
        CheckpointMismatchError: Names the source, and the version that is another one.
    """
    sources = streamed_tables(layout, declared)
    if not sources:
        return ReadUpTo()
    checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
    if isinstance(declared, Publish):
        last = SourceNote(checkpoint.path).read()
    read = ReadUpTo()
    if last:
        read = ReadUpTo(last.get("positions") or (), last.get(SOURCE_COMMITS) or ())
        refuse_other_history(declared.table, *read, sources)
        if reads_others(read.commits, sources):
            return ReadUpTo()
    planned = checkpoint.planned_batch(checkpoint.last_planned())
    if planned is not None:
        refuse_other_history(declared.table, planned.sources, (), sources)
    return read if last else ReadUpTo(planned.sources if planned is not None else ())


def make_checkpoint_startable(context: Context, declared: Table | Publish) -> None:
    """Repair what Spark refuses: temporary files of a first micro-batch that was killed, a moved state."""
    checkpoint = context.layout.checkpoint_path(declared.table)
    delete_interrupted_first_writes(checkpoint)
    if isinstance(declared, Stateful):
        follow_move(checkpoint)


def check_declaration(context: Context, declared: Table, last: LastCommit | None) -> None:
    """Refuse a declaration under which the table's existing rows would have other values.

    A silver table keeps the verdicts of its rows: a rule that has changed is printed, unless a micro-batch
    was cut off after its first write. So is a class or function of the user's own that has changed.

    Call it after the table's columns were checked: ``medallion rebuild`` does not help if columns differ.

    Raises:
        PipelineError: Names the attributes that differ, and the ways to go on.
    """
    if isinstance(declared, Silver):
        for refusal in (
            sources_refusal(context.layout, declared),
            dedupe_refusal(context.layout, declared),
            cut_off_refusal(context.layout, declared, last),
        ):
            if refusal is not None:
                raise PipelineError([refusal])
        if last is not None and (notice := rule_change_notice(declared, last)) is not None:
            say(notice)
        return
    if (problem := declaration_problem(declared, last, context.settings.gold.accept_changed)) is not None:
        raise PipelineError([problem])
    code = None if last is None else changed_code(context.layout.checkpoint_path(declared.table), declared)
    if code is not None:
        say(f"{declared.table}: {code} has changed since the last start: {OWN_CODE[code]}.")


def judge_declaration(
    declared: Table, last: LastCommit | None, marks: Mapping[str, str], accepted: Collection[str] = ()
) -> Problem | None:
    """Why a start refuses a declaration; None if it does not. Reads nothing.

    Args:
        declared: The table; the declaration of a bronze or silver table is never refused.
        last: The metadata of the newest commit by the table's query; None if the query starts afresh.
        marks: The marks of the declaration in force.
        accepted: Tables whose changed declarations are accepted.
    """
    table = declared.table
    if isinstance(declared, Bronze | Silver) or last is None or "declared" not in last or table in accepted:
        return None
    differs = changed_attributes(last["declared"], marks)
    if not differs:
        return None
    text = (
        "differs from the declaration under which the table was last written: rows that no new event "
        f"touches would keep their old values. Fill the table again: medallion rebuild {table}; or "
        "restore the old declaration; or keep the existing rows as they are: "
        f"--set 'gold.accept_changed=[\"{table}\"]'"
    )
    return Problem(f"{table}, {' and '.join(differs)}", text, source_of(declared))


def cut_off_refusal(layout: Layout, declared: Silver, last: LastCommit | None) -> Problem | None:
    """Why a start refuses other rules than those of a half written micro-batch; None if it does not."""
    if last is None:
        return None
    committed = Checkpoint(layout.checkpoint_path(declared.table)).last_committed()
    refusal = unfinished_batch_refusal(declared, last, committed)
    return None if refusal is None else Problem(declared.table, refusal, source_of(declared))


def sources_refusal(layout: Layout, declared: Silver) -> Problem | None:
    """Why a start refuses other bronze tables than those that the table was filled from; None if not.

    A query's checkpoint has a position of each of its sources, in their order. That of one table is judged by
    the id of the table instead.
    """
    checkpoint = layout.checkpoint_path(declared.table)
    entry = Checkpoint(checkpoint).planned_batch(Checkpoint(checkpoint).last_planned())
    before = last_declaration.recorded(checkpoint)
    if entry is None or before is None:
        return None
    now = f"[{', '.join(declared.sources)}]" if len(declared.sources) > 1 else declared.source
    former = before.attributes.get("reads", now)
    if former == now or "[" not in former + now:
        return None
    text = (
        f"the table was filled from {former} and is declared with {now}. The checkpoint has the positions of "
        "the former, in their order. Nothing was written. Fill the table again: "
        f"medallion rebuild {declared.table}; or restore the former declaration"
    )
    return Problem(f"{declared.table}, reads", text, source_of(declared))


def dedupe_refusal(layout: Layout, declared: Silver) -> Problem | None:
    """Why a start refuses another kind of dedupe: only one of both has a state; None if it does not."""
    checkpoint = layout.checkpoint_path(declared.table)
    before = last_declaration.recorded(checkpoint)
    if before is None or Checkpoint(checkpoint).last_planned() is None:
        return None
    former = before.attributes.get("dedupe", "within_watermark")
    if (former == "exact") == (declared.dedupe == "exact"):
        return None
    text = (
        f"the table was filled with dedupe={former!r} and is declared with {declared.dedupe!r}. The query of "
        "one of them has a state that the other one has not. Nothing was written. Fill the table again: "
        f"medallion rebuild {declared.table}; or restore the former declaration"
    )
    return Problem(f"{declared.table}, dedupe", text, source_of(declared))


def unrecorded_changes(declared: Table, last: LastCommit | None) -> tuple[str, ...]:
    """What the marks of a silver table's newest commit show as changed; the texts are not known."""
    return tuple(rule_changes(declared, last)) if isinstance(declared, Silver) and last is not None else ()


def declaration_problem(
    declared: Table, last: LastCommit | None, accepted: Collection[str]
) -> Problem | None:
    """``judge_declaration`` by the marks of the declaration itself."""
    if isinstance(declared, Bronze | Silver):
        return None
    return judge_declaration(declared, last, meaning(declared), accepted)


def check_checkpoint_and_tables(layout: Layout, declared: Table) -> LastCommit | None:
    """Refuse a checkpoint that does not belong to the tables; returns the result of ``check_checkpoint``.

    Raises:
        CheckpointMismatchError: The checkpoint does not belong to the tables.
    """
    if isinstance(declared, Silver):
        stage.refuse_unfinished(layout, declared.table)
    checkpoint = layout.checkpoint_path(declared.table)
    can_refill = not isinstance(declared, Bronze | Silver | Custom)
    is_shared = declared.table in {*layout.shared, *layout.shared.values()}
    last = check_checkpoint(
        declared.table,
        layout.table_path(declared.table),
        checkpoint,
        may_begin_anew=can_refill,
        is_shared=is_shared,
    )
    if last is None and isinstance(declared, Files):
        _refuse_list_without_checkpoint(layout, declared)
    for side_table in _former_side_tables(declared, last):
        path = layout.table_path(side_table)
        check_side_table(side_table, path, checkpoint, declared.table)
        if isinstance(declared, Custom):
            # Every table of a Custom has a commit of every micro-batch, and none can be filled again.
            check_checkpoint(side_table, path, checkpoint, query=declared.table)
    path = layout.table_path(declared.table)
    check_positions(declared.table, path, checkpoint)
    check_steps(declared.table, path, checkpoint, _side_steps(layout, declared))
    if isinstance(declared, Files) and (fault := list_fault(layout, declared, last)) is not None:
        raise CheckpointMismatchError(
            f"{declared.table}: {fault}. Going on would read files a second time. Nothing was written. "
            "Restore the folder from a copy, or have it written again by the rows of the table: medallion "
            f"recover {declared.table}"
        )
    return last


def _former_side_tables(declared: Table, last: LastCommit | None) -> tuple[str, ...]:
    """The side tables that must exist: those that the query had when it last wrote its table."""
    if isinstance(declared, Bronze | Silver) or last is None:
        return declared.side_tables
    return former_side_tables(declared, last.get("declared"))


def list_fault(layout: Layout, files: Files, last: LastCommit | None) -> str | None:
    """What is wrong with the list of files of a table, in words; None if nothing is.

    Args:
        last: The metadata of the newest commit by the table's query.
    """
    listed, path = FileList(layout.file_list_path(files.table)), layout.file_list_path(files.table)
    read = coordinate_ends(last).get((files.coordinate, 0), 0)
    try:
        listed.update(0)
    except (ValueError, KeyError):
        return f"a part of the list of files in {path} is damaged, and the table has read up to {read:,}"
    if listed.end >= read:
        return None
    return (
        f"the list of files in {path} ends at offset {listed.end:,}, and the table has read up to {read:,}: "
        "it is lost, or an older copy"
    )


def _refuse_list_without_checkpoint(layout: Layout, files: Files) -> None:
    """Refuse to read listed files again where the table cannot show whether it has their records."""
    listed = FileList(layout.file_list_path(files.table))
    listed.update(0)
    checkpoint = layout.checkpoint_path(files.table)
    is_unknown = is_out_of_sight(layout.table_path(files.table))
    if is_unknown and listed.end and not Checkpoint(checkpoint).exists():
        raise CheckpointMismatchError(
            f"{files.table}: the list of files in {layout.file_list_path(files.table)} has {listed.end:,} "
            f"records, but the checkpoint {checkpoint} is gone. Starting without it could write records "
            f"twice. Restore the checkpoint, or write it again: medallion recover {files.table}"
        )


def _side_steps(layout: Layout, declared: Table) -> tuple[SideStep, ...]:
    """The steps that not every micro-batch of a table's query has."""
    if isinstance(declared, Bronze):
        return ()
    if isinstance(declared, Silver):
        return silver_side_steps(declared, layout.table_path)
    return gold_side_steps(declared, layout.table_path)


def _warn_of_other_partitions(context: Context, declared: Silver | Gold) -> None:
    checkpoint = Checkpoint(context.layout.checkpoint_path(declared.table))
    wanted = int(str(context.spark.conf.get(SHUFFLE_PARTITIONS)))
    if (warning := other_partitions(declared, checkpoint, wanted)) is not None:
        say(warning, level="warning")
