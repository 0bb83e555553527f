"""Finds what is gone or damaged of a query: its tables, its checkpoint, its state, its place in the source.

It reads logs, checkpoints and the sizes of data files, and the bytes of those whose digests are noted; not
the rows. Only the state is read by Spark, which alone can tell whether it loads. It writes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.declare import Bronze, Custom, Gold, Join, Publish, Silver, Stateful, Stream, Table
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position_of, follow_move
from common.delta.checksums import file_digests
from common.delta.foreign_commits import brings_rows_back, reads_appends
from common.delta.log import LogReader, is_creation_cut_off
from common.delta.match.checkpoint_match import last_commit_metadata
from common.errors import CheckpointMismatchError, QueryFailedError, TableError
from common.machine.storage_folder import StorageFolder
from common.streaming.error_lines import one_line
from common.streaming.failure_cause import causes_text
from common.streaming.spark_errors import without_values
from orchestration.access.declaration.lineage import sources
from orchestration.run.start_checks import (
    check_beginning,
    check_sources,
    published_file_faults,
    what_happened,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SparkSource = Callable[[], "SparkSession"]
"""Gives a session, and starts it where none runs."""

_STATE_DAMAGE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|INVALID_CHANGE_LOG|STATE_STORE_\w*DOES_NOT_EXIST|LZ4Exception|STDS_FAILED_TO_READ"
    r"|STDS_(?:OFFSET|COMMITTED_BATCH|NO_PARTITION)|EOFException|StreamCorruptedException"
    r"|(?:Checksum|FileNotFound)Exception: [^\n]*/state/"
)
"""Errors with which Spark fails at a state that is damaged or gone, by a part of their text. Any other error
says nothing of the state."""

_SHOWN = 3
_PARSED = 1000
"""How many of the newest commits of a table are parsed."""


def damage(
    layout: Layout, declared: Table | Publish, spark: SparkSource | None, *, is_deep: bool = False
) -> tuple[str, ...]:
    """Why a query cannot go on as its tables and its checkpoint are, in words; empty if it can.

    Args:
        spark: Gives a session, if a state is to be read; None: no state is.
        is_deep: Data files without a digest are read whole, too, and published files must be there: a
            consumer may have taken some away.
    """
    found: list[str] = []
    if isinstance(declared, Publish):
        faults = published_file_faults(declared) if is_deep else ()
        found += (f"{declared.table}: {fault}" for fault in islice(faults, _SHOWN))
    else:
        for table in (declared.table, *declared.side_tables):
            found += table_damage(table, layout.table_path(table), is_deep=is_deep)
        if found:
            return tuple(found)  # what a damaged log says cannot be compared with the checkpoint
    try:
        check_beginning(layout, declared)
        if not isinstance(declared, Publish):
            found += _left_side_tables(layout, declared)
        found += checkpoint_damage(layout, declared)
        found += () if found else source_damage(layout, declared)
    except TableError as error:
        found.append(what_happened(str(error)))
    if not found and spark is not None and not isinstance(declared, Bronze | Publish):
        found += state_damage(layout, declared, spark)
    return tuple(found)


def table_damage(table: str, path: str, *, is_deep: bool = False) -> Iterator[str]:
    """What is wrong with the log and the files of a table; nothing where there is no table.

    Args:
        is_deep: Files without a digest are read whole: Spark's pages have checksums.
    """
    log = LogReader(path)
    latest = log.latest_version()
    if latest is None:
        if StorageFolder(path).exists("_delta_log") and not is_creation_cut_off(path):
            yield f"{table}: the log of the table at {path} has no commit"
        return
    if missing := log.missing_versions():
        yield f"{table}: commit {missing[0]} is gone from the log of the table at {path}"
        return
    try:
        files = log.live_files()
        for _ in log.commits(max(log.oldest_version() or 0, latest - _PARSED)):
            pass
    except TableError as error:
        yield f"{table}: {error}"
        return
    digests = file_digests.noted(path)
    faults = (file_digests.file_fault(path, file, digests, is_deep=is_deep) for file in files)
    wrong = [fault for fault in faults if fault is not None]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        yield f"{table}: {', '.join(wrong[:_SHOWN])}{more}"


def checkpoint_damage(layout: Layout, declared: Table | Publish) -> Iterator[str]:
    """What is wrong with the files of a checkpoint alone."""
    checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
    planned = checkpoint.last_planned()
    if planned is None:
        return
    if planned > 0 and checkpoint.last_committed() is None:
        yield f"{declared.table}: the folder commits of the checkpoint {checkpoint.path} is empty"
    elif (last := checkpoint.last_committed()) is not None and last > planned:
        yield f"{declared.table}: the checkpoint {checkpoint.path} lacks offsets/{last}"
    elif planned > 0 and checkpoint.planned_batch(planned - 1) is None:
        yield f"{declared.table}: the checkpoint {checkpoint.path} lacks offsets/{planned - 1}"


def refuse_lost_source(layout: Layout, declared: Table) -> None:
    """Refuse to write a checkpoint again that held what only its source knows, such as when it began.

    Raises:
        CheckpointMismatchError: The checkpoint of a streaming source is gone.
    """
    if isinstance(declared, Stream) and not Checkpoint(layout.checkpoint_path(declared.table)).exists():
        raise CheckpointMismatchError(
            f"{declared.table}: its checkpoint is gone, and with it what the source {declared.format} kept "
            "there: the commits of the table name positions alone. Nothing was changed. Restore the "
            "checkpoint from a copy, or declare the source under another name, which begins anew."
        )


def source_damage(layout: Layout, declared: Table | Publish) -> Iterator[str]:
    """Why a query cannot read on in its source tables from where its checkpoint is."""
    if isinstance(declared, Bronze):
        return
    checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
    committed, planned = checkpoint.last_committed(), checkpoint.last_planned()
    entry = checkpoint.planned_batch(planned)
    if entry is None or planned is None:
        return
    # A micro-batch that is planned and not committed is read again from the end of the one before.
    before = entry if planned == committed else checkpoint.planned_batch(planned - 1)
    for number, table in enumerate(sources(declared)):
        end = delta_position_of(entry.sources, number)
        start = delta_position_of(before.sources, number) if before else None
        if end is None:
            continue
        path = layout.table_path(table)
        yield from _source_fault(declared.table, table, path, start, end)
        if start is not None and not isinstance(declared, Publish):
            yield from _restore_fault(declared, table, path, start)


def other_history(layout: Layout, declared: Silver | Gold | Publish) -> Iterator[str]:
    """Why a query cannot read on in its sources, without a look at its own tables."""
    is_table = not isinstance(declared, Publish)
    last = last_commit_metadata(layout.table_path(declared.table), declared.table) if is_table else None
    try:
        check_sources(layout, declared, last)
        yield from source_damage(layout, declared)
    except TableError as error:
        yield what_happened(str(error))


def _source_fault(
    query: str, table: str, path: str, start: DeltaPosition | None, end: DeltaPosition
) -> Iterator[str]:
    log = LogReader(path)
    now = log.snapshot()
    if now is None:
        yield f"{query}: {table}, which it has read up to version {end.version}, is gone"
        return
    if end.table_id and end.table_id != now.table_id:
        yield f"{query}: it has read another table than the {table} that is there now"
        return
    if end.version > now.version + 1:
        yield (
            f"{query}: it has read {table} up to version {end.version - 1}, and the table ends with version "
            f"{now.version}"
        )
        return
    for file in () if start is None else log.files_between(start, None):
        if (fault := file_digests.file_fault(path, file._replace(bytes=0), {})) is not None:
            yield f"{query}: it has yet to read {fault} of {table}"
            return


def _restore_fault(declared: Silver | Gold, table: str, path: str, start: DeltaPosition) -> Iterator[str]:
    """A RESTORE that the query has yet to read, and whose rows it would take for new ones."""
    log = LogReader(path)
    for version in range(start.version + start.in_snapshot, (log.latest_version() or 0) + 1):
        commit = log.commit(version)
        if commit is None or not brings_rows_back(commit):
            continue
        if isinstance(declared, Silver) or reads_appends(
            declared.reading.changes, path, takes_rows_back=declared.takes_rows_back
        ):
            yield (
                f"{declared.table}: it has yet to read version {version} of {table}, a RESTORE, whose rows "
                "it would take for new ones"
            )
            return


def state_damage(layout: Layout, declared: Table, spark: SparkSource) -> Iterator[str]:
    """Why the state of a query cannot be loaded; nothing where the query has none, or none yet.

    Nor is the state of a processor looked at that was moved, before ``follow_move``: Spark cannot load it.
    """
    path = layout.checkpoint_path(declared.table)
    planned, committed = Checkpoint(path).last_planned(), Checkpoint(path).last_committed()
    if planned is None or committed is None:
        return
    # The next start continues with the state after this micro-batch: a planned one is run again.
    last = planned if planned == committed else planned - 1
    state = StorageFolder(path) / "state"
    operators = sorted(name for name in state.names() if name.isdigit())
    if not operators:
        if has_state(declared):
            yield f"{declared.table}: the state of its query is gone from {state.path}"
        return
    if isinstance(declared, Stateful) and _is_moved(path, state):
        return
    sides = ("left", "right") if isinstance(declared, Join) and declared.mode == "stream" else (None,)
    for operator in operators:
        for side in sides:
            options = {"operatorId": operator, "batchId": str(last)} | ({"joinSide": side} if side else {})
            is_own = isinstance(declared, Stateful)
            fault = _state_fault(declared.table, path, options, spark(), is_of_processor=is_own)
            if fault is not None:
                yield f"{declared.table}: Spark cannot load the state in {state.path}/{operator}: {fault}"
                return


def _is_moved(path: str, state: StorageFolder) -> bool:
    """Whether a processor's state names its schemas where the checkpoint was before it was moved."""
    link = Path(state.path)  # of a repaired copy, to the state of the checkpoint itself
    home = str(link.readlink().parent) if state.is_local and link.is_symlink() else path
    return bool(follow_move(home, is_look=True))


def _state_fault(
    table: str, path: str, options: Mapping[str, str], spark: SparkSession, *, is_of_processor: bool = False
) -> str | None:
    """What is damaged of one operator's state, in words; None if the state can be read."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    _ = spark.streams  # creates the coordinator of state stores, which the first query of a session creates
    try:
        if is_of_processor:
            variable = _variable(path, options["operatorId"], spark)
            if not variable:
                return "what it holds is written nowhere (_metadata)" if variable is None else None
            options = {**options, **variable}
        spark.read.format("statestore").options(**options).load(path).count()
    except (PySparkException, Py4JJavaError) as error:
        cause = without_values(one_line(str(error)), str(error))[:200]
        if _STATE_DAMAGE.search(f"{error}\n{causes_text(error)}") is not None:
            return cause
        raise QueryFailedError(
            table,
            f"Spark did not read its state in {path}/state, which may be whole: {cause}. Nothing was "
            f"changed. Run the command again",
        ) from error
    return None


def _variable(path: str, operator: str, spark: SparkSession) -> Mapping[str, str] | None:
    """The options that name a state variable of a processor, or its timers: all are in one store.

    None where Spark finds no metadata of the state, or another one; empty where the processor keeps nothing.
    """
    known = spark.read.format("state-metadata").load(path).where(f"operatorId = {operator}").first()
    try:
        found = json.loads(known.operatorProperties) if known is not None else {}
        names, times = [one["stateName"] for one in found["stateVariables"]], found["timeMode"]
    except (KeyError, TypeError, ValueError):
        return None
    own = [name for name in names if not name.startswith("$")]  # Spark's own are those of timers
    if own:
        return {"stateVarName": own[0]}
    return {} if times == "NoTime" else {"readRegisteredTimers": "true"}


def has_state(declared: Table) -> bool:
    """Whether the query of a table always keeps state; for a ``Custom`` only its checkpoint says."""
    if isinstance(declared, Silver):
        return declared.dedupe != "exact"
    return not isinstance(declared, Bronze) and declared.keeps_state


def needs_positions_only(declared: Table) -> bool:
    """Whether positions are all that the checkpoint of a table's query holds."""
    return isinstance(declared, Bronze) or (isinstance(declared, Silver) and declared.dedupe == "exact")


def _left_side_tables(layout: Layout, declared: Table) -> Iterator[str]:
    """Side tables of a query whose checkpoint and table are gone: a start would write their rows again."""
    if not isinstance(declared, Silver | Custom):
        return
    if Checkpoint(layout.checkpoint_path(declared.table)).query_id() is not None:
        return
    for table in declared.side_tables:
        if last_commit_metadata(layout.table_path(table), declared.table) is not None:
            yield f"{table}: the table has rows of a query whose checkpoint and table are gone"
